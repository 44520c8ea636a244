"""Settings in few letters, for tables, figures and the names of folders."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def short_keys(keys: Sequence[str]) -> dict[str, str]:
    """Each key by its last part, or by as many parts as tell it from the others."""
    short = {}
    for key in keys:
        parts = key.split(".")
        endings = (".".join(parts[-n:]) for n in range(1, len(parts) + 1))
        short[key] = next(
            (end for end in endings if sum(other == end or other.endswith(f".{end}") for other in keys) == 1), key
        )
    return short


def plain(value: Any) -> str:
    """A value in few letters, for names and tables."""
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case list():
            return "+".join(map(plain, value)) or "none"
        case dict():
            return "+".join(f"{key}={plain(part)}" for key, part in value.items()) or "none"
        case _:
            return str(value)
