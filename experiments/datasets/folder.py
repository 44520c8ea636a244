"""The folder of a benchmark's release: the one place where a name that the release says becomes a file that is read.

What a release names may be wrong or meant to do harm: only regular files inside the folder are ever opened, so that no
other file of the machine gets into a prompt. Links that stay inside are followed; those that lead outside only with
`data.allow_links=true`.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

from actors.errors import UserError
from experiments.datasets.layouts.limits import DEPTH, FRAMES, NAME

# What needs no further look: the name of nearly every file in a release, one of tens of thousands.
_PLAIN = re.compile(r"[A-Za-z0-9_-]{1,120}(\.[A-Za-z0-9]{1,10})?")


class Folder:
    """A release's folder. `release` says where the files come from, for errors."""

    def __init__(self, root: Path, release: str, *, allow_links: bool = False) -> None:
        self.root = root
        self._release = release
        self._allow_links = allow_links

    def __str__(self) -> str:
        return str(self.root)

    def find(self, name: str, *, packed: bool = False) -> Path:
        """The file of a fixed name, or with `packed` also `<name>.gz`; the plain file wins where both exist.

        Raises UserError when there is none.
        """
        if not self.root.is_dir():
            raise UserError(
                f"data folder {self.root} does not exist: give the folder that holds {name} ({self._release})"
            )
        for candidate in (name, f"{name}.gz") if packed else (name,):
            if path := self.file(candidate):
                return path
        alternative = " (or .gz)" if packed else ""
        raise UserError(f"missing data file {self.root / name}{alternative}: copy it there from {self._release}")

    def file(self, *names: str) -> Path | None:
        """The regular file of that path below the folder; None where there is nothing, or a folder.

        Raises UserError for a path that leads outside or that no file can have, and for what is no regular file.
        """
        path = self._below(names)
        mode = _mode(path)
        if mode is None or stat.S_ISDIR(mode):
            return None  # most often: releases come without their pictures
        if not stat.S_ISREG(mode):
            # A named pipe would keep the run waiting, and a device never ends.
            raise UserError(f"{path} is not a regular file: put the file of {self._release} in its place")
        self._check_inside(path)
        return Path(path)

    def folder(self, *names: str) -> Path | None:
        """The folder of that path; None where there is none. Raises UserError like `file`."""
        path = self._below(names)
        mode = _mode(path)
        if mode is None or not stat.S_ISDIR(mode):
            return None
        self._check_inside(path)
        return Path(path)

    def files(self, *names: str) -> list[Path]:
        """The regular files directly in a folder, sorted: file systems list in different orders. Raises like `file`."""
        folder = self.folder(*names)
        return [] if folder is None else sorted(filter(None, (self.file(*names, name) for name in _names(folder))))

    def folders(self, *names: str) -> list[str]:
        """The names of the folders directly in a folder, sorted. Raises UserError like `file`."""
        folder = self.folder(*names)
        return [] if folder is None else sorted(name for name in _names(folder) if self.folder(*names, name))

    def files_below(self, *names: str) -> Iterator[Path]:
        """The regular files in a folder and all its folders, in no order.

        Raises UserError like `file`, for a folder that links lead to a second time, and for too many files or folders.
        """
        left, number = [names], 0
        seen: set[str] = set()
        while left:
            folder = left.pop()
            self._check_new(folder, len(folder) - len(names), seen)
            for file in self.files(*folder):
                if (number := number + 1) > FRAMES:
                    where = self.root.joinpath(*names)
                    raise UserError(f"{where} has more than {FRAMES:,} files: copy them again from {self._release}")
                yield file
            left += [(*folder, name) for name in self.folders(*folder)]

    def _check_new(self, names: tuple[str, ...], depth: int, seen: set[str]) -> None:
        """Raises UserError for a folder that is one of those `seen`, to which it is added, or that lies too deep."""
        path = self.root.joinpath(*names)
        if depth > DEPTH:
            raise UserError(f"{path} lies more than {DEPTH} folders deep: copy the folder again from {self._release}")
        # By links inside of the release a few folders can have paths without number.
        if (real := os.path.realpath(path)) in seen:
            raise UserError(f"{path} leads to a folder that is read already, {real}: delete the link")
        seen.add(real)

    def _below(self, names: tuple[str, ...]) -> str:
        """The path of names from a record, which each may be several folders deep."""
        for name in names:
            if _PLAIN.fullmatch(name):
                continue
            if not name.isprintable():
                raise UserError(f"{name!r} in {self.root} is not a name that a file should have: give it another")
            if os.path.isabs(name) or ".." in Path(name).parts:
                raise UserError(f"{name!r} leads outside of {self.root}: expected the path of a file in it")
            if any(len(part.encode()) > NAME for part in Path(name).parts):
                raise UserError(f"{name[:40]!r}... in {self.root} is longer than a file's name may be ({NAME} bytes)")
        return os.path.join(self.root, *names)

    def _check_inside(self, path: str) -> None:
        if self._allow_links:
            return
        if not f"{os.path.realpath(path)}{os.sep}".startswith(self._resolved):
            raise UserError(
                f"{path} is a link that leads outside of {self.root}: copy its file there, or, where the link is your "
                "own, set data.allow_links=true"
            )

    @cached_property
    def _resolved(self) -> str:
        # The folder itself may be a link: the user named it.
        return os.path.realpath(self.root).rstrip(os.sep) + os.sep


def _mode(path: str) -> int | None:
    """The kind of what is there, links followed; None for nothing. Raises UserError when that cannot be told."""
    try:
        return os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}): copy it again or remove it") from error


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError as error:
        raise UserError(f"{folder} cannot be read ({error.strerror}): give its reader the right to") from error
