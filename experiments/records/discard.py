"""Takes back the folder of a run that was refused before anything was recorded in it.

A folder is made early, so that a run that is killed at any moment can be resumed. Of one that was refused nothing is
worth that: it would be an empty folder more for every mistake on the command line.
"""

from __future__ import annotations

import re
import shutil
from contextlib import suppress
from pathlib import Path

# What a run, or a sweep and its trials, writes before the first question is asked; files of records, when they are
# empty.
_BEGINNING = re.compile(r"(trials/[^/]+/)?(config\.yaml|run\.log|model\.json|wandb/.*)|tune/.*")


def missing(path: Path) -> list[Path]:
    """A folder and those above it that are not there yet, the innermost first."""
    return [place for place in (path, *path.parents) if not place.exists()]


def is_recorded(folder: Path) -> bool:
    """True where a run folder holds anything but what every start writes."""
    files = (path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir())
    return any(not _is_beginning(path, path.relative_to(folder).as_posix()) for path in files)


def discard(folder: Path, made: list[Path]) -> None:
    """Removes a run folder in which nothing is recorded, and those of `made` that are then empty."""
    # One that cannot be removed stays: the reason why the run was refused is what is to be said.
    with suppress(OSError):
        if not is_recorded(folder):
            shutil.rmtree(folder)
    for place in made:
        with suppress(OSError):
            place.rmdir()


def _is_beginning(path: Path, name: str) -> bool:
    return bool(_BEGINNING.fullmatch(name)) or (path.suffix == ".jsonl" and path.stat().st_size == 0)
