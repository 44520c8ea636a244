"""Merges layers of settings into a configuration: presets, command lines, values from Python.

Unquoted values of YAML are text (`yaml_tree.Plain`) until their setting is known. OmegaConf merges the layers and fills
in `${key}`; pydantic gives each value its type and holds it to its bounds (`actors.settings.validated`).
"""

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from math import isfinite
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from actors.backends.model_settings import ModelSettings
from actors.errors import UserError
from actors.reader.reader import ReaderSettings
from actors.settings import PATH, shown, validated
from experiments.config.config import Config, flat
from experiments.config.keys import (
    ANYTHING,
    AXES,
    POINTS,
    PREFIXES,
    Declared,
    check_key,
    declared,
    fields_of,
    set_by,
    unknown_key,
)
from experiments.config.yaml_tree import MISSING, Plain, is_null
from topologies.learning.variants import LEARNED

Layer = dict[str, Any]  # values of some settings, by dotted key

_LEADING_ZERO = re.compile(r"\s*[+-]?0\d")  # 010 is 8 to some readers, and 10 to others
# Plain values of settings of any type: the numbers of JSON, which have no leading zeros.
_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?")
_WORDS = {"": None, "~": None, "null": None, "true": True, "false": False}


def layer_of(values: Iterable[tuple[str, Any]]) -> Layer:
    """Reads values by dotted or nested keys as their settings mean them.

    Raises UserError for a key that does not exist, and for one that has two values.
    """
    layer: Layer = {}
    for name, value_or_group in values:
        for key, value in flat({name: value_or_group}):
            check_key(key, "configuration")
            key = set_by(key, value)
            setting = declared(key)
            if setting is None:
                raise unknown_key(key)
            if value == {}:
                continue
            value = interpreted(value, setting, key)
            if layer.setdefault(key, value) != value:
                # The values are not shown: one may be a key or a password.
                raise UserError(f"{key} is there twice, with two values; write it once")
    return layer


def typed(layers: Sequence[Layer], base: Config | None = None) -> Config:
    """Merges layers over a configuration or the defaults; lists take the place of others, and groups are merged.

    Raises UserError for wrong values, and for values that a preset leaves open.
    """
    try:
        overrides = OmegaConf.merge({}, *map(_tree_of, layers))
        tree = OmegaConf.merge(asdict(base or Config()), overrides)
    except TypeError as error:
        keys = ", ".join(key for layer in layers for key in layer)
        raise UserError(f"{keys}: a list and a group cannot both be the value of a key; write one") from error
    for key, value in flat(_contained(overrides, resolve=False)):
        if value == MISSING:
            raise UserError(f"{key} has no value: it is left open (???); give {key}=<value>")
    return _completed(_contained(tree, resolve=True))


def typed_literal(layer: Layer) -> Config:
    """Gives the defaults the values of a saved configuration, in which nothing is left open or filled in.

    OmegaConf's trees are not made for it: they take ten times as long as all the rest. Raises UserError as `typed`.
    """
    return _completed(_merged(asdict(Config()), _tree_of(layer)))


