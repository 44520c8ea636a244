"""Reads a command line: an experiment's preset over the typed defaults, and `key=value` overrides over both."""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from actors.errors import UserError
from actors.lookup import near_miss
from actors.settings import shown
from experiments.config.config import RUNTIME_KEYS, Config, may_change
from experiments.config.keys import ANYTHING, ROLES_FILE, declared, is_key, paths
from experiments.config.references import at_home, check_named_again, check_outside, check_secrets
from experiments.config.role_files import read_roles
from experiments.config.saved import read
from experiments.config.values import Layer, layer_of, typed
from experiments.config.yaml_tree import Plain, check_text, read_yaml, yaml_tree
from experiments.records.recorder import RunFolder
from topologies.catalogue import OURS
from topologies.graph_file import absolute

PRESETS = Path(__file__).parents[1] / "presets"


@dataclass(frozen=True)
class Overrides:
    """Dotted keys that a command line sets, and those of its preset. ours: the preset is one of the project's."""

    keys: tuple[str, ...]
    preset_keys: tuple[str, ...]
    ours: bool


def experiments() -> dict[str, str]:
    """Describes every experiment in a line, by name: the presets, and each method against its rivals."""
    descriptions = {}
    for path in sorted(PRESETS.glob("*.yaml")):
        first_line = path.read_text().splitlines()[0]
        descriptions[path.stem] = first_line.removeprefix("#").strip()
    for name, method in OURS.items():
        descriptions.setdefault(name, method.description)
    return descriptions


def load(arguments: Sequence[str]) -> Config:
    """Loads the configuration of a command line such as `experiment=mmqa_prune topology.rounds=4`.

    `experiment` is the name of a preset or of a method, or the path of a preset of the user's own, a YAML file. Raises
    UserError for an unknown experiment or key (with the nearest right one), for a value that is not allowed, and for a
    key with two values.
    """
    return load_overrides(arguments)[0]


def load_overrides(arguments: Sequence[str]) -> tuple[Config, Overrides | None]:
    """Loads the configuration as `load` does, with the keys that were set.

    Of a run that is resumed, the saved configuration with other runtime keys, and without the keys: settings that lead
    outside of its folder have to be named again.
    """
    words = _words(arguments)
    overrides = None
    if "resume" in words:
        config = _resumed(words)
    else:
        preset, name, ours = _preset(str(words.get("experiment") or ""))
        config = typed([*preset, *_with_roles(words), {"experiment": name}])
        overrides = Overrides(keys=tuple(words), preset_keys=tuple(chain(*preset)), ours=ours)
    check_secrets(config)
    # So that the run can be resumed from another working directory.
    config.output = str(Path(config.output).absolute())
    config.cache = str(config.cache_folder.absolute())
    config.methods = list(map(absolute, config.methods))
    return config, overrides


def _resumed(words: Layer) -> Config:
    """Loads the saved configuration of a run folder, with other runtime keys. Raises UserError for other changes."""
    if not words["resume"]:
        raise UserError("resume= names no folder; give resume=<run folder>")
    folder = Path(words["resume"]).expanduser()
    check_outside(folder)
    saved = read(RunFolder.open(folder, checks=False).config)
    at_home(saved, folder)

    overrides = {key: value for key, value in words.items() if key != "resume"}
    # Settings that `check_named_again` requires may be named again, with the saved value.
    lasting = {key: value for key, value in overrides.items() if not may_change(key)}
    saved_values = saved.by_key
    resumed_values = typed(_with_roles(lasting), saved).by_key
    changed = [key for key, value in resumed_values.items() if saved_values.get(key) != value]
    if changed:
        changed_keys = f"{', '.join(changed)} cannot change when a run is resumed"
        raise UserError(f"{changed_keys}; only {', '.join(RUNTIME_KEYS)} can")
    check_named_again(saved, typed(_with_roles(overrides)))
    return typed([*_with_roles(overrides), {"resume": str(folder)}], saved)


def varied(config: Config, values: Mapping[str, Any]) -> Config:
    """Gives a configuration other values, by dotted key. Raises UserError as `load` does."""
    return typed(_with_roles(layer_of(values.items())), config)


def named_again(arguments: Sequence[str], base: Config | None = None) -> Config:
    """Loads the overrides of a command line for a saved configuration, alone or over a `base`. Raises UserError."""
    config = typed(_with_roles(_words(arguments)), base)
    check_secrets(config)
    return config


