"""Short names of settings and values, for tables, figures and the names of folders."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def short_keys(keys: Sequence[str]) -> dict[str, str]:
    """Short forms by key: the last part, or as many of the last parts as tell a key from the others."""
    short = {}
    for key in keys:
        parts = key.split(".")
        # From the shortest ending on.
        endings = (".".join(parts[-n:]) for n in range(1, len(parts) + 1))
        short[key] = next(
            # A key can be the ending of another one (`model` and `judge.model`): then no ending is its own, and it
            # stays whole.
            (end for end in endings if sum(other == end or other.endswith(f".{end}") for other in keys) == 1),
            key,
        )
    return short


def plain(value: Any) -> str:
    """A value as short text, for names and tables."""
    match value:
        case None:
            return "null"
        # Lower case as in the YAML and on the command line, where such a value can be pasted back.
        case bool():
            return str(value).lower()
        case list():
            # A plus sign, because commas separate settings in a trial's name.
            return "+".join(map(plain, value)) or "none"
        case dict():
            return "+".join(f"{key}={plain(part)}" for key, part in value.items()) or "none"
        case _:
            return str(value)
