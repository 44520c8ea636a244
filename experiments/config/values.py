"""Reads and checks keys and values: YAML on the command line, the shape of groups and lists, and plain text."""

from __future__ import annotations

import json
import re
import types
from collections.abc import Mapping
from dataclasses import is_dataclass
from enum import Enum
from math import isnan
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from actors.backends.model_settings import ModelSettings
from actors.errors import UserError
from actors.reader.reader import ReaderSettings
from actors.settings import shown
from experiments.config.config import Config
from experiments.config.setting_groups import RoleSettings
from experiments.config.study_settings import OF_JOBS

KEY_CHARACTERS = 300
DEPTH = 40  # of groups and lists in each other
_KEY = re.compile(r"[^\s.\[\]{}]+(\.[^\s.\[\]{}]+)*")
_ODD_NUMBER = re.compile(r"[+-]?0\d|.*:")  # octal, or minutes and seconds: 010 is 8, and 1:30 is 90
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")  # all but tab and line ends
# Settings that are overrides over a group, by the name of the setting.
_OVER = {"model": ModelSettings, "reader": ReaderSettings, "judge": ModelSettings}


def is_key(text: str) -> bool:
    """True for a dotted key. OmegaConf reads one with brackets as another key than it seems to be."""
    return len(text) <= KEY_CHARACTERS and _KEY.fullmatch(text) is not None


def check_key(text: str, where: str) -> None:
    """Raises UserError for text that is no dotted key."""
    if not is_key(text):
        raise UserError(f"{where}: {shown(text)} is no key; write dotted keys, such as model.name")


def check_shape(value: Any, kind: Any, key: str = "") -> None:
    """Raises UserError where a group, a list, a single value or null is in the place of another of them.

    `kind` is the type of the setting. Unknown keys and the types of single values are left to OmegaConf.
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


def check_literal(tree: Any, key: str = "", depth: int = 0) -> None:
    """Raises UserError for text that OmegaConf would fill in, such as from the environment, and might hold a secret.

    Also for control characters, and for groups and lists in each other without end.
    """
    if depth > DEPTH:
        raise UserError(f"{key[:100]}: lists or groups in each other, {DEPTH} deep: write plain values")
    if isinstance(tree, Mapping):
        for name, value in tree.items():
            own = f"{key}.{name}" if key else str(name)
            check_literal(str(name), own, depth + 1)
            check_literal(value, own, depth + 1)
    elif isinstance(tree, list):
        for value in tree:
            check_literal(value, key, depth + 1)
    elif not (tree is None or isinstance(tree, (bool, int, float, str))) or (isinstance(tree, float) and isnan(tree)):
        raise UserError(f"{key}: expected text, a number, true, false or null, not {shown(tree)}")
    elif tree == "???":  # OmegaConf's mark of a missing value
        raise UserError(f"{key}=???: write the value")
    elif isinstance(tree, str) and _CONTROL.search(tree):
        raise UserError(f"{key}: control characters, or bytes that are no UTF-8; write plain text")
    elif isinstance(tree, str) and "${" in tree:
        # The text itself is not shown.
        raise UserError(
            f"{key}: ${{...}} is not filled in; write the value itself, and a key into the environment variable that "
            "key_env names"
        )


def as_written(key: str, text: str) -> str:
    """The value of an override as YAML with the meaning of its text.

    Text stays text where the setting holds text (`output=2024_10_01` and `model.name=1.10` are no numbers), unless it
    is quoted or null.

    Raises:
        UserError: an odd number, or a `#` that would cut the value off.
    """
    kind, optional = _plain(_type_of(key.split(".")))
    stripped = text.strip()
    quoted = len(stripped) > 1 and stripped[0] == stripped[-1] and stripped[0] in "\"'"
    if kind is str and stripped and not quoted and not (optional and stripped in ("null", "~")):
        return json.dumps(text)
    if kind in (int, float) and _ODD_NUMBER.match(stripped):
        raise UserError(f"{key}={shown(text)}: expected a number without leading zeros or :")
    if re.search(r"\s#", text) and not quoted and not stripped.startswith(("[", "{")):
        raise UserError(f"{key}: what follows ` #` is a comment in YAML; put the value into quotation marks")
    return text


def _type_of(names: list[str]) -> Any:
    """The type of the setting under a dotted key; None for an unknown setting, or one that may be anything."""
    kind: Any = OF_JOBS.get(names[0], Config)
    for number, name in enumerate(names):
        if name in _OVER and (kind is RoleSettings or name == "judge") and number + 1 < len(names):
            kind = _OVER[name]
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


def _expect(right: bool, key: str, expected: str, value: Any) -> None:
    if not right:
        raise UserError(f"{key}={'null' if value is None else shown(value)}: expected {expected}")
