"""Reads a saved configuration as data: a run folder may come from anybody.

It is what `save` writes and nothing else: every key, no `${...}` that would be filled in from elsewhere, no YAML
aliases, which a small file can use to fill the memory.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from math import isnan
from pathlib import Path
from typing import Any

import yaml
from omegaconf import OmegaConf

from actors.errors import UserError
from actors.settings import shown

CHARACTERS = 2_000_000  # sweeps with many points have the longest ones
DEPTH = 40
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")  # all but tab and line ends


def read_tree(path: Path) -> dict[str, Any]:
    """The keys and values of a YAML file.

    Raises UserError for what no saved configuration holds, and YAMLError, OmegaConfBaseException, OSError or
    UnicodeError for what cannot be read.
    """
    with path.open(encoding="utf-8") as file:
        text = file.read(CHARACTERS + 1)
    if len(text) > CHARACTERS:
        raise UserError(f"it has more than {CHARACTERS:,} characters")
    depth = 0
    # Before anything is made of it.
    for event in yaml.parse(text, Loader=yaml.CSafeLoader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if isinstance(event, yaml.AliasEvent) or depth > DEPTH:
            raise UserError("it has aliases, or lists in lists without end")
    # OmegaConf's loader, as for every other configuration: it reads numbers such as 1e-05, and refuses a key twice.
    tree: Any = OmegaConf.to_container(OmegaConf.create(text)) if text.strip() else None
    if not isinstance(tree, dict):
        raise UserError("it has no keys and values")
    return tree


def check_keys(tree: Mapping[str, Any], whole: Mapping[str, Any]) -> None:
    """Raises UserError for the first key of `whole` that a saved tree lacks: it was cut short."""
    if missing := next(_missing(tree, whole), None):
        raise UserError(f"it lacks {missing}: it was cut short, or written by another version")


def _missing(tree: Any, whole: Any, prefix: str = "") -> Iterator[str]:
    if isinstance(whole, Mapping):
        held = tree if isinstance(tree, Mapping) else {}
        for key, value in whole.items():
            if key in held:
                yield from _missing(held[key], value, f"{prefix}{key}.")
            else:
                yield f"{prefix}{key}"
    elif isinstance(whole, list) and isinstance(tree, list):
        for number, (part, of_whole) in enumerate(zip(tree, whole, strict=False)):
            yield from _missing(part, of_whole, f"{prefix[:-1]}[{number}].")


def check_literal(tree: Any, key: str = "", depth: int = 0) -> None:
    """Raises UserError for text that would be filled in from elsewhere, such as the environment: what is written down
    and shown must be what was said, and no secret. So it is for text that no file of text holds, and for lists in lists
    without end."""
    if depth > DEPTH:
        raise UserError(f"{key[:100]}: lists or groups in each other, {DEPTH} deep: write plain values")
    if isinstance(tree, Mapping):
        for name, value in tree.items():
            own = f"{key}.{name}" if key else str(name)
            check_literal(str(name), own, depth + 1)
            check_literal(value, own, depth + 1)
    elif isinstance(tree, list):
        for value in tree:
            check_literal(value, key, depth + 1)
    elif not (tree is None or isinstance(tree, (bool, int, float, str))) or (isinstance(tree, float) and isnan(tree)):
        raise UserError(f"{key}: expected text, a number, true, false or null, not {shown(tree)}")
    elif tree == "???":  # OmegaConf's word for a value that is to come
        raise UserError(f"{key}=???: write the value")
    elif isinstance(tree, str) and _CONTROL.search(tree):
        raise UserError(f"{key}: control characters, or bytes that are no UTF-8; write plain text")
    elif isinstance(tree, str) and "${" in tree:
        # The text itself is not shown.
        raise UserError(
            f"{key}: ${{...}} is not filled in; write the value itself, and a key into the environment variable that "
            "key_env names"
        )
