"""Checks keys, and the shape of values: a group, a list or one value."""

from __future__ import annotations

import re
import types
from collections.abc import Mapping
from dataclasses import is_dataclass
from typing import Any, Union, get_args, get_origin, get_type_hints

from actors.errors import UserError
from actors.settings import shown

KEY_CHARACTERS = 300
_KEY = re.compile(r"[^\s.\[\]{}]+(\.[^\s.\[\]{}]+)*")


def is_key(text: str) -> bool:
    """Whether a text is a dotted key: OmegaConf reads one with brackets as another key than it seems to be."""
    return len(text) <= KEY_CHARACTERS and _KEY.fullmatch(text) is not None


def check_key(text: str, where: str) -> None:
    """Raises UserError for what is no dotted key."""
    if not is_key(text):
        raise UserError(f"{where}: {shown(text)} is no key; write dotted keys, such as model.name")


def check_shape(value: Any, kind: Any, key: str = "") -> None:
    """Raises UserError where a tree has keys and values, a list, one value or null in the place of another of them.

    `kind` is the type that the settings class states. Keys that it does not know are left to OmegaConf, as are the
    types of single values.
    """
    origin, parts = get_origin(kind), get_args(kind)
    if kind is Any:
        return
    if origin in (Union, types.UnionType):
        if value is not None:
            [kind] = [part for part in parts if part is not types.NoneType]
            check_shape(value, kind, key)
    elif is_dataclass(kind):
        _expect(isinstance(value, Mapping), key, "keys and values, such as {a: 1}", value)
        hints = get_type_hints(kind)
        for name in hints.keys() & value.keys():
            check_shape(value[name], hints[name], f"{key}.{name}" if key else name)
    elif origin is dict:
        _expect(isinstance(value, Mapping), key, "keys and values, such as {a: 1}", value)
        for name, part in value.items():
            check_shape(part, parts[1], f"{key}.{name}")
    elif origin is list:
        _expect(isinstance(value, list), key, "a list, such as [a,b]", value)
        for number, part in enumerate(value):
            check_shape(part, parts[0], f"{key}[{number}]")
    else:
        _expect(value is not None and not isinstance(value, (Mapping, list)), key, "one value", value)


def _expect(right: bool, key: str, expected: str, value: Any) -> None:
    if not right:
        raise UserError(f"{key}={'null' if value is None else shown(value)}: expected {expected}")
