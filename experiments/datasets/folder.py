"""Finds the files of a release. Only here a name from it becomes a file that is opened.

A name in a release may be wrong or hostile: only regular files inside the folder are ever opened, so that no other file
of the machine gets into a prompt. Links that stay inside are followed, others only with `data.allow_links=true`.
"""

import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from actors.errors import UserError

NAME = 255  # bytes of a file's name, as file systems have it
DEPTH = 32  # folders inside each other (2 in MH's release)
FRAMES = 100_000  # files of one picture (hundreds, of MH's films)

FileState = tuple[int, int]  # size, and date in nanoseconds


class Folder:
    """A release's folder. `release` names where the files come from, for errors.

    states: size and date of every file and folder that was looked for, by its path; None for nothing there.
    """

    def __init__(self, root: Path, release: str, *, allow_links: bool = False) -> None:
        self.root = root
        self.release = release
        self.states: dict[str, FileState | None] = {}
        self._allow_links = allow_links
        # The folder itself may be a link: the user named it.
        self._resolved = os.path.realpath(root).rstrip(os.sep) + os.sep

    def __str__(self) -> str:
        return str(self.root)

    def find(self, *names: str) -> Path:
        """Finds the first file there of several paths. Raises UserError, with the paths, when there is none."""
        for name in names:
            path = self.file(name)
            if path is not None:
                return path
        raise self._missing([" or ".join(names)])

    def require(self, parts: Iterable[Sequence[str]]) -> None:
        """Raises UserError that names all missing files and folders. Of each, several paths are as good."""
        missing: list[str] = []
        for names in parts:
            if not any(self.file(name) or self.folder(name) for name in names):
                alternatives = f" (or {', '.join(names[1:])})" if names[1:] else ""
                missing.append(f"{names[0]}{alternatives}")
        if missing:
            raise self._missing(missing)

    def _missing(self, names: Sequence[str]) -> UserError:
        return UserError(f"missing in {self.root}: {', '.join(names)}; copy the missing files from {self.release}")

    def file(self, *names: str) -> Path | None:
        """Finds the regular file of a path below the folder. None where there is nothing, or a folder.

        Raises UserError for a path that leads outside or that no file can have, and for anything but a regular file.
        """
        path, mode = self._entry(names)
        if stat.S_ISDIR(mode) or not mode:
            return None  # most often: releases come without their pictures
        if not stat.S_ISREG(mode):
            # A named pipe would block the run, and a device never ends.
            raise UserError(f"{path} is not a regular file: put the file of {self.release} in its place")
        return path

    def folder(self, *names: str) -> Path | None:
        """Finds the folder of a path; None where there is none. Raises UserError like `file`."""
        path, mode = self._entry(names)
        return path if stat.S_ISDIR(mode) else None

    def files(self, *names: str) -> list[Path]:
        """Lists the regular files directly in a folder, sorted. Raises UserError like `file`."""
        paths = [self.file(*names, name) for name in self._listed(names)]
        return [path for path in paths if path]

    def folders(self, *names: str) -> list[str]:
        """Lists the names of the folders directly in a folder, sorted. Raises UserError like `file`."""
        return [name for name in self._listed(names) if self.folder(*names, name)]

    def files_below(self, *names: str) -> Iterator[Path]:
        """Yields the regular files in a folder and all its folders, in no order.

        Raises UserError like `file`, for a folder that links lead to a second time, and for too many files or folders.
        """
        waiting = [names]
        visited = set[str]()
        number = 0

        while waiting:
            folder = waiting.pop()
            path = self.root.joinpath(*folder)
            if len(folder) - len(names) > DEPTH:
                raise UserError(
                    f"{path} lies more than {DEPTH} folders deep: copy the folder again from {self.release}"
                )

            # Links inside of the release can give a few folders paths without number.
            real_path = os.path.realpath(path)
            if real_path in visited:
                raise UserError(f"{path} leads to a folder that is read already, {real_path}: delete the link")

            visited.add(real_path)
            for file in self.files(*folder):
                number += 1
                if number > FRAMES:
                    top = self.root.joinpath(*names)
                    raise UserError(f"{top} has more than {FRAMES:,} files: copy them again from {self.release}")
                yield file

            waiting += [(*folder, name) for name in self.folders(*folder)]

    def _entry(self, names: Sequence[str]) -> tuple[Path, int]:
        """Joins names from a record, each perhaps several folders deep, to a path and its mode; 0 for nothing there."""
        for name in names:
            parts = Path(name).parts
            if not name.isprintable():
                raise UserError(f"{name!r} in {self.root} is not a name that a file should have: give it another")
            if os.path.isabs(name) or ".." in parts:
                raise UserError(f"{name!r} leads outside of {self.root}: expected the path of a file in it")
            if any(len(part.encode()) > NAME for part in parts):
                raise UserError(f"{name[:40]!r}... in {self.root} is longer than a file's name may be ({NAME} bytes)")

        path = self.root.joinpath(*names)
        try:
            status = os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            self.states[str(path)] = None
            return path, 0
        except OSError as error:
            raise UserError(f"{path} cannot be read ({error.strerror}): copy it again or remove it") from error

        if not self._allow_links and not f"{os.path.realpath(path)}{os.sep}".startswith(self._resolved):
            raise UserError(
                f"{path} is a link that leads outside of {self.root}: copy its file there, or, where the link is your "
                "own, set data.allow_links=true"
            )

        self.states[str(path)] = status.st_size, status.st_mtime_ns
        return path, status.st_mode

    def _listed(self, names: Sequence[str]) -> list[str]:
        """Lists the names in a folder, sorted, since file systems list in different orders."""
        folder = self.folder(*names)
        try:
            return sorted(os.listdir(folder)) if folder else []
        except OSError as error:
            raise UserError(f"{folder} cannot be read ({error.strerror}): give its reader the right to") from error


def state_of(path: str) -> FileState | None:
    """Returns size and date of a file or folder. None where it cannot be looked at."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns
