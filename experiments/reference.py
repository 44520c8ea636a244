"""Lists what `python run.py` and `python run.py help=...` print: experiments, names and keys."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import StrEnum
from functools import partial
from typing import Any, Literal, get_args, get_origin, get_type_hints

from actors.backends.backends import BACKENDS
from actors.errors import UserError
from actors.lookup import installed, near_miss
from actors.settings import BOUNDS, WHEN
from experiments.attacks.attack import ATTACKS
from experiments.config.config import Config
from experiments.config.loading import experiments
from experiments.config.setting_groups import RoleSettings
from experiments.config.study_settings import OF_JOBS
from experiments.datasets.catalogue import DATASETS
from topologies.catalogue import METHODS

WIDTH = 110
USAGE = """usage: python run.py experiment=<name or preset.yaml> [key=value ...]
       python run.py resume=<run folder>
       python run.py help=experiments|keys|planted|redundancy|behaviour|methods|data|attacks|models

experiments:"""


def usage() -> str:
    """Describes the calls of run.py, with a line for each experiment."""
    return "\n".join([USAGE, *(f"  {name:<18} {description}" for name, description in experiments().items())])


def reference(topic: str) -> str:
    """Lists one topic's names and descriptions. Raises UserError for an unknown topic."""
    if topic not in TOPICS:
        raise UserError(f"help={topic}: there is no such topic.{near_miss(topic, TOPICS)} Known: {', '.join(TOPICS)}")
    return "\n".join(_laid_out(TOPICS[topic]()))


def _keys_of(job: str) -> Mapping[str, str]:
    return dict(_documented(getattr(OF_JOBS[job](), job), f"{job}."))


TOPICS: Mapping[str, Callable[[], Mapping[str, str]]] = {
    "experiments": experiments,
    "methods": lambda: {method.name: method.description for method in METHODS} | installed("methods"),
    "data": lambda: {dataset.name: dataset.release for dataset in DATASETS} | installed("datasets"),
    "attacks": lambda: {attack.name: _first_sentence(attack) for attack in ATTACKS} | installed("attacks"),
    "models": lambda: {backend.name: backend.description for backend in BACKENDS} | installed("models"),
    "keys": lambda: dict(_documented(Config())),
    # Settings of a study exist for its own job alone.
    **{job: partial(_keys_of, job) for job in OF_JOBS},
}


def _first_sentence(documented: object) -> str:
    return " ".join((inspect.getdoc(documented) or "").split("\n\n")[0].split())


def _documented(group: Any, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Every key below settings with its default, description, choices, bounds and conditions."""
    hints, documents = get_type_hints(type(group)), _documents(type(group))
    for f in fields(group):
        key, value = f"{prefix}{f.name}", getattr(group, f.name)
        if is_dataclass(value):
            yield from _documented(value, f"{key}.")
            continue
        if key == "roles":
            yield from _documented(RoleSettings(), "roles.<role>.")
            continue
        text = documents[f.name]
        choices = _choices(hints[f.name])
        # A setting whose text names them all needs no list.
        if any(choice not in text for choice in choices):
            text = f"{text.rstrip('.')}; one of {', '.join(choices)}"
        if bounds := f.metadata.get(BOUNDS):
            text = f"{text} [{bounds}]"
        if f.metadata.get(WHEN):
            text = f"{text} (counts with {f.metadata[WHEN]})"
        yield f"{key}={_shown(value)}", text


def _choices(kind: Any) -> list[str]:
    """The values of a type that has few."""
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return [member.value for member in kind]
    if get_origin(kind) is Literal:
        return [str(value) for value in get_args(kind)]
    return [choice for part in get_args(kind) for choice in _choices(part)] if get_origin(kind) is not None else []


def _documents(group: type) -> dict[str, str]:
    """The docstring below each field."""
    # It is not kept at run time, so the source is parsed.
    descriptions, last = {}, ""
    for node in ast.parse(textwrap.dedent(inspect.getsource(group))).body[0].body:  # type: ignore[attr-defined]
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            last = node.target.id
        elif last and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            descriptions[last] = " ".join(str(node.value.value).split())
    return descriptions


def _shown(value: Any) -> str:
    if value is None:
        return "null"
    # As one would write it on the command line; bool comes before anything that treats it as a number.
    if isinstance(value, bool):
        return str(value).lower()
    return "[" + ",".join(map(str, value)) + "]" if isinstance(value, list) else str(value)


def _laid_out(rows: Mapping[str, str]) -> Iterator[str]:
    """A row for each name; the description of a long name begins on the next line."""
    column = min(28, max(map(len, rows), default=0)) + 2
    for name, text in rows.items():
        wrapped = textwrap.wrap(text, WIDTH - column) or [""]
        if len(name) + 2 > column:
            yield name
            name = ""
        yield f"{name:<{column}}{wrapped[0]}".rstrip()
        for line in wrapped[1:]:
            yield " " * column + line
