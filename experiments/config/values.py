"""Types the values of a tree, and merges layers of settings into a configuration.

A tree comes from YAML or from Python. Its unquoted values are text (`yaml_tree.Plain`) until the setting is known.
"""

import os
import re
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any, Literal, NamedTuple, Union, cast, get_args, get_origin, get_type_hints

from actors.errors import UserError
from actors.lookup import near_miss
from actors.settings import OVER, check_bounds, shown
from experiments.config.config import Config, Leaf, flat, merged, of_any_role
from experiments.config.study_settings import OF_JOBS
from experiments.config.yaml_tree import Plain
from topologies.learning.variants import VARIANTS

KEY_CHARACTERS = 300
NULL = ("", "~", "null")
PREFIXES = ("text_", "visual_")  # before the names of a team's roles
_KEY = re.compile(r"[^\s.\[\]{}=\\]+(\.[^\s.\[\]{}=\\]+)*")
_WHOLE = re.compile(r"[+-]?(0|[1-9][\d_]{0,40})")
_LEADING_ZERO = re.compile(r"[+-]?0\d")  # 010 is 8 to some readers, and 10 to others
_TRUTH = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
AXES, POINTS = SWEPT = ("sweep.axes", "sweep.points")  # values of other settings
# Plain values of settings of any type: the numbers of JSON, which have no leading zeros.
_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?")
_WORDS = {"": None, "~": None, "null": None, "true": True, "false": False}


class Declared(NamedTuple):
    """Type of a setting and the metadata of its field."""

    kind: Any
    metadata: Mapping[str, Any]


@cache
def fields_of(group: type) -> Mapping[str, Declared]:
    """Lists the settings of a group by name."""
    hints = get_type_hints(group)
    return {f.name: Declared(hints[f.name], f.metadata) for f in fields(cast(Any, group))}


def declared(key: str) -> Declared | None:
    """Finds the setting of a dotted key, or the one of any type that it lies in. None for an unknown key."""
    first, *_ = names = key.split(".")
    found = Declared(OF_JOBS.get(first, Config), {})
    for name in names:
        kind = found.metadata.get(OVER) or found.kind
        if is_dataclass(kind):
            below = fields_of(cast(type, kind)).get(name)
            if below is None:
                return None
            found = below
        elif get_origin(kind) is dict and get_args(kind)[1] is not Any:
            found = Declared(get_args(kind)[1], {})
        elif get_origin(kind) is not dict and kind is not Any:
            return None
    return found


def is_key(text: str) -> bool:
    return len(text) <= KEY_CHARACTERS and _KEY.fullmatch(text) is not None


def set_by(key: str, value: Any) -> str:
    """Returns the setting that a value is for: `model=vllm` is short for `model.kind=vllm`."""
    setting = declared(key)
    group = setting and (setting.metadata.get(OVER) or setting.kind)
    is_short = is_dataclass(group) and hasattr(group, "kind") and not isinstance(value, Mapping)
    return f"{key}.kind" if is_short else key


def check_key(text: str, where: str) -> None:
    """Raises UserError for text that is no dotted key."""
    if not is_key(text):
        raise UserError(f"{where}: {shown(text)} is no key; write dotted keys, such as model.name")


def nested(parts: Iterable[Leaf], key: str = "") -> dict[str, Any]:
    """Nests values by dotted key, below the setting `key`. Raises UserError for a key that is there twice."""
    tree: dict[str, Any] = {}
    for name, value in parts:
        first, *names = str(name).split(".")
        if names:
            check_key(name, key or "configuration")
        for below in reversed(names):
            value = {below: value}
        tree[first] = _joined(tree[first], value, f"{key}.{name}" if key else name) if first in tree else value
    return tree


def _joined(one: Any, other: Any, key: str) -> dict[str, Any]:
    if not (isinstance(one, Mapping) and isinstance(other, Mapping)):
        raise UserError(f"{key}: a key is there twice; write it once")
    return {**one, **other, **{name: _joined(one[name], other[name], key) for name in one if name in other}}


