"""Finds the run folders below the folder that is shown. Nothing outside of it is read, and no link is followed."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import Self

from actors.errors import UserError
from experiments.records.recorder import RunFolder
from experiments.records.trials import TRIALS

CONFIG = "config.yaml"
LEARNED = "learned"
MOST_FILES = 1_000  # directly in a run folder; runs have some twenty
FileState = tuple[str, int, int]  # path, size, and date in nanoseconds


class NoSuchRun(UserError):
    """The folder that is shown has no run of that name."""


@dataclass(frozen=True)
class Root:
    """The folder that is shown. Where it is a run itself, it is the only one: `only` is its name."""

    path: Path
    only: str = ""

    @classmethod
    def open(cls, folder: str) -> Self:
        """Raises UserError where there is no such folder."""
        path = Path(os.path.realpath(Path(folder).expanduser()))
        if not folder or not os.path.isdir(path):  # `Path.is_dir` raises for a name that is too long
            raise UserError(f"view={folder}: is not a folder; give a folder of runs, such as view=runs, or one run")
        if os.path.isfile(path / CONFIG):
            return cls(path.parent, path.name)
        return cls(path)

    def names(self) -> list[str]:
        """Names of the run folders, the latest first."""
        if self.only:
            return [self.only]
        with os.scandir(self.path) as entries:
            folders = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
        return sorted((name for name in folders if _is_file(self.path / name / CONFIG)), reverse=True)

    def run(self, name: str) -> RunFolder:
        """Opens a run by its name in this folder, or `<sweep>/trials/<trial>`.

        Raises NoSuchRun where there is none, or a link alone leads to it, and UserError where it has links, pipes or
        devices in it.
        """
        parts = name.split("/")
        is_run = len(parts) == 1 or (len(parts) == 3 and parts[1] == TRIALS)
        is_shown = self.only in ("", parts[0])
        path = self.path
        for part in parts:
            path = path / part
            if not is_run or not is_shown or part in ("", ".", "..") or "\0" in part or not _is_folder(path):
                raise NoSuchRun(f"{name}: there is no such run in {self.path}")
        return RunFolder.open(path, checks=False)

    def trials(self, sweep: str) -> Iterator[str]:
        """Names of a sweep's trials, as `run` takes them."""
        path = self.path / sweep / TRIALS
        if not _is_folder(path):
            return
        for trial in sorted(os.listdir(path)):
            if _is_folder(path / trial) and _is_file(path / trial / CONFIG):
                yield f"{sweep}/{TRIALS}/{trial}"


def _is_folder(path: Path) -> bool:
    return os.path.isdir(path) and not os.path.islink(path)


def _is_file(path: Path) -> bool:
    return os.path.isfile(path) and not os.path.islink(path)


def files_of(run: RunFolder) -> list[FileState]:
    """Lists name, size and date of the files that a run's overview and results depend on.

    Raises UserError for links, pipes and devices among them. Other folders than those of learned graphs are not looked
    into: whoever reads them checks them.
    """
    files: list[FileState] = []
    folders = [run.path]
    if _is_folder(run.path / LEARNED):
        folders += [Path(entry.path) for entry in _entries(run.path / LEARNED) if entry.is_dir(follow_symlinks=False)]
    for folder in folders:
        for entry in _entries(folder):
            status = entry.stat(follow_symlinks=False)
            if S_ISREG(status.st_mode):
                files.append((entry.path, status.st_size, status.st_mtime_ns))
            elif not S_ISDIR(status.st_mode):
                raise UserError(f"{entry.path} is no plain file: a run folder has plain files only; delete it")
    return sorted(files)


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    """Lists a folder. Raises UserError for one of more entries than any run's."""
    with os.scandir(folder) as entries:
        listed = list(islice(entries, MOST_FILES + 1))
    if len(listed) > MOST_FILES:
        raise UserError(f"{folder} has more than {MOST_FILES:,} files, which no run makes; name an intact run folder")
    return listed
