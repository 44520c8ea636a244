"""A word of the command line as it was meant: YAML takes many a text for something else."""

from __future__ import annotations

import json
import re
import types
from dataclasses import is_dataclass
from enum import Enum
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from actors.backends.model_settings import ModelSettings
from actors.errors import UserError
from actors.reader.reader import ReaderSettings
from actors.settings import shown
from experiments.config.config import Config
from experiments.config.settings import RoleSettings

_OF_A_ROLE = {"model": ModelSettings, "reader": ReaderSettings}
_ODD_NUMBER = re.compile(r"[+-]?0\d|.*:")  # octal, or minutes and seconds: 010 is 8, and 1:30 is 90


def as_written(key: str, text: str) -> str:
    """The value of a word as YAML that means what was written.

    Text is text where the setting holds text (`output=2024_10_01` and `model.name=1.10` are no numbers), unless it
    stands in quotation marks or says null.

    Raises UserError for a number as nobody writes one, and where a `#` would cut the value off.
    """
    kind, optional = _plain(_type_of(key.split("."), Config))
    stripped = text.strip()
    if kind is str and stripped and not _quoted(stripped) and not (optional and stripped in ("null", "~")):
        return json.dumps(text)
    if kind in (int, float) and _ODD_NUMBER.match(stripped):
        raise UserError(f"{key}={shown(text)}: expected a number without leading zeros or :")
    if re.search(r"\s#", text) and not _quoted(stripped) and not stripped.startswith(("[", "{")):
        raise UserError(f"{key}: what follows ` #` is a comment in YAML; put the value into quotation marks")
    return text


def _quoted(text: str) -> bool:
    return len(text) > 1 and text[0] == text[-1] and text[0] in "\"'"


def _type_of(names: list[str], kind: Any) -> Any:
    """The type of the setting under a dotted key; None where there is no such setting, or it may be anything."""
    for number, name in enumerate(names):
        if kind is RoleSettings and name in _OF_A_ROLE and number + 1 < len(names):
            kind = _OF_A_ROLE[name]
        elif is_dataclass(kind):
            kind = get_type_hints(kind).get(name)
        elif get_origin(kind) is dict:
            kind = get_args(kind)[1]
        else:
            return None
    return kind


def _plain(kind: Any) -> tuple[Any, bool]:
    """The type of one value, choices counted as text, and whether it may be null."""
    optional = get_origin(kind) in (Union, types.UnionType)
    if optional:
        parts = [part for part in get_args(kind) if part is not types.NoneType]
        kind = parts[0] if len(parts) == 1 else None
    if get_origin(kind) is Literal or (isinstance(kind, type) and issubclass(kind, (str, Enum))):
        kind = str
    return kind, optional