def typed_value(value: Any, setting: Declared, key: str = "") -> Any:
    """Gives a value the type of its setting, a group as a dict. Raises UserError for unknown keys and wrong values."""
    kind, optional = _plain_kind(setting.metadata.get(OVER) or setting.kind)
    is_null = value is None or (isinstance(value, Plain) and value in NULL)
    if optional and is_null:
        return None
    if key in SWEPT:
        value = _swept(nested(flat(value), key) if isinstance(value, Mapping) else value)
    if is_dataclass(kind):
        settings = fields_of(cast(type, kind))
        # `model=vllm` is short for `model.kind=vllm`.
        if "kind" in settings and (
            _plain_kind(settings["kind"].kind)[1] if is_null else isinstance(value, (str, bool))
        ):
            value = {"kind": value}
        _expect(isinstance(value, Mapping), key, "keys and values, such as {a: 1}", value)
        typed = {}
        for name, part in nested(value.items(), key).items():
            own = f"{key}.{name}" if key else name
            if name not in settings:
                if own in OF_JOBS:
                    raise UserError(
                        f"{own}: only job={own} has these settings; leave them out, or name another experiment"
                    )
                siblings = [f"{key}.{n}" if key else n for n in settings]
                raise UserError(f"unknown key {own!r}.{near_key(own, siblings)} Known here: {', '.join(siblings)}")
            typed[name] = typed_value(part, settings[name], own)
        return typed
    if get_origin(kind) is dict:
        _expect(isinstance(value, Mapping), key, "keys and values, such as {a: 1}", value)
        below = get_args(kind)[1]
        parts = value if below is Any else nested(value.items(), key)
        return {name: typed_value(part, Declared(below, {}), f"{key}.{name}") for name, part in parts.items()}
    if get_origin(kind) is list:
        _expect(isinstance(value, list), key, "a list, such as [a,b]", value)
        [below] = get_args(kind)
        return [typed_value(part, Declared(below, {}), f"{key}[{n}]") for n, part in enumerate(value)]
    if kind is Any:
        return untyped(value)
    _expect(value is not None and not isinstance(value, (Mapping, list)), key, "one value", value)
    return _single(value, kind, key)


def untyped(value: Any) -> Any:
    """Interprets a value of any type: null, true, false and JSON's numbers, else text."""
    if isinstance(value, dict):
        return {str(name): untyped(part) for name, part in value.items()}
    if isinstance(value, list):
        return [untyped(part) for part in value]
    if not isinstance(value, Plain):
        return value
    if value in (lower := value.lower(), value.title(), value.upper()) and lower in _WORDS:
        return _WORDS[lower]
    if found := _NUMBER.fullmatch(value):
        number = float(value) if found[2] or found[3] or len(value) > 300 else int(value)
        # A number that no float holds stays text.
        return str(value) if number in (float("inf"), float("-inf")) else number
    return str(value)


def _swept(value: Any, key: str = "") -> Any:
    """Types values that a sweep tries. They are text where the setting of their key is, else untyped."""
    if isinstance(value, Mapping):
        return {name: _swept(part, f"{key}.{name}" if key else name) for name, part in value.items()}
    if isinstance(value, list):
        return [_swept(part, key) for part in value]
    setting = declared(key)
    kind, optional = _plain_kind(setting.kind if setting else Any)
    kind = get_args(kind)[0] if get_origin(kind) is list else kind
    is_text = is_dataclass(kind) or _is_text(kind)  # a group's short form is text, too
    return str(value) if isinstance(value, Plain) and is_text and not (optional and value in NULL) else untyped(value)


def _is_text(kind: Any) -> bool:
    return get_origin(kind) is Literal or (isinstance(kind, type) and issubclass(kind, (str, Enum)))


def single(key: str) -> Any:
    """Returns the type of a setting of one number, text or truth value, `str` for every text. None for all others."""
    setting = declared(key)
    kind = _plain_kind(setting.kind)[0] if setting and not setting.metadata.get(OVER) else None
    return str if _is_text(kind) else kind if kind in (int, float, bool) else None


