"""Keeps the chosen questions of a release in the cache, so that an unchanged release is not searched for them again."""

import hashlib
import inspect
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from actors.errors import UserError
from experiments.datasets.folder import FileState, state_of
from experiments.datasets.item import Item

FOLDER = "questions"  # in the cache


@dataclass(frozen=True)
class KeptItems:
    """Chosen questions of a split. files, notes: size and date of what was read, and what its user should know."""

    files: Mapping[str, FileState | None]
    notes: tuple[str, ...]
    items: tuple[Item, ...]


KEPT_ITEMS = TypeAdapter(KeptItems)


def code_key(loader: type, *parts: object) -> str:
    """Digests the code of a loader and what else decides how it reads a release."""
    digest = hashlib.blake2b(repr([loader.__qualname__, *parts]).encode(), digest_size=12)
    for module in sorted({Path(inspect.getfile(loader)), *Path(__file__).parent.glob("*.py")}):
        digest.update(module.read_bytes())
    return digest.hexdigest()


def read_kept(path: Path) -> KeptItems | None:
    """Reads kept items. None where there are none, or where a file of the release has changed."""
    try:
        kept = KEPT_ITEMS.validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return None
    is_unchanged = all(state_of(file) == state for file, state in kept.files.items())
    return kept if is_unchanged else None


def write_whole(path: Path, content: bytes) -> None:
    """Writes a file, which others see whole or not at all. Raises UserError where it cannot be written."""
    unfinished = path.with_suffix(f".{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished.write_bytes(content)
        unfinished.replace(path)
    except OSError as error:
        raise UserError(f"{path} cannot be written ({error}): free some disk space") from error
