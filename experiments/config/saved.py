"""Saves configurations, and reads saved ones as data: a run folder may come from anybody.

A saved configuration holds every key, literally, and the version that wrote it. One of an earlier version lacks the
keys that came later (`since=` of `actors.settings.setting`) and may hold keys of `REMOVED`.
"""

import json
import os
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from actors.errors import UserError
from actors.settings import BEFORE, OVER, SINCE
from experiments.config.config import Config, written
from experiments.config.keys import fields_of
from experiments.config.values import layer_of, typed_literal
from experiments.config.yaml_tree import SavedLoader, check_literal, read_yaml
from experiments.records.run_files import write_atomically
from experiments.records.start import project_version

UNNAMED = "0.2.0"  # the last version that did not name itself in its configurations
# Keys of earlier versions, by dotted name: the version that has none of them any more, and their default before it.
REMOVED: dict[str, tuple[str, Any]] = {"learner.beginnings": ("0.3.0", None), "explain.orders": ("0.4.0", 16)}
# Values of earlier versions, by dotted name: the removed value, and the one that is read in its place.
REPLACED = {"explain.search": ("shapley", "auto")}


def save(config: Config, path: Path) -> None:
    """Writes a whole configuration, defaults included. Raises UserError for text that cannot be read again."""
    # JSON has the values of choices, where OmegaConf would write their names in Python.
    tree = json.loads(json.dumps({"version": project_version(), **asdict(config)}))
    check_literal(tree)
    write_atomically(path, OmegaConf.to_yaml(OmegaConf.create(tree)).encode())


def read(path: Path) -> Config:
    """Reads a saved configuration; imports nothing of it. Raises UserError where this version cannot read it."""
    version = f"{UNNAMED} or earlier"
    try:
        tree = read_yaml(path, check_literal, SavedLoader)
        if not isinstance(tree, dict):
            raise UserError("it has no keys and values")
        saved_by = str(tree.pop("version", UNNAMED))
        if saved_by != UNNAMED:
            version = saved_by
        _drop_removed(tree)
        for key in _missing(tree, Config, _number(saved_by)):
            raise UserError(f"it lacks {key}: it was cut short")
        return typed_literal(layer_of(tree.items()))
    except UserError as error:
        raise UserError(
            f"{path} is not a saved configuration of this version ({error}); agora-mm {version[:20]}, which wrote it, "
            "reads it"
        ) from error


def answered_by(config: Config) -> Config:
    """Finds the configuration whose model gave a run's answers: of a replay the recorded one, if it is there."""
    replayed = set()
    # A folder may name itself as the run that it replays.
    while config.replays and config.replay.run and config.replay.run not in replayed:
        replayed.add(config.replay.run)
        path = Path(config.replay.run) / "config.yaml"
        if not os.path.isfile(path):  # `Path.is_file` raises for a name that is too long
            break
        config = read(path)
    return config


def _drop_removed(tree: dict[str, Any]) -> None:
    """Drops keys that no longer exist, and replaces values. Raises UserError for keys that had no default value."""
    removed = []
    for key, (until, default) in REMOVED.items():
        group_name, _, name = key.partition(".")
        group = tree.get(group_name)
        if isinstance(group, dict) and name in group and group.pop(name) != written(default):
            removed.append(f"{key} (until {until})")
    for key, (value, later_value) in REPLACED.items():
        group_name, _, name = key.partition(".")
        group = tree.get(group_name)
        if isinstance(group, dict) and group.get(name) == value:
            group[name] = later_value
    if removed:
        raise UserError(f"it chose settings that no longer exist: {', '.join(removed)}")


def _missing(tree: Any, group: type, version: tuple[int, ...], prefix: str = "") -> Iterator[str]:
    """Yields the keys that a tree of this version lacks. Fills in keys that are newer than the tree."""
    if not isinstance(tree, dict):
        return
    for name, setting in fields_of(group).items():
        if name in tree:
            # The dict of a judge's or a role's model holds some keys alone.
            if setting.is_group and OVER not in setting.metadata:
                yield from _missing(tree[name], setting.kind, version, f"{prefix}{name}.")
            elif setting.below.is_group and isinstance(tree[name], dict):
                for role, settings in tree[name].items():
                    yield from _missing(settings, setting.below.kind, version, f"{prefix}{name}.{role}.")
        elif _number(setting.metadata.get(SINCE, "")) <= version:
            yield f"{prefix}{name}"
        elif BEFORE in setting.metadata:
            tree[name] = setting.metadata[BEFORE]


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdecimal())
