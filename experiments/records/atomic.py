"""Writes a file whole or not at all, even if the process is killed or the power fails meanwhile."""

from __future__ import annotations

import os
from pathlib import Path


def write_atomically(path: Path, content: bytes) -> None:
    """Replaces `path`: a reader finds the old content or the new one. Raises OSError when there is no room."""
    # In the same folder: a rename is atomic only within one file system.
    beside = path.with_name(f".{path.name}.partial")
    with beside.open("wb") as file:
        file.write(content)
        file.flush()
        # Before the rename, or a power cut could leave the new name with an empty file.
        os.fsync(file.fileno())
    os.replace(beside, path)
    # Without this a power cut may undo the renaming, which lives in the folder.
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
