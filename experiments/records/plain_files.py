"""A run folder holds plain files: a link in a folder that somebody else made could lead a run's writes anywhere."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

from actors.errors import UserError

DEPTH = 64  # of folders in folders (about 8, in W&B's of a trial)
# W&B's folder, in that of a run or of a sweep's trial, has links of its own, to the latest run and to a log elsewhere.
# Nobody here reads or writes them, and W&B itself makes a new folder each time and puts new links in the place of old
# ones.
WANDB = re.compile(r"(trials/[^/]+/)?wandb/")


def check_plain(folder: Path) -> None:
    """Raises UserError where anything in a folder is neither a file nor a folder: a link, a pipe, a device.

    The folder itself may be reached by a link: the user has named that one.
    """
    for path in _others(folder):
        if path.is_symlink() and WANDB.match(path.relative_to(folder).as_posix()):
            continue
        what = f"a link to {os.readlink(path)}" if path.is_symlink() else "no file"
        raise UserError(f"{path} is {what}: a run folder holds plain files; put the file itself there, or delete it")


def _others(folder: Path) -> Iterator[Path]:
    """Whatever is neither a file nor a folder; links are not followed. Raises UserError where folders lie too deep."""
    # A stack of folders and their depths: a call within a call for each would end in a RecursionError.
    left = [(str(folder), 0)]
    while left:
        inside, depth = left.pop()
        if depth > DEPTH:
            raise UserError(
                f"{folder} has more than {DEPTH} folders inside each other, as no run leaves them; delete "
                f"{Path(inside).relative_to(folder).parts[0]} in it, or give an intact run folder"
            )
        with os.scandir(inside) as entries:
            # Sorted: which one is named must not depend on the file system.
            for entry in sorted(entries, key=lambda entry: entry.name):
                mode = entry.stat(follow_symlinks=False).st_mode
                if stat.S_ISDIR(mode):
                    left.append((entry.path, depth + 1))
                elif not stat.S_ISREG(mode):
                    yield Path(entry.path)