def _with_roles(layer: Layer) -> list[Layer]:
    """Returns a layer, and before it the roles of a file that it names (`roles.file`)."""
    file = layer.get(ROLES_FILE)
    if file is None:
        return [layer]
    rest = {key: value for key, value in layer.items() if key != ROLES_FILE}
    return [layer_of([("roles", read_roles(file))]), rest]


def _preset(name: str) -> tuple[list[Layer], str, bool]:
    """Returns an experiment's layers, its name in records, and whether it is one of the project's."""
    if not name:
        raise UserError("experiment= is missing: name one, such as experiment=mmqa_prune; `python run.py` lists all")
    if name.endswith((".yaml", ".yml")):
        path = Path(name).expanduser()
        if not os.path.isfile(path):  # `Path.is_file` raises for a name that is too long
            raise UserError(f"experiment={name}: there is no such file; give a preset's path or one of our names")
        if not re.fullmatch(r"[\w.-]+", path.stem):
            raise UserError(f"experiment={name}: run folders are named after it, so letters, digits, -, _ and . only")
        return _read_preset(path), path.stem, False

    path = PRESETS / f"{name}.yaml"
    if is_key(name) and path.is_file():
        return _read_preset(path), name, True
    if name in OURS:
        # Its rivals first, as in the tables of its paper.
        method = OURS[name]
        return [{"methods": [*method.rivals, name], **method.settings}], name, True
    names = experiments()
    raise UserError(f"unknown experiment {shown(name)!r}.{near_miss(name, names)} Known: {', '.join(names)}")


def _read_preset(path: Path) -> list[Layer]:
    """Reads a preset. Raises UserError for a file that is none."""
    try:
        tree = read_yaml(path, check_text)
    except UserError as error:
        raise UserError(f"{path} cannot be read as a preset: {error}") from error
    if not isinstance(tree, dict):
        raise UserError(f"{path} is not a preset: expected keys and values, such as `seed: 1`")
    if "resume" in tree:
        raise UserError(f"{path}: resume is no setting of a preset; give resume=<run folder> on the command line")
    return _with_roles(layer_of(tree.items()))


def _words(arguments: Sequence[str]) -> Layer:
    """Reads `key=value` words. Raises UserError for a key that does not exist or has two values."""
    values = []
    for number, argument in enumerate(arguments):
        key, equals, _ = argument.partition("=")
        if not equals or not is_key(key):
            raise UserError(
                f"{shown(argument)!r} is not of the form key=value, such as seed=1, without spaces around =."
                f"{_hint_for_bare(argument, arguments[:number])}"
            )
        values.append((key, _value_of(argument)))
    return layer_of(values)


def _hint_for_bare(argument: str, earlier_words: Sequence[str]) -> str:
    """Returns what a word without a key may have been meant for."""
    if earlier_words:
        key, _, value = earlier_words[-1].partition("=")
        setting = declared(key)
        if setting and setting.is_list:
            return f" Write lists in one word: {key}=[{value.strip('[], ')},{argument.strip('[], ')}]"

    words = {name: f"{name}=<value>" for name in paths()}
    if not any(word.startswith("experiment=") for word in earlier_words):
        words = {name: f"experiment={name}" for name in experiments()} | words
    bare_word = argument.strip("-= ")
    if bare_word in words:
        return f" Did you mean {words[bare_word]}?"
    return near_miss(bare_word, words)


def _value_of(argument: str) -> Any:
    """Reads the value of a word. Text stays as it was written, unless it is quoted, where the setting holds text."""
    key, _, text = argument.partition("=")
    stripped = text.strip()
    setting = declared(key) or ANYTHING
    if not stripped and not setting.is_text:
        raise UserError(f"{key}= has no value; leave it out for the default, or write null for none")

    is_quoted = len(stripped) > 1 and stripped[0] == stripped[-1] and stripped[0] in "\"'"
    if setting.is_text and not is_quoted:
        value: Any = Plain(text)
    elif setting.kind in (int, float, bool) and not is_quoted:
        value = Plain(stripped)
    else:
        try:
            value = yaml_tree(text)
        except UserError as error:
            # The argument may hold a password.
            raise UserError(f"the value of {key} cannot be read: {error}") from error
        if re.search(r"\s#", text) and not is_quoted and not stripped.startswith(("[", "{")):
            raise UserError(f"{key}: what follows ` #` is a comment in YAML; put the value into quotation marks")
    check_text(value, key)
    return value
