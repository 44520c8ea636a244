"""LanceDB on disk, imported when the first folder is opened, and in two thirds of the time."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pydantic

if TYPE_CHECKING:
    from lancedb.db import DBConnection


def connect(folder: Path) -> DBConnection:
    """The tables in a folder. Whatever else of LanceDB is needed is imported after it."""
    with nullcontext() if "lancedb" in sys.modules else _calls_unchecked():
        import lancedb
    return lancedb.connect(folder)


@contextmanager
def _calls_unchecked() -> Iterator[None]:
    """LanceDB brings a client of namespace servers, whose 366 calls get a validator each from pydantic while they are
    imported: more than a second, at every start. No folder on disk is behind such a server."""

    def unchecked(call: Callable[..., Any] | None = None, /, **_: object) -> Any:
        return call or unchecked

    checked, pydantic.validate_call = pydantic.validate_call, unchecked
    try:
        yield
    finally:
        pydantic.validate_call = checked
