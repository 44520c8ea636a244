"""Keeps readings of a release in the cache, so that an unchanged release is read once."""

import hashlib
import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from pydantic import TypeAdapter, ValidationError

from actors.errors import UserError
from actors.whole_files import whole_file
from experiments.datasets.folder import FileState, state_of
from experiments.datasets.item import Item

FOLDER = "questions"  # of chosen questions, in the cache


class ReleaseReading(Protocol):
    """Reading of a release. files: size and date of every file that it depends on."""

    @property
    def files(self) -> Mapping[str, FileState | None]: ...


R = TypeVar("R", bound=ReleaseReading)


@dataclass(frozen=True)
class ChosenItems:
    """Chosen questions of a split. files, notes: size and date of what was read, and what its user should know."""

    files: Mapping[str, FileState | None]
    notes: tuple[str, ...]
    items: tuple[Item, ...]


CHOSEN_ITEMS = TypeAdapter(ChosenItems)


def code_key(loader: type, *parts: object) -> str:
    """Digests the code of a loader and what else decides how it reads a release."""
    digest = hashlib.blake2b(repr([loader.__qualname__, *parts]).encode(), digest_size=12)
    for module in sorted({Path(inspect.getfile(loader)), *Path(__file__).parent.glob("*.py")}):
        digest.update(module.read_bytes())
    return digest.hexdigest()


def read_unchanged(path: Path, schema: TypeAdapter[R]) -> R | None:
    """Reads an earlier reading. None where there is none, or where a file of the release has changed."""
    try:
        reading = schema.validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return None
    is_unchanged = all(state_of(file) == state for file, state in reading.files.items())
    return reading if is_unchanged else None


def write_whole(path: Path, content: bytes) -> None:
    """Writes a file, which others see whole or not at all. Raises UserError where it cannot be written."""
    try:
        with whole_file(path) as unfinished:
            unfinished.write_bytes(content)
    except OSError as error:
        raise UserError(f"{path} cannot be written ({error}): free some disk space") from error
