"""Checks the pictures of a release, and writes those that it holds as base64 text to files."""

from __future__ import annotations

import base64
import binascii
import os
import warnings
from pathlib import Path

from actors.errors import UserError
from actors.pictures import opened


def check_image(path: Path, *, decode: bool = True) -> None:
    """Decodes a picture, or reads its header only. Raises UserError as `opened` raises OSError."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about metadata, which is not read
            with opened(path) as picture:
                if decode:
                    picture.draft("RGB", (1, 1))  # much faster, and every byte is still read
                    picture.load()
    except OSError as error:
        raise UserError(str(error)) from error


def write_picture(file: Path, encoded: str) -> None:
    """Writes a picture in base64 to `file` unless it is there. Its suffix may be wrong: Pillow detects the format.

    Raises UserError for text that is not a picture in base64, and for a file that cannot be written.
    """
    if file.is_file():
        return
    try:
        # Without `validate` foreign characters are skipped, and a damaged file would go unnoticed.
        content = base64.b64decode(encoded.strip(), validate=True)
    except (binascii.Error, ValueError) as error:
        raise UserError(f"the picture is not base64 text ({error}): download the file again") from error
    # Renamed once it is checked: a run that is killed here leaves no half picture.
    part = file.with_name(f"{file.name}.{os.getpid()}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        part.write_bytes(content)
    except OSError as error:
        raise UserError(f"the picture {file} cannot be written ({error}): free some disk space") from error
    try:
        check_image(part)
    except UserError as error:
        part.unlink()
        raise UserError("the picture cannot be decoded: download the file again") from error
    part.replace(file)  # atomic: other processes see the whole picture or none
