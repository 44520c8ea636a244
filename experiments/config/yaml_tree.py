"""Reads YAML without interpreting its values.

YAML 1.1 and `OmegaConf.load` take `no` for false, `1.10` for 1.1 and `12:30` for 750. Here an unquoted value stays
text, a `Plain`, until the setting that holds it gives it a type (`values.py`).
"""

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from actors.errors import UserError

DEPTH = 40  # of groups and lists in each other
# Sweeps with many points have the longest files. OmegaConf takes 60 us for each part of a text.
CHARACTERS, PARTS = 2_000_000, 100_000
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")  # all but tab and line ends
MISSING = "???"  # a value that is left open
_MISSING = re.compile(r"\\*\?\?\?")
# A value of another key. OmegaConf's resolvers are not called: `${oc.env:KEY}` would read a key.
_REFERENCE = re.compile(r"\$\{\w[\w.]*\}")


class Plain(str):
    """Unquoted value of a YAML text."""


def is_null(value: Any) -> bool:
    """True for null, also as unquoted text."""
    return value is None or (isinstance(value, Plain) and value in ("", "~", "null"))


class Saved(Plain):
    """Unquoted value of a saved configuration, in which `~` is no home folder."""


class _Loader(yaml.CSafeLoader):
    """Takes every value for text."""

    unquoted: type[str] = Plain

    def text(self, node: yaml.ScalarNode) -> str:
        return node.value if node.style else self.unquoted(node.value)

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


class SavedLoader(_Loader):
    """Reads a saved configuration."""

    unquoted = Saved


def read_yaml(path: Path, check: Callable[[Any], None], loader: type[_Loader] = _Loader) -> Any:
    """Reads a file. Raises UserError as `yaml_tree` and `check` do, and for one that cannot be read.

    check: `check_text` of a preset, `check_literal` of all others.
    """
    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(CHARACTERS + 1)
    except (OSError, UnicodeError) as error:
        raise UserError(" ".join(str(error).split())) from error
    if len(text) > CHARACTERS:
        raise UserError(f"it has more than {CHARACTERS:,} characters")
    tree = yaml_tree(text, loader)
    check(tree)
    return tree


def yaml_tree(text: str, loader: type[_Loader] = _Loader) -> Any:
    """Reads one YAML document, None for an empty one. Raises UserError for broken YAML, double keys and tags."""
    depth = 0
    try:
        # Before anything is made of the text: a short one can nest lists more deeply than the interpreter's stack.
        for number, event in enumerate(yaml.parse(text, Loader=loader)):
            if number > PARTS:
                raise UserError(f"it has more than {PARTS:,} keys, values, lists and groups")
            if isinstance(event, yaml.CollectionStartEvent):
                depth += 1
            elif isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
            if depth >= DEPTH:
                raise UserError(f"lists or groups in each other, {DEPTH} deep: write plain values")
            if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
                raise UserError("YAML aliases (& and *) are not read; write the value itself")
            tag = getattr(event, "tag", None)
            if tag:
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


def check_text(tree: Any, key: str = "") -> None:
    """Raises UserError for control characters, and for `${...}` that is not the name of a key.

    What a sweep tries is literal: it would be filled in once, before the sweep varies anything.
    """
    for own_key, text in _texts(tree, key):
        if "${" in _REFERENCE.sub("", text) or ("${" in text and own_key.startswith("sweep")):
            # The text itself is not shown.
            raise UserError(
                f"{own_key}: only ${{key}} is filled in, with the value of another key, and not in a sweep; write the "
                "value itself, and a key into the environment variable that key_env names"
            )


def check_literal(tree: Any, key: str = "") -> None:
    """Raises UserError for control characters, and text that OmegaConf would fill in or take for a missing value."""
    for own_key, text in _texts(tree, key):
        if _MISSING.fullmatch(text):
            raise UserError(f"{own_key[:80]}=???: write the value")
        if "${" in text:
            raise UserError(f"{own_key}: ${{...}} is not filled in here; write the value itself")


def _texts(tree: Any, key: str) -> Iterator[tuple[str, str]]:
    """Yields every text with the key that it lies at, names too. Raises UserError for control characters."""
    if isinstance(tree, Mapping):
        for name, value in tree.items():
            own_key = f"{key}.{name}" if key else str(name)
            yield from _texts(str(name), own_key)
            yield from _texts(value, own_key)
    elif isinstance(tree, list):
        for value in tree:
            yield from _texts(value, key)
    elif isinstance(tree, str):
        if _CONTROL.search(tree):
            raise UserError(f"{key[:80]}: control characters, or bytes that are no UTF-8; write plain text")
        yield key, tree
