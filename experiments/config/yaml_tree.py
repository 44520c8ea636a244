"""Reads YAML without interpreting its values.

YAML 1.1 and `OmegaConf.load` take `no` for false, `1.10` for 1.1 and `12:30` for 750. Here an unquoted value stays
text, a `Plain`, until the setting that holds it gives it a type (`values.py`).
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from actors.errors import UserError

DEPTH = 40  # of groups and lists in each other
# Sweeps with many points have the longest files. OmegaConf takes 60 us for each part of a text.
CHARACTERS, PARTS = 2_000_000, 100_000
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")  # all but tab and line ends
_MISSING = re.compile(r"\\*\?\?\?")  # to OmegaConf


class Plain(str):
    """Unquoted value of a YAML text."""


class Saved(Plain):
    """Unquoted value of a saved configuration, in which `~` is no home folder."""


class _Loader(yaml.CSafeLoader):
    """Takes every value for text."""

    plain: type[str] = Plain

    def text(self, node: yaml.ScalarNode) -> str:
        return node.value if node.style else self.plain(node.value)

    def group(self, node: yaml.MappingNode) -> dict[Any, Any]:
        group = self.construct_mapping(node, deep=True)
        if len(group) < len(node.value):
            keys = [key.value for key, _ in node.value]
            twice = next(key for key in keys if keys.count(key) > 1)
            raise UserError(f"duplicate key {twice[:80]}")
        return {str(key): value for key, value in group.items()}


_Loader.yaml_implicit_resolvers = {}
_Loader.add_constructor("tag:yaml.org,2002:str", _Loader.text)
_Loader.add_constructor("tag:yaml.org,2002:map", _Loader.group)


class _SavedLoader(_Loader):
    plain = Saved


def read_yaml(path: Path, saved: bool = False) -> Any:
    """Reads a file. Raises UserError as `yaml_tree` and `check_literal` do, and for one that cannot be read."""
    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(CHARACTERS + 1)
    except (OSError, UnicodeError) as error:
        raise UserError(" ".join(str(error).split())) from error
    if len(text) > CHARACTERS:
        raise UserError(f"it has more than {CHARACTERS:,} characters")
    tree = yaml_tree(text, _SavedLoader if saved else _Loader)
    check_literal(tree)
    return tree


def yaml_tree(text: str, loader: type[_Loader] = _Loader) -> Any:
    """Reads one YAML document, None for an empty one. Raises UserError for broken YAML, double keys and tags."""
    depth = 0
    try:
        # Before anything is made of the text: a short one can nest lists more deeply than the interpreter's stack.
        for number, event in enumerate(yaml.parse(text, Loader=loader)):
            if number > PARTS:
                raise UserError(f"it has more than {PARTS:,} keys, values, lists and groups")
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth >= DEPTH:
                raise UserError(f"lists or groups in each other, {DEPTH} deep: write plain values")
            if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
                raise UserError("YAML aliases (& and *) are not read; write the value itself")
            if tag := getattr(event, "tag", None):
                raise UserError(f"YAML tags such as {tag[:40]} are not read; write plain values")
        reader = loader(text)
        try:
            return reader.get_single_data()
        finally:
            reader.dispose()
    except yaml.MarkedYAMLError as error:
        line = f"line {error.problem_mark.line + 1}: " if error.problem_mark else ""
        raise UserError(f"{line}{error.problem or error.context}") from error
    except (yaml.YAMLError, UnicodeError) as error:
        raise UserError("control characters, or bytes that are no UTF-8; write plain text") from error


def check_literal(tree: Any, key: str = "") -> None:
    """Raises UserError for text that OmegaConf would fill in or take for a missing value, and control characters."""
    if isinstance(tree, Mapping):
        for name, value in tree.items():
            own = f"{key}.{name}" if key else str(name)
            check_literal(str(name), own)
            check_literal(value, own)
    elif isinstance(tree, list):
        for value in tree:
            check_literal(value, key)
    elif isinstance(tree, str) and _CONTROL.search(tree):
        raise UserError(f"{key[:80]}: control characters, or bytes that are no UTF-8; write plain text")
    elif isinstance(tree, str) and _MISSING.fullmatch(tree):
        raise UserError(f"{key[:80]}=???: write the value")
    elif isinstance(tree, str) and "${" in tree:
        # The text itself is not shown.
        raise UserError(
            f"{key}: ${{...}} is not filled in; write the value itself, and a key into the environment variable that "
            "key_env names"
        )
