"""Finds settings by their dotted keys, and the nearest key to a wrong one."""

import re
import types
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any, Literal, NamedTuple, Union, cast, get_args, get_origin, get_type_hints

from actors.errors import UserError
from actors.lookup import near_miss
from actors.settings import OUTSIDE, OVER, shown
from experiments.config.config import Config, of_any_role
from experiments.config.yaml_tree import is_null

KEY_CHARACTERS = 300
PREFIXES = ("text_", "visual_")  # before the names of a team's roles
# Their values are values of other settings.
AXES = "sweep.axes"
POINTS = "sweep.points"
_KEY = re.compile(r"[^\s.\[\]{}=\\]+(\.[^\s.\[\]{}=\\]+)*")


class Declared(NamedTuple):
    """Declaration of a setting.

    kind: its type, without `| None`; of a dict of overrides the group that they are for. optional: it may be null.
    metadata: of its field.
    """

    kind: Any
    optional: bool
    metadata: Mapping[str, Any]

    @classmethod
    def of(cls, kind: Any, metadata: Mapping[str, Any]) -> "Declared":
        """Makes the declaration of a field."""
        if get_origin(kind) not in (Union, types.UnionType):
            return cls(metadata.get(OVER, kind), False, metadata)
        [kind_without_none] = [part for part in get_args(kind) if part is not types.NoneType]
        return cls(kind_without_none, True, metadata)

    @property
    def below(self) -> "Declared":
        """Declaration of each item of a list, or each value of a dict; of any type for others."""
        if get_origin(self.kind) in (list, dict):
            return Declared.of(get_args(self.kind)[-1], {})
        return ANYTHING

    @property
    def is_group(self) -> bool:
        """True for a settings class."""
        return is_dataclass(self.kind)

    @property
    def is_list(self) -> bool:
        return get_origin(self.kind) is list

    @property
    def is_text(self) -> bool:
        """True for text, and for a choice of texts."""
        if get_origin(self.kind) is Literal:
            return True
        return isinstance(self.kind, type) and issubclass(self.kind, (str, Enum))


CONFIG = Declared(Config, False, {})
ANYTHING = Declared(Any, True, {})
# A file of roles, which become settings below `roles`; it is in no configuration.
ROLES_FILE = "roles.file"
OF_ROLES_FILE = Declared(str, True, {OUTSIDE: bool})


@cache
def fields_of(group: type) -> Mapping[str, Declared]:
    """Lists the settings of a group by name."""
    kinds = get_type_hints(group)
    return {field.name: Declared.of(kinds[field.name], field.metadata) for field in fields(cast(Any, group))}


def declared(key: str) -> Declared | None:
    """Finds the setting of a dotted key, or the one of any type that it lies in. None for an unknown key."""
    if key == ROLES_FILE:
        return OF_ROLES_FILE
    setting = CONFIG
    for name in key.split("."):
        if setting.is_group:
            below = fields_of(setting.kind).get(name)
            if below is None:
                return None
            setting = below
        elif get_origin(setting.kind) is not dict:
            return None
        elif setting.below.kind is Any:
            return Declared(Any, True, setting.metadata)
        else:
            setting = setting.below
    return setting


def set_by(key: str, value: Any) -> str:
    """Returns the key of the setting that a value is for: `model=vllm` is short for `model.kind=vllm`."""
    if isinstance(value, (Mapping, list)):
        return key
    setting = declared(key)
    kind = fields_of(setting.kind).get("kind") if setting and setting.is_group else None
    if kind is None or (is_null(value) and not kind.optional):
        return key
    return f"{key}.kind"


def is_key(text: str) -> bool:
    """True for dotted names without the signs that OmegaConf reads as other keys."""
    return len(text) <= KEY_CHARACTERS and _KEY.fullmatch(text) is not None


def check_key(text: str, where: str) -> None:
    """Raises UserError for text that is no dotted key."""
    if not is_key(text):
        raise UserError(f"{where}: {shown(text)} is no key; write dotted keys, such as model.name")


def paths(group: type = Config, prefix: str = "") -> Iterator[str]:
    """Yields every dotted key below a group."""
    for name, setting in fields_of(group).items():
        yield prefix + name
        # Keys of a judge's and a role's model are those of `model`.
        if OVER in setting.metadata:
            continue
        if setting.is_group:
            yield from paths(setting.kind, f"{prefix}{name}.")
        elif get_origin(setting.kind) is dict and setting.below.is_group:
            yield from paths(setting.below.kind, f"{prefix}{name}.<role>.")


def near_key(key: str, siblings: Iterable[str] = ()) -> str:
    """Returns ` Did you mean 'x'?` or nothing. People forget the group of a key more often than they misspell it.

    siblings: names in its group, where that is none of the configuration's.
    """
    group, _, last_name = key.rpartition(".")
    all_keys = list(paths())
    for other_key in all_keys:
        if other_key.rpartition(".")[2] == last_name:
            return f" Did you mean {other_key!r}?"
    nearest = near_miss(last_name, siblings or _names_in(group))
    if nearest and group:
        return nearest.replace("mean '", f"mean '{group}.")
    return nearest or near_miss(of_any_role(key), all_keys) or near_miss(last_name, all_keys)


def _names_in(group: str) -> Iterable[str]:
    """Lists the names of a group's settings; none of a key that is no group."""
    setting = declared(group) if group else CONFIG
    return fields_of(setting.kind) if setting and setting.is_group else ()


def unknown_key(key: str, siblings: Iterable[str] = ()) -> UserError:
    """Makes the error of a key that does not exist. siblings: as of `near_key`."""
    group = key.rpartition(".")[0]
    # The first name that is wrong: the names below it are no hint.
    if group and not siblings and declared(group) is None:
        return unknown_key(group)
    names = siblings or _names_in(group)
    prefix = f"{group}." if group else ""
    keys = ", ".join(f"{prefix}{name}" for name in names)
    hint = f" Known here: {keys}" if keys else ""
    return UserError(f"unknown key {key!r}.{near_key(key, siblings)}{hint}")
