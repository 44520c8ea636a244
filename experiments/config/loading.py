"""Reads a command line: an experiment's preset over the typed defaults, and `key=value` overrides over both."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, get_type_hints

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from actors.errors import UserError
from actors.lookup import near_miss
from actors.settings import shown
from experiments.config.config import RUNTIME_KEYS, Config, may_change
from experiments.config.layers import one_line, typed
from experiments.config.references import check_named_again, check_outside, check_secrets, flat
from experiments.config.role_files import read_roles
from experiments.config.saved import read
from experiments.config.values import as_written, is_key
from experiments.records.recorder import RunFolder
from topologies.catalogue import EXPERIMENTS, OURS

PRESETS = Path(__file__).parents[1] / "presets"


@dataclass(frozen=True)
class Overrides:
    """The dotted keys that a command line sets, and those of its preset.

    ours: the preset is one of the project's. alone: the configuration of the preset by itself.
    """

    keys: tuple[str, ...]
    preset: tuple[str, ...]
    ours: bool
    alone: Config


def experiments() -> dict[str, str]:
    """Name and one-line description of every experiment: the presets, and each method with what it is compared with."""
    presets = {
        path.stem: path.read_text().splitlines()[0].removeprefix("#").strip() for path in sorted(PRESETS.glob("*.yaml"))
    }
    return presets | {name: method.description for name, method in OURS.items() if name not in presets}


def load(arguments: Sequence[str]) -> Config:
    """Loads the configuration of a command line such as `experiment=mmqa_prune topology.rounds=4`.

    `experiment` is the name of a preset or of a method, or the path of a preset of the user's own, a YAML file. Of
    several overrides of one key the last one counts, so that a script's own can be followed by others.

    Raises:
        UserError: an unknown experiment or key (with the nearest right one), or a value that is not allowed.
    """
    return load_overrides(arguments)[0]


def load_overrides(arguments: Sequence[str]) -> tuple[Config, Overrides | None]:
    """Loads the configuration as `load` does, with the keys that were set; without them for a run that is resumed."""
    values = dict(map(_key_and_value, arguments))
    if "resume" in values:
        return _resumed(Path(values["resume"]), arguments), None
    preset, name, ours = _preset(values.get("experiment", ""))
    overrides = [_override(argument) for argument in arguments if not argument.startswith("experiment=")]
    named = {"experiment": name}
    config = typed([preset, named, *overrides])
    check_secrets(config)
    keys = dict.fromkeys(key for tree in overrides for key, _ in flat(tree))
    return config, Overrides(tuple(keys), tuple(key for key, _ in flat(preset)), ours, typed([preset, named]))


def varying(config: Config) -> Callable[[Mapping[str, Any]], Config]:
    """A function of other values, by dotted key, that gives the configuration with them, and raises as `load` does."""

    def varied(values: Mapping[str, Any]) -> Config:
        # A value may be a whole group, so it is expanded as an override of the command line is.
        tree = OmegaConf.create()
        for key, value in values.items():
            if key == "roles.file":
                key, value = "roles", {"file": value}
            OmegaConf.update(tree, key, _expanded({key: value})[key], force_add=True)
        return typed([tree], config)

    return varied


def _preset(name: str) -> tuple[Any, str, bool]:
    """The settings of an experiment, its name in records, and whether it is one of the project's."""
    if not name:
        raise UserError("experiment= is missing: name one, such as experiment=mmqa_prune; `python run.py` lists all")
    path = Path(name)
    if own := name.endswith((".yaml", ".yml")):
        if not os.path.isfile(path):  # `Path.is_file` raises for a name that is too long
            raise UserError(f"experiment={name}: there is no such file; give a preset's path or one of our names")
        if not re.fullmatch(r"[\w.-]+", path.stem):
            raise UserError(f"experiment={name}: run folders are named after it, so letters, digits, -, _ and . only")
    elif (PRESETS / f"{name}.yaml").is_file() if is_key(name) else False:
        path = PRESETS / f"{name}.yaml"
    elif name in OURS:
        return _of_method(name), name, True
    else:
        known = experiments()
        raise UserError(f"unknown experiment {shown(name)!r}.{near_miss(name, known)} Known: {', '.join(known)}")
    tree = _mapping(
        path,
        f"{path} cannot be read as a preset",
        f"{path} is not a preset: expected keys and values, such as `seed: 1`",
    )
    if "resume" in tree:
        raise UserError(f"{path}: resume is no setting of a preset; give resume=<run folder> on the command line")
    return _expanded(tree), path.stem, not own


