"""Pictures that a release holds as base64 text, written out as files that readers of pictures can open."""

from __future__ import annotations

import base64
import binascii
import os
from pathlib import Path

from actors.errors import UserError
from experiments.datasets.files import check_image


def write_picture(file: Path, encoded: str, where: str) -> None:
    """Writes a picture to `file` unless it is there. Its suffix may be wrong: readers go by its content.

    `where` begins the UserError for text that is not base64 of a picture. UserError too when it cannot be written.
    """
    if file.is_file():
        return
    try:
        # Without `validate` foreign characters are skipped, and a damaged file would go unnoticed.
        content = base64.b64decode(encoded.strip(), validate=True)
    except (binascii.Error, ValueError) as error:
        raise UserError(f"{where}: the picture is not base64 text ({error}): download the file again") from error
    # Under another name until it is checked: a run that is killed here, or beside another, leaves no half picture.
    half_written = file.with_name(f"{file.name}.{os.getpid()}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        half_written.write_bytes(content)
    except OSError as error:
        raise UserError(f"the picture {file} cannot be written ({error}): free some disk space") from error
    try:
        check_image(half_written)
    except UserError as error:
        half_written.unlink()
        raise UserError(f"{where}: the picture cannot be decoded: download the file again") from error
    half_written.replace(file)  # atomic: other processes see the whole picture or none
