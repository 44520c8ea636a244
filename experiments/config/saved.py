"""Saves configurations, and reads saved ones as data: a run folder may come from anybody.

A saved configuration holds every key, no `${...}` that would be filled in from elsewhere, and no YAML aliases, which a
small file can use to fill the memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import yaml
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from actors.errors import UserError
from experiments.config.config import Config
from experiments.config.layers import one_line, typed
from experiments.config.values import DEPTH
from experiments.records.run_files import write_atomically

CHARACTERS = 2_000_000  # sweeps with many points have the longest files
EARLIER = "0.1.0"  # the version whose run folders this one does not read


def save(config: Config, path: Path) -> None:
    """Writes a whole configuration, defaults included."""
    write_atomically(path, OmegaConf.to_yaml(OmegaConf.structured(config)).encode())


def read(path: Path) -> Config:
    """Reads a saved configuration; imports nothing that it names.

    Raises:
        UserError: the file is not a whole configuration of this version.
    """
    try:
        tree = _read_tree(path)
        config = typed([tree])
        if missing := next(_missing(tree, asdict(config)), None):
            raise UserError(f"it lacks {missing}: it was cut short")
        return config
    except (OSError, UnicodeError, RecursionError, yaml.YAMLError, OmegaConfBaseException, UserError) as error:
        raise UserError(
            f"{path} is not a saved configuration of this version ({one_line(error)}); agora-mm {EARLIER} reads the "
            "run folders that it wrote"
        ) from error


def _read_tree(path: Path) -> dict[str, Any]:
    with path.open(encoding="utf-8") as file:
        text = file.read(CHARACTERS + 1)
    if len(text) > CHARACTERS:
        raise UserError(f"it has more than {CHARACTERS:,} characters")
    depth = 0
    # Before anything is made of the text.
    for event in yaml.parse(text, Loader=yaml.CSafeLoader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if isinstance(event, yaml.AliasEvent) or depth > DEPTH:
            raise UserError("it has aliases, or lists in lists without end")
    # OmegaConf's loader, as for every other configuration: it reads numbers such as 1e-05, and refuses a key twice.
    tree: Any = OmegaConf.to_container(OmegaConf.create(text)) if text.strip() else None
    if not isinstance(tree, dict):
        raise UserError("it has no keys and values")
    return tree


def _missing(tree: Any, whole: Any, prefix: str = "") -> Iterator[str]:
    """The dotted keys of a whole configuration that a saved tree lacks."""
    if isinstance(whole, Mapping):
        saved = tree if isinstance(tree, Mapping) else {}
        for key, value in whole.items():
            if key in saved:
                yield from _missing(saved[key], value, f"{prefix}{key}.")
            else:
                yield f"{prefix}{key}"
    elif isinstance(whole, list) and isinstance(tree, list):
        for number, (part, of_whole) in enumerate(zip(tree, whole, strict=False)):
            yield from _missing(part, of_whole, f"{prefix[:-1]}[{number}].")