def _of_method(name: str) -> Any:
    """The settings of `experiment=<method>`: the method after those that it is compared with, as its paper has it."""
    compared, settings = EXPERIMENTS.get(name, ((), {}))
    tree = OmegaConf.create({"methods": [*compared, name]})
    for key, value in settings.items():
        OmegaConf.update(tree, key, value, force_add=True)
    return OmegaConf.to_container(tree)


def _resumed(folder: Path, arguments: Sequence[str]) -> Config:
    """The saved configuration with other runtime keys; what it names outside the folder has to be named again."""
    check_outside(folder)
    saved = read(RunFolder.open(folder).config)
    ignored = ("resume", saved.experiment and f"experiment={saved.experiment}")
    others = [one for one in arguments if not one.startswith("resume=") and one not in ignored]
    overrides = [_override(one) for one in others]
    for argument, override in zip(others, overrides, strict=True):
        key, _ = _key_and_value(argument)
        # What `check_named_again` requires may be named again, with the saved value.
        if not may_change(key) and typed([override], saved) != saved:
            raise UserError(f"{key} cannot change when a run is resumed; only {', '.join(RUNTIME_KEYS)} can")
    resumed = typed([*overrides, {"resume": str(folder)}], saved)
    check_secrets(resumed)
    check_named_again(resumed, typed([{"job": saved.job}, *overrides]), folder)
    return resumed


def _key_and_value(argument: str) -> tuple[str, str]:
    key, equals, value = argument.partition("=")
    if not equals or not is_key(key):
        raise UserError(f"{shown(argument)!r} is not of the form key=value, such as seed=1 or data.limit=20")
    return key, value


def _override(argument: str) -> Any:
    """The tree of one `key=value`."""
    key, text = _key_and_value(argument)
    try:
        tree = OmegaConf.to_container(OmegaConf.from_dotlist([f"{key}={as_written(key, text)}"]))
    # RecursionError: brackets in brackets without end.
    except (OmegaConfBaseException, YAMLError, ValueError, RecursionError) as error:
        # The argument may hold a password.
        raise UserError(f"the value of {key} cannot be read: {one_line(error)}") from error
    # Only a group's name has a short form, and a role's model: another dotted key already names one setting.
    return _expanded(tree) if "." not in key or key.startswith("roles.") else tree


def _expanded(tree: Any) -> Any:
    """Writes short forms out: `model: reader` is `model: {kind: reader}`, for every group that has kinds and for a
    role's model; `roles.file` names a file of roles."""
    groups = _groups_with_kinds()
    expanded = {}
    for key, value in tree.items():
        group = str(key).rpartition(".")[2] if str(key).startswith("roles.") else key
        if group in groups and isinstance(value, str):
            value = {"kind": value}
        elif group == "roles" and isinstance(value, dict):
            file = value.get("file")
            own = {role: _expanded(s) if isinstance(s, dict) else s for role, s in value.items() if role != "file"}
            value = own if file is None else OmegaConf.to_container(OmegaConf.merge(read_roles(str(file)), own))
        expanded[key] = value
    return expanded


@cache
def _groups_with_kinds() -> frozenset[str]:
    hints = get_type_hints(Config)
    groups = {f.name: hints[f.name] for f in fields(Config) if is_dataclass(hints[f.name])}
    return frozenset(
        {"judge", *(name for name, group in groups.items() if any(f.name == "kind" for f in fields(group)))}
    )


def _mapping(path: Path, unreadable: str, no_mapping: str) -> Any:
    """The keys and values of a YAML file. Raises UserError with the first text and a reason, or with the second."""
    try:
        tree = OmegaConf.to_container(OmegaConf.load(path))
    # ValueError: another encoding than UTF-8, or a number without end; RecursionError: lists in lists without end.
    except (OSError, YAMLError, OmegaConfBaseException, ValueError, RecursionError) as error:
        raise UserError(f"{unreadable}: {one_line(error)}") from error
    if not isinstance(tree, dict):
        raise UserError(no_mapping)
    return tree
