"""Reads a command line: an experiment's preset over the typed defaults, and `key=value` overrides over both."""

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from actors.errors import UserError
from actors.lookup import near_miss
from actors.settings import shown
from experiments.config.config import RUNTIME_KEYS, Config, Leaf, flat, may_change
from experiments.config.references import at_home, check_named_again, check_outside, check_secrets, make_absolute
from experiments.config.role_files import read_roles
from experiments.config.saved import read
from experiments.config.values import is_key, nested, paths, single, typed
from experiments.config.yaml_tree import Plain, check_literal, read_yaml, yaml_tree
from experiments.records.recorder import RunFolder
from topologies.catalogue import OURS

PRESETS = Path(__file__).parents[1] / "presets"
Tree = dict[str, Any]


@dataclass(frozen=True)
class Overrides:
    """Dotted keys of a command line, layers of its preset, and whether that is one of `ours`."""

    keys: tuple[str, ...]
    layers: tuple[Tree, ...]
    ours: bool

    @property
    def preset(self) -> tuple[str, ...]:
        """Dotted keys of the preset."""
        return tuple(key for key, _ in flat(self.layers[0]))

    @cached_property
    def alone(self) -> Config:
        """Configuration of the preset by itself."""
        return _configured(self.layers)


def experiments() -> dict[str, str]:
    """Describes every experiment in a line, by name: the presets, and each method against its rivals."""
    presets = {
        path.stem: path.read_text().splitlines()[0].removeprefix("#").strip() for path in sorted(PRESETS.glob("*.yaml"))
    }
    return presets | {name: method.description for name, method in OURS.items() if name not in presets}


def load(arguments: Sequence[str]) -> Config:
    """Loads the configuration of a command line such as `experiment=mmqa_prune topology.rounds=4`.

    `experiment` is the name of a preset or of a method, or the path of a preset of the user's own, a YAML file. Of
    several overrides of one key the last one counts, so that a script's own can be followed by others. Raises UserError
    for an unknown experiment or key (with the nearest right one), and for a value that is not allowed.
    """
    return load_overrides(arguments)[0]


def load_overrides(arguments: Sequence[str]) -> tuple[Config, Overrides | None]:
    """Loads the configuration as `load` does, with the keys that were set.

    Of a run that is resumed, the saved configuration with other runtime keys, and without the keys: settings that lead
    outside of its folder have to be named again.
    """
    words = list(map(_word, arguments))
    last, layers = dict(words), [{key: value} for key, value in words if key != "resume"]
    if "resume" in last:
        folder = Path(last["resume"]).expanduser()
        check_outside(folder)
        saved = read(RunFolder.open(folder).config)
        at_home(saved, folder)
        # What `check_named_again` requires may be named again, with the saved value.
        before, now = saved.by_key, _configured([layer for layer in layers if not any(map(may_change, layer))], saved)
        if changed := [key for key, value in now.by_key.items() if before.get(key) != value]:
            changed_keys = f"{', '.join(changed)} cannot change when a run is resumed"
            raise UserError(f"{changed_keys}; only {', '.join(RUNTIME_KEYS)} can")
        config, overrides = _configured([*layers, {"resume": str(folder)}], saved), None
        check_named_again(config, _configured([{"job": saved.job}, *layers]))
    else:
        preset, name, ours = _preset(str(last.get("experiment", "")))
        config = _configured([preset, *layers, {"experiment": name}])
        keys = dict.fromkeys(key for layer in layers for key, _ in flat(layer))
        overrides = Overrides(tuple(keys), (preset, {"experiment": name}), ours)
    check_secrets(config)
    make_absolute(config)
    return config, overrides


def varied(config: Config, values: Mapping[str, Any]) -> Config:
    """Gives a configuration other values, by dotted key. Raises UserError as `load` does."""
    return _configured([{key: value} for key, value in values.items()], config)


def named_again(arguments: Sequence[str], job: str = "prune", base: Config | None = None) -> Config:
    """Loads the overrides of a command line for a saved configuration, alone or over a `base`. Raises UserError."""
    return _configured([{"job": job}, *({key: value} for key, value in map(_word, arguments))], base)


def _configured(layers: Iterable[Tree], base: Config | None = None) -> Config:
    """Merges layers over a base, or their job's defaults. The roles of a file that a layer names come before it."""
    typed_layers = []
    for layer in layers:
        tree = nested(layer.items())
        roles = tree.get("roles")
        if isinstance(roles, dict) and roles.get("file") is not None:
            typed_layers.append({"roles": read_roles(str(roles["file"]))})
            tree["roles"] = {name: role for name, role in roles.items() if name != "file"}
        typed_layers.append(tree)
    return typed(typed_layers, base)


def _preset(name: str) -> tuple[Tree, str, bool]:
    """Returns an experiment's settings, its name in records, and whether it is one of the project's."""
    if not name:
        raise UserError("experiment= is missing: name one, such as experiment=mmqa_prune; `python run.py` lists all")
    path = Path(name).expanduser()
    if own := name.endswith((".yaml", ".yml")):
        if not os.path.isfile(path):  # `Path.is_file` raises for a name that is too long
            raise UserError(f"experiment={name}: there is no such file; give a preset's path or one of our names")
        if not re.fullmatch(r"[\w.-]+", path.stem):
            raise UserError(f"experiment={name}: run folders are named after it, so letters, digits, -, _ and . only")
    elif (PRESETS / f"{name}.yaml").is_file() if is_key(name) else False:
        path = PRESETS / f"{name}.yaml"
    elif name in OURS:
        method = OURS[name]
        # Its rivals first, as in the tables of its paper.
        return {"methods": [*method.rivals, name], **method.settings}, name, True
    else:
        known = experiments()
        raise UserError(f"unknown experiment {shown(name)!r}.{near_miss(name, known)} Known: {', '.join(known)}")
    try:
        tree = read_yaml(path)
    except UserError as error:
        raise UserError(f"{path} cannot be read as a preset: {error}") from error
    if not isinstance(tree, dict):
        raise UserError(f"{path} is not a preset: expected keys and values, such as `seed: 1`")
    if "resume" in tree:
        raise UserError(f"{path}: resume is no setting of a preset; give resume=<run folder> on the command line")
    return tree, path.stem, not own


def _word(argument: str) -> Leaf:
    """Reads `key=value`. Text stays as it was written, unless it is quoted, where the setting holds text."""
    key, equals, text = argument.partition("=")
    if not equals or not is_key(key):
        known = {name: f"experiment={name}" for name in experiments()} | {name: f"{name}=<value>" for name in paths()}
        bare = argument.strip("-= ")
        hint = f" Did you mean {known[bare]}?" if bare in known else near_miss(bare, known)
        raise UserError(
            f"{shown(argument)!r} is not of the form key=value, such as seed=1, without spaces around =.{hint}"
        )
    stripped, kind = text.strip(), single(key)
    quoted = len(stripped) > 1 and stripped[0] == stripped[-1] and stripped[0] in "\"'"
    if not stripped and kind is not str:
        raise UserError(f"{key}= has no value; leave it out for the default, or write null for none")
    value: Any = Plain(text if kind is str else stripped)
    if quoted or kind is None:
        try:
            value = yaml_tree(text)
        except UserError as error:
            # The argument may hold a password.
            raise UserError(f"the value of {key} cannot be read: {error}") from error
        if re.search(r"\s#", text) and not quoted and not stripped.startswith(("[", "{")):
            raise UserError(f"{key}: what follows ` #` is a comment in YAML; put the value into quotation marks")
    check_literal(value, key)
    return key, value
