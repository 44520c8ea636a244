"""The reference that `python run.py help=...` prints: all that a configuration may name, from where it is defined."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import StrEnum
from typing import Any, Literal, get_args, get_origin, get_type_hints

from actors.backends.backends import BACKENDS
from actors.errors import UserError
from actors.lookup import installed, near_miss
from experiments.attacks.attack import ATTACKS
from experiments.config.config import Config
from experiments.config.loading import experiments
from experiments.config.setting_groups import RoleSettings
from experiments.datasets.catalogue import DATASETS
from topologies.catalogue import METHODS

WIDTH = 110


def reference(topic: str) -> str:
    """The reference of one topic, as lines of a name and a description.

    Raises:
        UserError: there is no such topic; the line has those that there are.
    """
    if topic not in TOPICS:
        raise UserError(f"help={topic}: there is no such topic.{near_miss(topic, TOPICS)} Known: {', '.join(TOPICS)}")
    return "\n".join(_laid_out(TOPICS[topic]()))


def _methods() -> Mapping[str, str]:
    return {method.name: method.description for method in METHODS} | installed("methods")


def _datasets() -> Mapping[str, str]:
    return {dataset.name: dataset.release for dataset in DATASETS} | installed("datasets")


def _attacks() -> Mapping[str, str]:
    return {attack.name: _first_sentence(attack) for attack in ATTACKS} | installed("attacks")


def _models() -> Mapping[str, str]:
    return {backend.name: backend.description for backend in BACKENDS} | installed("models")


def _keys() -> Mapping[str, str]:
    return dict(_documented(Config()))


TOPICS: Mapping[str, Callable[[], Mapping[str, str]]] = {
    "experiments": experiments,
    "methods": _methods,
    "data": _datasets,
    "attacks": _attacks,
    "models": _models,
    "keys": _keys,
}


def _first_sentence(documented: object) -> str:
    return " ".join((inspect.getdoc(documented) or "").split("\n\n")[0].split())


def _documented(group: Any, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Every key below settings with its default, the docstring that follows it in the source, and its choices."""
    hints, documents = get_type_hints(type(group)), _documents(type(group))
    for f in fields(group):
        key, value = f"{prefix}{f.name}", getattr(group, f.name)
        if is_dataclass(value):
            yield from _documented(value, f"{key}.")
            continue
        if key == "roles":
            yield from _documented(RoleSettings(), "roles.<role>.")
            continue
        text = documents.get(f.name, "")
        choices = _choices(hints[f.name])
        # A setting whose text names them all needs no list.
        if any(choice not in text for choice in choices):
            text = f"{text.rstrip('.')}{'; ' if text else ''}one of {', '.join(choices)}"
        yield f"{key}={_shown(value)}", text


def _choices(kind: Any) -> list[str]:
    """The values that a setting of this type may have, where these are few."""
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return [member.value for member in kind]
    if get_origin(kind) is Literal:
        return [str(value) for value in get_args(kind)]
    return [choice for part in get_args(kind) for choice in _choices(part)] if get_origin(kind) is not None else []


def _documents(group: type) -> dict[str, str]:
    """The string or comment behind each field; a field without one goes by the class's docstring."""
    # A docstring behind a field is not kept at run time, so the source is parsed.
    source = textwrap.dedent(inspect.getsource(group))
    lines, descriptions, last = source.splitlines(), {}, ""
    for node in ast.parse(source).body[0].body:  # type: ignore[attr-defined]
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            last = node.target.id
            _, _, comment = lines[node.lineno - 1].partition("  # ")
            descriptions[last] = comment or _above(lines[: node.lineno - 1])
        elif last and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            descriptions[last] = " ".join(str(node.value.value).split())
    return descriptions


def _above(lines: list[str]) -> str:
    """The comment that ends these lines."""
    comment: list[str] = []
    for line in reversed(lines):
        if not line.lstrip().startswith("# "):
            break
        comment.insert(0, line.strip().removeprefix("# "))
    return " ".join(comment)


def _shown(value: Any) -> str:
    if value is None:
        return "null"
    # As one would write it on the command line; bool comes before anything that treats it as a number.
    if isinstance(value, bool):
        return str(value).lower()
    return "[" + ",".join(map(str, value)) + "]" if isinstance(value, list) else str(value)


def _laid_out(rows: Mapping[str, str]) -> Iterator[str]:
    """A row for each name; a long name has its description on lines of its own."""
    column = min(28, max(map(len, rows), default=0)) + 2
    for name, text in rows.items():
        wrapped = textwrap.wrap(text, WIDTH - column) or [""]
        if len(name) + 2 > column:
            yield name
            name = ""
        yield f"{name:<{column}}{wrapped[0]}".rstrip()
        for line in wrapped[1:]:
            yield " " * column + line
