"""Reads configurations: an experiment's preset over the typed defaults, and `key=value` words over both."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, get_type_hints

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import ConfigKeyError, OmegaConfBaseException
from yaml import MarkedYAMLError, YAMLError

from actors.backends.backends import find_backend
from actors.backends.model_settings import ModelSettings
from actors.errors import UserError
from actors.lookup import near_miss
from actors.settings import check_bounds, shown
from experiments.attacks.attack import attack_kind
from experiments.config.config import RUNTIME_KEYS, Config, may_change, of_any_role
from experiments.config.references import check_named_again, check_outside, flat
from experiments.config.role_files import read_roles
from experiments.config.saved import check_keys, check_literal, read_tree
from experiments.config.secrets import check_secrets
from experiments.config.settings import RoleSettings
from experiments.config.values import check_shape, is_key
from experiments.config.words import as_written
from experiments.datasets.catalogue import dataset_kind
from experiments.records.recorder import RunFolder
from experiments.records.run_files import write_atomically

PRESETS = Path(__file__).parents[1] / "presets"
LINE_CHARACTERS = 600
NAMELESS = ("text_", "visual_")  # what stands before the name of a role of the team


def experiments() -> dict[str, str]:
    """Name and one-line description (the YAML's first comment) of every experiment, by name."""
    described = {}
    for path in sorted(PRESETS.glob("*.yaml")):
        described[path.stem] = path.read_text().splitlines()[0].removeprefix("#").strip()
    return described


def load(words: Sequence[str]) -> Config:
    """The configuration of a command line such as `experiment=mmqa_prune topology.rounds=4`.

    `experiment` is a name of ours or the path of a preset of the user's own, a YAML file. Of several words for one key
    the last one counts, so that a script's own words can be followed by others.

    Raises:
        UserError: an unknown experiment or key (with the nearest right one), or a value that is not allowed.
    """
    values = dict(_key_and_value(word) for word in words)
    if "resume" in values:
        return _resumed(Path(values["resume"]), words)
    config = _typed(_layers(words))
    check_secrets(config)
    check_kinds(config)  # now, because a wrong name must not be noticed after minutes of starting
    return config


@dataclass(frozen=True)
class Said:
    """The dotted keys that a command line says, and those that its preset does.

    ours: whether the preset is one of this project's; alone: what the preset is by itself.
    """

    words: tuple[str, ...]
    preset: tuple[str, ...]
    ours: bool
    alone: Config


def said(words: Sequence[str]) -> Said | None:
    """What a command line says, which `load` can read; None of one that resumes a run."""
    values = dict(_key_and_value(word) for word in words)
    if "resume" in values:
        return None
    preset, named, *others = _layers(words)
    trees: Any = map(OmegaConf.to_container, others)
    keys = tuple(dict.fromkeys(key for tree in trees for key, _ in flat(tree)))
    ours = _preset(values["experiment"]).parent == PRESETS
    return Said(keys, tuple(key for key, _ in flat(preset)), ours, _typed([preset, named]))


def _layers(words: Sequence[str]) -> list[Any]:
    """What a preset says, its name, and what each word after it says."""
    preset = _preset(dict(map(_key_and_value, words)).get("experiment", ""))
    others = [word for word in words if not word.startswith("experiment=")]
    tree = _mapping(
        preset,
        f"{preset} cannot be read as a preset",
        f"{preset} is not a preset: expected keys and values, such as `seed: 1`",
    )
    if "resume" in tree:
        raise UserError(f"{preset}: resume is no setting of a preset; say resume=<run folder> on the command line")
    return [_expanded(tree), {"experiment": preset.stem}, *map(_override, others)]


def check_kinds(config: Config) -> None:
    """Looks up data set, attack, model and judge, and imports the user's own. Raises UserError where one is missing."""
    dataset_kind(config.data.kind)
    attack_kind(config.attack.kind)
    for key, model in (("model", config.model), ("judge", config.judge)):
        find_backend(key, model, config.reader)
    for role, settings in config.roles.items():
        if settings.model:
            find_backend(f"roles.{role}.model", for_role(config, role).model, config.reader)


def for_role(config: Config, role: str) -> Config:
    """The configuration as a role's model has it: `model` and `reader` with what the role has otherwise.

    Raises UserError for a key or a value that is not allowed.
    """
    settings = config.roles.get(role)
    if settings is None or not (settings.model or settings.reader):
        return config
    model = config.model
    if settings.model.get("kind", model.kind) != model.kind:
        # Names, addresses and engine arguments of one kind mean nothing to another.
        model = ModelSettings()
    elif settings.model.get("base_url", model.base_url) != model.base_url:
        # A key must not reach a server that it was not meant for.
        model = replace(model, key_env="")
    changes = OmegaConf.create({"model": settings.model, "reader": settings.reader})
    try:
        # Without roles, whose models are checked here.
        base = _structured(replace(config, roles={}, model=model))
        return replace(_typed([changes], base), roles=config.roles)
    except UserError as error:
        raise UserError(f"roles.{role}: {error}") from error


def save(config: Config, path: Path) -> None:
    """Writes all of a configuration, defaults included."""
    write_atomically(path, OmegaConf.to_yaml(_structured(config)).encode())


def varying(config: Config) -> Callable[[Mapping[str, Any]], Config]:
    """A function of other values, by dotted key, that gives the configuration with them; it raises UserError like
    `load`."""
    base = _structured(config)

    def varied(values: Mapping[str, Any]) -> Config:
        # Every value may change a whole group, so it is expanded like a word of the command line.
        tree = OmegaConf.create()
        for key, value in values.items():
            if key == "roles.file":
                key, value = "roles", {"file": value}
            OmegaConf.update(tree, key, _expanded({key: value})[key], force_add=True)
        return _typed([tree], base)

    return varied


def read(path: Path) -> Config:
    """A saved configuration; nothing that it names is imported. Raises UserError when the file is not a whole one."""
    try:
        tree = read_tree(path)
        # Not `load`, whose check_kinds would import code that the file names.
        config = _typed([tree])
        check_keys(tree, asdict(config))
        return config
    except (OSError, UnicodeError, RecursionError, YAMLError, OmegaConfBaseException, UserError) as error:
        raise UserError(f"{path} is not a saved configuration ({_line(error)}); give an intact run folder") from error


def _preset(name: str) -> Path:
    """The file of an experiment, by its name or its own path."""
    if not name:
        raise UserError("experiment= is missing: say which, such as experiment=mmqa_prune; `python run.py` lists all")
    path = Path(name)
    if name.endswith((".yaml", ".yml")):
        if not os.path.isfile(path):  # `Path.is_file` raises for a name that is too long
            raise UserError(f"experiment={name}: there is no such file; give a preset's path or one of our names")
        if not re.fullmatch(r"[\w.-]+", path.stem):
            raise UserError(f"experiment={name}: run folders are named after it, so letters, digits, -, _ and . only")
        return path
    known = experiments()
    if name not in known:
        raise UserError(f"unknown experiment {shown(name)!r}.{near_miss(name, known)} Known: {', '.join(known)}")
    return PRESETS / f"{name}.yaml"


def _resumed(folder: Path, words: Sequence[str]) -> Config:
    """The saved configuration with other runtime keys; what it names outside the folder has to be named again."""
    check_outside(folder)
    saved = read(RunFolder.open(folder).config)
    others = [word for word in words if not word.startswith("resume=") and word != f"experiment={saved.experiment}"]
    overrides, base = [_override(word) for word in others], _structured(saved)
    for word, override in zip(others, overrides, strict=True):
        key, _ = _key_and_value(word)
        # What `check_named_again` requires may be named again, with the saved value.
        if not may_change(key) and _typed([override], base) != saved:
            raise UserError(f"{key} cannot change when a run is resumed; only {', '.join(RUNTIME_KEYS)} can")
    resumed = _typed([*overrides, {"resume": str(folder)}], base)
    check_secrets(resumed)
    check_named_again(resumed, _typed(overrides), folder)
    return resumed


def _key_and_value(word: str) -> tuple[str, str]:
    key, equals, value = word.partition("=")
    if not equals or not is_key(key):
        raise UserError(f"{shown(word)!r} is not of the form key=value, such as seed=1 or data.limit=20")
    return key, value


def _override(word: str) -> DictConfig:
    key, text = _key_and_value(word)
    try:
        tree = OmegaConf.from_dotlist([f"{key}={as_written(key, text)}"])
    # RecursionError: brackets in brackets without end.
    except (OmegaConfBaseException, YAMLError, ValueError, RecursionError) as error:
        # The word may hold a password.
        raise UserError(f"the value of {key} cannot be read: {_line(error)}") from error
    # Only a group's name has a short form, and a role's model: another dotted key already says what it sets.
    short = "." not in key or key.startswith("roles.")
    return OmegaConf.create(_expanded(OmegaConf.to_container(tree))) if short else tree


def _expanded(tree: Any) -> Any:
    """Expands `model: reader` to `model: {kind: reader}`, for every group that has kinds and for a role's model."""
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


def _mapping(path: Path, unreadable: str, no_mapping: str) -> Any:
    """The keys and values of a YAML file. Raises UserError with the first text and why, or with the second."""
    try:
        tree = OmegaConf.to_container(OmegaConf.load(path))
    # ValueError: another encoding than UTF-8, or a number without end; RecursionError: lists in lists without end.
    except (OSError, YAMLError, OmegaConfBaseException, ValueError, RecursionError) as error:
        raise UserError(f"{unreadable}: {_line(error)}") from error
    if not isinstance(tree, dict):
        raise UserError(no_mapping)
    return tree


@cache
def _groups_with_kinds() -> frozenset[str]:
    hints = get_type_hints(Config)
    groups = {f.name: hints[f.name] for f in fields(Config) if is_dataclass(hints[f.name])}
    return frozenset(name for name, group in groups.items() if any(f.name == "kind" for f in fields(group)))


@cache
def _defaults() -> DictConfig:
    return _structured(Config)


def _structured(config: Config | type[Config]) -> DictConfig:
    """What layers are merged over; made once where there are several, for it takes longer than all the rest."""
    structured = OmegaConf.structured(config)
    assert isinstance(structured, DictConfig)
    return structured


def _typed(layers: Sequence[Any], base: DictConfig | None = None) -> Config:
    """The layers over the base, or over the defaults, as a checked configuration, the last one winning."""
    try:
        for layer in layers:
            tree = OmegaConf.to_container(layer) if isinstance(layer, DictConfig) else layer
            check_literal(tree)
            check_shape(tree, Config)
        config = OmegaConf.to_object(OmegaConf.merge(_defaults() if base is None else base, *layers))
    except ConfigKeyError as error:
        raise UserError(_unknown_key(error)) from error
    # OverflowError: a whole number that no float is; RecursionError: lists in lists without end.
    except (OmegaConfBaseException, ValueError, TypeError, OverflowError, RecursionError) as error:
        key = getattr(error, "full_key", None)
        raise UserError(f"{key}: {_line(error)}" if key else _line(error)) from error
    # For the type checker: to_object gives the class of the structured base.
    assert isinstance(config, Config)
    check_bounds(config)
    for role, settings in config.roles.items():
        # With a dot in it, its settings would be taken for those of another key.
        if not role.isidentifier() or role in NAMELESS:
            raise UserError(f"roles.{shown(role)}: expected a name of letters, digits and _, after text_ or visual_")
        check_bounds(settings, f"roles.{role}.")
        for_role(config, role)
    return config


def _unknown_key(error: ConfigKeyError) -> str:
    """The error text for an unknown key, with the nearest right one.

    Keys of the same name elsewhere in the tree come first: people forget the group more often than they misspell.
    """
    full = of_any_role(str(error.full_key or error.key))
    paths = list(_paths(Config))
    last = full.rpartition(".")[2]
    same_name = [path for path in paths if path.rpartition(".")[2] == last]
    # The whole key before its last part: a misspelt group is nearer to the intended one.
    hint = f" Did you mean {same_name[0]!r}?" if same_name else near_miss(full, paths) or near_miss(last, paths)
    group = full.rpartition(".")[0]
    siblings = [path for path in paths if path.rpartition(".")[0] == group]
    return f"unknown key {full!r}.{hint} Known here: {', '.join(siblings)}"


def _paths(group: Any, prefix: str = "") -> Iterator[str]:
    """Every dotted key below a group."""
    hints = get_type_hints(group)
    for f in fields(group):
        yield prefix + f.name
        if is_dataclass(hints[f.name]):
            yield from _paths(hints[f.name], f"{prefix}{f.name}.")
        elif f.name == "roles":
            yield from _paths(RoleSettings, f"{prefix}roles.<role>.")


def _line(error: BaseException) -> str:
    """An error in one line; OmegaConf adds lines about its own internals, and YAML begins with where it was."""
    if isinstance(error, MarkedYAMLError) and error.problem and error.problem_mark:
        return f"line {error.problem_mark.line + 1}: {error.problem}"
    first = str(error).splitlines()[0] if str(error) else type(error).__name__
    # It names choices as the code does; their values are the same in small letters.
    first = re.sub(r"expected one of \[[A-Z_, ]+\]$", lambda choices: choices[0].lower(), first)
    # OmegaConf quotes a value that it cannot take, however long.
    return first if len(first) <= LINE_CHARACTERS else f"{first[:LINE_CHARACTERS]}..."
