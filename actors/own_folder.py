"""Makes a folder in a place that all users share, for one user alone."""

import os
import stat
from pathlib import Path


def own_folder(folder: Path, variable: str) -> Path:
    """Makes a folder that no other user can enter, unless there is one.

    Raises OSError where another user could. The environment variable `variable`, which it names, chooses another place.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.lstat()
    except OSError as error:
        raise OSError(f"cannot make {folder} ({error}); set {variable}=<folder>") from error
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise OSError(f"{folder} is not a folder of yours alone; set {variable}=<folder>")
    return folder
