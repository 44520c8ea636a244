"""Reads YAML without interpreting its values, and writes configurations.

YAML 1.1 takes `no` for false, `1.10` for 1.1 and `12:30` for 750. Here an unquoted value stays text, a `Plain`, until
the setting that holds it gives it a type (`values.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import Any

import yaml

from actors.errors import UserError

DEPTH = 40  # of groups and lists in each other
CHARACTERS = 2_000_000  # sweeps with many points have the longest files
# Plain values of settings of any type: the numbers of JSON, which have no leading zeros.
NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?")


class Plain(str):
    """Unquoted value of a YAML text."""


def read_yaml(path: Path) -> Any:
    """Reads a file. Raises UserError as `yaml_tree` does, and for a file that cannot be read."""
    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(CHARACTERS + 1)
    except (OSError, UnicodeError) as error:
        raise UserError(" ".join(str(error).split())) from error
    if len(text) > CHARACTERS:
        raise UserError(f"it has more than {CHARACTERS:,} characters")
    return yaml_tree(text)


def yaml_tree(text: str) -> Any:
    """The dicts, lists and texts of one YAML document; None for an empty one.

    Raises:
        UserError: the text is no YAML, has a key twice, tags, aliases, or lists in lists without end.
    """
    try:
        return _tree(yaml.parse(text, Loader=yaml.CSafeLoader))
    except yaml.MarkedYAMLError as error:
        line = f"line {error.problem_mark.line + 1}: " if error.problem_mark else ""
        raise UserError(f"{line}{error.problem or error.context}") from error
    except (yaml.YAMLError, UnicodeError) as error:
        raise UserError("control characters, or bytes that are no UTF-8; write plain text") from error


def _tree(events: Iterable[Any]) -> Any:
    # From events, without recursion: a short text can nest lists more deeply than the interpreter's stack.
    document: list[Any] = []
    opened: list[tuple[bool, list[Any]]] = [(False, document)]  # whether it is a group; then keys and values in turn
    for event in events:
        if isinstance(event, yaml.CollectionEndEvent):
            is_group, parts = opened.pop()
            opened[-1][1].append(_group(parts) if is_group else parts)
            continue
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise UserError("YAML aliases (& and *) are not read; write the value itself")
        if getattr(event, "tag", None):
            raise UserError(f"YAML tags such as {event.tag[:40]} are not read; write plain values")
        if isinstance(event, yaml.CollectionStartEvent):
            opened.append((isinstance(event, yaml.MappingStartEvent), []))
        elif isinstance(event, yaml.ScalarEvent):
            opened[-1][1].append(event.value if event.style else Plain(event.value))
        if len(opened) > DEPTH:
            raise UserError(f"lists or groups in each other, {DEPTH} deep: write plain values")
    if len(document) > 1:
        raise UserError("it has several YAML documents; expected one")
    return document[0] if document else None


def _group(parts: list[Any]) -> dict[str, Any]:
    group: dict[str, Any] = {}
    for key, value in zip(parts[::2], parts[1::2], strict=True):
        if not isinstance(key, str):
            raise UserError("a group or a list is no key; write keys as text")
        if key in group:
            raise UserError(f"duplicate key {key[:80]}")
        group[str(key)] = value
    return group


def untyped(value: Any) -> Any:
    """The value of a setting that may be of any type: null, true, false and JSON's numbers, else text."""
    if isinstance(value, dict):
        return {name: untyped(part) for name, part in value.items()}
    if isinstance(value, list):
        return [untyped(part) for part in value]
    if not isinstance(value, Plain):
        return value
    if value.lower() in ("", "~", "null"):
        return None
    if value.lower() in ("true", "false"):
        return value.lower() == "true"
    if found := NUMBER.fullmatch(value):
        number = float(value) if found[2] or found[3] or len(value) > 300 else int(value)
        # A number that no float holds stays text.
        return str(value) if number in (float("inf"), float("-inf")) else number
    return str(value)


class _Dumper(yaml.CSafeDumper):
    """Quotes every text that `untyped` or another reader of YAML would take for something else."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


_Dumper.add_implicit_resolver("!number", NUMBER, list("-0123456789"))
_Dumper.add_implicit_resolver("!home", re.compile(r"~.*"), ["~"])
_Dumper.add_multi_representer(StrEnum, lambda dumper, value: dumper.represent_str(value.value))


def yaml_text(tree: Any) -> str:
    """The YAML text of a tree, keys in their order."""
    return yaml.dump(tree, Dumper=_Dumper, sort_keys=False, allow_unicode=True)
