"""Reads a command line: an experiment's preset over the typed defaults, and `key=value` overrides over both."""

import importlib.util
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from actors.errors import UserError
from actors.lookup import near_miss
from actors.settings import NEEDS, shown
from experiments.config.config import RUNTIME_KEYS, Config, flat, may_change
from experiments.config.references import at_home, check_named_again, check_outside, check_secrets, leaves
from experiments.config.role_files import read_roles
from experiments.config.saved import read
from experiments.config.values import declared, is_key, nested, paths, single, typed
from experiments.config.yaml_tree import Plain, check_literal, held, read_yaml, yaml_tree
from experiments.records.recorder import RunFolder
from topologies.catalogue import EXPERIMENTS, OURS

LIBRARIES = {"vllm": "vllm", "encoders": "sentence_transformers"}  # by the project's extras
PRESETS = Path(__file__).parents[1] / "presets"
Tree = dict[str, Any]


@dataclass(frozen=True)
class Overrides:
    """The dotted keys of a command line and of its preset, which may be `ours`. `alone` is the preset by itself."""

    keys: tuple[str, ...]
    preset: tuple[str, ...]
    ours: bool
    alone: Config


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
    given = [_key_and_value(argument) for argument in arguments]
    values = dict(given)
    if "resume" in values:
        folder = Path(values["resume"]).expanduser()
        check_outside(folder)
        saved = read(RunFolder.open(folder).config)
        at_home(saved, folder)
        others = [pair for pair in given if pair[0] != "resume" and pair != ("experiment", saved.experiment)]
        trees = {key: _with_roles(_tree(key, text)) for key, text in others}
        for key, tree in trees.items():
            # What `check_named_again` requires may be named again, with the saved value.
            if not may_change(key) and typed([tree], saved) != saved:
                raise UserError(f"{key} cannot change when a run is resumed; only {', '.join(RUNTIME_KEYS)} can")
        resumed = typed([*trees.values(), {"resume": str(folder)}], saved)
        check_secrets(resumed)
        check_named_again(resumed, typed([{"job": saved.job}, *trees.values()]))
        return resumed, None
    preset, name, ours = _preset(values.get("experiment", ""))
    overrides = [_tree(key, text) for key, text in given if key != "experiment"]
    named = {"experiment": name}
    config = typed([*map(_with_roles, [preset, named, *overrides])])
    check_secrets(config)
    keys = dict.fromkeys(key for tree in overrides for key, _ in flat(tree))
    alone = typed([_with_roles(preset), named])
    return config, Overrides(tuple(keys), tuple(key for key, _ in flat(preset)), ours, alone)


def varying(config: Config) -> Callable[[Mapping[str, Any]], Config]:
    """Returns a function that gives the configuration other values, by dotted key. It raises as `load` does."""
    return lambda values: typed([_with_roles({key: value}) for key, value in values.items()], config)


def check_installed(config: Config) -> None:
    """Raises UserError where a library is missing on this machine that a setting of the run needs."""
    for named_as, key, value in leaves(config):
        setting = declared(key)
        extra = setting.metadata[NEEDS](value) if setting and NEEDS in setting.metadata else ""
        # The nodes of a cluster have their own vLLM.
        elsewhere = extra == "vllm" and config.ray.address is not None
        if extra and not elsewhere and importlib.util.find_spec(LIBRARIES[extra]) is None:
            raise UserError(f"{named_as}: {shown(value)} needs a library that is missing: pip install '.[{extra}]'")


def _preset(name: str) -> tuple[Tree, str, bool]:
    """The settings of an experiment, its name in records, and whether it is one of the project's."""
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
        # Its rivals first, as in the tables of its paper.
        compared, settings = EXPERIMENTS.get(name, ((), {}))
        return {"methods": [*compared, name], **settings}, name, True
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


def named_again(arguments: Sequence[str], job: str = "prune", base: Config | None = None) -> Config:
    """Loads the overrides of a command line for a saved configuration, alone or over a `base`. Raises UserError."""
    given = map(_key_and_value, arguments)
    return typed([{"job": job}, *(_with_roles(_tree(key, text)) for key, text in given)], base)


def _key_and_value(argument: str) -> tuple[str, str]:
    key, equals, value = argument.partition("=")
    if equals and is_key(key):
        return key, value
    known = {name: f"experiment={name}" for name in experiments()} | {name: f"{name}=<value>" for name in paths()}
    bare = argument.strip("-= ")
    hint = f" Did you mean {known[bare]}?" if bare in known else near_miss(bare, known)
    raise UserError(f"{shown(argument)!r} is not of the form key=value, such as seed=1, without spaces around =.{hint}")


def _tree(key: str, text: str) -> Tree:
    """The tree of one `key=value`. Text stays as it was written, unless it is quoted, where the setting holds text."""
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
    return {key: value}


def _with_roles(tree: Mapping[str, Any]) -> Tree:
    """Puts the roles of a file that the tree names below the tree's own settings of roles."""
    check_literal(tree)
    layer = nested(tree.items())
    roles = layer.get("roles")
    if not isinstance(roles, dict) or roles.get("file") is None:
        return layer
    from_file = held(read_roles(str(roles.pop("file"))))
    return {**layer, "roles": OmegaConf.to_container(OmegaConf.merge(from_file, roles))}
