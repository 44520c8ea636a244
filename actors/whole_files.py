"""Writes files that other processes see whole or not at all."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yields another path in the folder of a file. What the block writes there takes the file's place at its end.

    The folder is made. Nothing is left of a block that fails. Raises OSError.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # Other processes and threads may write the same file.
    unfinished = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}")
    try:
        yield unfinished
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