def _merged(tree: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Merges groups; any other value takes the place of another one."""
    merged = dict(tree)
    for name, value in overrides.items():
        default = merged.get(name)
        if isinstance(default, Mapping) and isinstance(value, Mapping):
            value = _merged(default, value)
        merged[name] = value
    return merged


def _completed(tree: Mapping[str, Any]) -> Config:
    """Types a whole configuration, and writes out what its values are short for. Raises UserError for wrong values."""
    config = validated(Config, tree)
    for role, settings in config.roles.items():
        # With a dot in it, its settings would be taken for those of another key.
        if not role.isidentifier() or role in PREFIXES:
            raise UserError(f"roles.{shown(role)}: expected a name of letters, digits and _, after text_ or visual_")
        settings.model = _typed_part(ModelSettings, settings.model, f"roles.{role}.model")
        settings.reader = _typed_part(ReaderSettings, settings.reader, f"roles.{role}.reader")
    config.judge = _typed_part(ModelSettings, config.judge, "judge")
    # Written out, so that a saved configuration means the same to later versions, which have others.
    methods: list[str] = []
    for name in config.methods:
        methods += LEARNED if name == "learned" else [name]
    config.methods = list(dict.fromkeys(methods))
    return config


def _tree_of(layer: Layer) -> dict[str, Any]:
    """Nests the values of a layer."""
    tree: dict[str, Any] = {}
    for key, value in layer.items():
        *groups, name = key.split(".")
        node = tree
        for group in groups:
            node = node.setdefault(group, {})
            if not isinstance(node, dict):
                raise UserError(f"{key}: a list and a group cannot both be the value of a key; write one")
        if isinstance(node.get(name), dict):
            raise UserError(f"{key}: a list and a group cannot both be the value of a key; write one")
        node[name] = value
    return tree


def _contained(tree: Any, *, resolve: bool) -> dict[str, Any]:
    """Returns OmegaConf's tree as dicts, with `${key}` filled in or not. Raises UserError where that is impossible."""
    try:
        values: Any = OmegaConf.to_container(tree, resolve=resolve)
    except (OmegaConfBaseException, RecursionError) as error:
        key = getattr(error, "full_key", None) or "${...}"
        raise UserError(f"{key} cannot be filled in: {str(error).splitlines()[0]}") from error
    return dict(values)


def _typed_part(group: type, values: Mapping[str, Any], key: str) -> dict[str, Any]:
    """Types the values of some settings of a group."""
    settings = asdict(validated(group, values, key))
    typed_values = {}
    for name, value in values.items():
        typed_values[name] = settings[name]
        # Of a group, such as `judge.abilities`, some settings, too.
        if isinstance(value, Mapping) and fields_of(group)[name].is_group:
            typed_values[name] = {below: settings[name][below] for below in value}
    return typed_values


def interpreted(value: Any, setting: Declared, key: str) -> Any:
    """Reads unquoted text as its setting means it. Raises UserError for a text that is no value of such a setting."""
    if key == POINTS:
        return _swept(value, "")
    if key.startswith(f"{AXES}."):
        return _swept(value, key.removeprefix(f"{AXES}."))
    if setting.optional and is_null(value):
        return None
    if setting.is_group:
        return _interpreted_group(value, setting, key)
    if setting.is_list and not isinstance(value, list):
        raise UserError(f"{key}={shown(value)}: expected a list, such as [a,b]")
    if isinstance(value, list):
        return [interpreted(item, setting.below, f"{key}[{number}]") for number, item in enumerate(value)]
    if isinstance(value, Mapping):
        return {str(name): interpreted(below, ANYTHING, key) for name, below in value.items()}
    if isinstance(value, Plain):
        value = _of_text(value, setting, key)
    is_path = setting.metadata.get(PATH)
    if is_path and isinstance(value, str) and is_path(value):
        return str(Path(value).absolute())
    return value


def _interpreted_group(value: Any, setting: Declared, key: str) -> dict[str, Any]:
    """Reads an item of a list of groups. Raises UserError for an unknown name, and for an item that is no group."""
    if not isinstance(value, Mapping):
        raise UserError(f"{key}={shown(value)}: expected keys and values, such as {{a: 1}}")
    settings = fields_of(setting.kind)
    for name in value:
        if name not in settings:
            raise unknown_key(f"{key}.{name}", settings)
    return {name: interpreted(below, settings[name], f"{key}.{name}") for name, below in value.items()}


def _of_text(value: Plain, setting: Declared, key: str) -> Any:
    """Interprets unquoted text; pydantic reads numbers and truth values of it."""
    if setting.kind is Any:
        return untyped(value)
    if setting.kind is str and type(value) is Plain and value.startswith("~"):
        return os.path.expanduser(value)
    if setting.is_text and setting.kind is not str:
        # In lower case: folders of version 0.2.0 have the names of some in capitals.
        return value.strip().lower()
    if setting.kind in (int, float) and _LEADING_ZERO.match(value):
        raise UserError(f"{key}={shown(value)}: expected a number without leading zeros")
    return str(value)


def untyped(value: Plain) -> Any:
    """Interprets unquoted text of any type: null, true, false and JSON's numbers, else text."""
    lower = value.lower()
    if lower in _WORDS and value in (lower, value.title(), value.upper()):
        return _WORDS[lower]
    number = _NUMBER.fullmatch(value)
    if number is None:
        return str(value)
    if number[2] is None and number[3] is None and len(value) <= 300:
        return int(value)
    # A number that no float holds stays text.
    return float(value) if isfinite(float(value)) else str(value)


def _swept(value: Any, key: str) -> Any:
    """Types values that a sweep tries. They are text where the setting of their key is, else of any type."""
    if isinstance(value, Mapping):
        return {name: _swept(below, f"{key}.{name}".lstrip(".")) for name, below in value.items()}
    if isinstance(value, list):
        return [_swept(item, key) for item in value]
    if not isinstance(value, Plain):
        return value
    setting = declared(key) or ANYTHING
    if setting.optional and is_null(value):
        return None
    of_item = setting.below if setting.is_list else setting
    # A group's short form is text, too.
    return str(value) if of_item.is_group or of_item.is_text else untyped(value)