def _plain_kind(kind: Any) -> tuple[Any, bool]:
    """Returns the type without `| None`, and whether it had that."""
    if get_origin(kind) not in (Union, types.UnionType):
        return kind, False
    [own] = [part for part in get_args(kind) if part is not types.NoneType]
    return own, True


def _single(value: Any, kind: Any, key: str) -> Any:
    text = str(value).strip() if isinstance(value, (str, int, float)) and len(str(value)[:1000]) < 1000 else ""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if kind is str:
        _expect(isinstance(value, str), key, "text", value)
        return os.path.expanduser(value) if type(value) is Plain and value[:1] == "~" else str(value)
    if get_origin(kind) is Literal:
        # In lower case: folders of version 0.2.0 have the names of some in capitals.
        _expect(text.lower() in get_args(kind), key, f"one of {', '.join(get_args(kind))}", value)
        return text.lower()
    if isinstance(kind, type) and issubclass(kind, Enum):
        members = {name: member for member in kind for name in (member.name.lower(), member.value)}
        _expect(text.lower() in members, key, f"one of {', '.join(member.value for member in kind)}", value)
        return members[text.lower()]
    if kind is bool:
        _expect(text.lower() in _TRUTH, key, "true or false", value)
        return _TRUTH[text.lower()]
    _expect(not _LEADING_ZERO.match(text), key, "a number without leading zeros", value)
    if kind is int:
        _expect((is_number and isinstance(value, int)) or bool(_WHOLE.fullmatch(text)), key, "a whole number", value)
        return int(text)
    try:
        return float(text)
    except ValueError:
        _expect(is_number, key, "a number", value)
    return float(value)


def _expect(right: bool, key: str, expected: str, value: Any) -> None:
    if not right:
        raise UserError(f"{key}={'null' if value is None else shown(value)}: expected {expected}")


def near_key(key: str, siblings: Sequence[str]) -> str:
    """Returns ` Did you mean 'x'?` or nothing. People forget the group of a key more often than they misspell it."""
    group, _, last = key.rpartition(".")
    known = list(paths())
    same_name = [path for path in known if path.rpartition(".")[2] == last]
    if same_name:
        return f" Did you mean {same_name[0]!r}?"
    nearest = near_miss(last, [sibling.rpartition(".")[2] for sibling in siblings if sibling.startswith(f"{group}.")])
    return nearest.replace("mean '", f"mean '{group}.") or near_miss(of_any_role(key), known) or near_miss(last, known)


def paths(group: Any = Config, prefix: str = "") -> Iterator[str]:
    """Every dotted key below a group."""
    for name, (kind, _) in fields_of(group).items():
        yield prefix + name
        below = get_args(kind)[-1] if get_origin(kind) is dict else kind
        if is_dataclass(below):
            yield from paths(below, f"{prefix}{name}.<role>." if below is not kind else f"{prefix}{name}.")


def typed(layers: Sequence[Mapping[str, Any]], base: Config | None = None) -> Config:
    """Merges layers over a configuration, or their job's defaults. Raises UserError for wrong keys and values."""
    job = next((str(layer["job"]) for layer in reversed(layers) if "job" in layer), "")
    kind = type(base) if base else OF_JOBS.get(job, Config)
    config = merged(base or kind, [typed_value(layer, Declared(kind, {})) for layer in layers])
    check_bounds(config)
    for role, settings in config.roles.items():
        # With a dot in it, its settings would be taken for those of another key.
        if not role.isidentifier() or role in PREFIXES:
            raise UserError(f"roles.{shown(role)}: expected a name of letters, digits and _, after text_ or visual_")
        check_bounds(settings, f"roles.{role}.")
        for part, own in zip(("model", "reader"), config.model_of_role(role) or (), strict=False):
            check_bounds(own, f"roles.{role}.{part}.")
    if judge := config.judge_model:
        check_bounds(judge, "judge.")
    # Written out, so that a saved configuration means the same to later versions, which have others.
    every = {"learned": list(VARIANTS)}
    config.methods = list(dict.fromkeys(each for name in config.methods for each in every.get(name, [name])))
    return config
