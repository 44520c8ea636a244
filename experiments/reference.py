"""Lists what `python run.py` and `python run.py help=...` print: experiments, names and keys."""

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import StrEnum
from functools import cache
from typing import Any, Literal, get_args, get_origin, get_type_hints

from actors.backends.backends import BACKENDS
from actors.errors import UserError
from actors.lookup import installed, near_miss
from actors.settings import bounds_text
from experiments.attacks.catalogue import ATTACKS
from experiments.config.config import Config, among, of_any_role, written
from experiments.config.keys import near_key, paths
from experiments.config.loading import experiments, load_overrides
from experiments.config.setting_groups import RoleSettings
from experiments.datasets.catalogue import DATASETS
from experiments.unused import PARTS, conditions, readers
from topologies.catalogue import METHODS

WIDTH = 110
Row = tuple[str, str, str]  # a key or a group, how it is listed, and its description
# By the question that each answers; the first is README's.
FIRST = {
    "two_attackers": "Two of nine agents lie: what harm, and who finds them?",
    "mmqa_prune": "Which edges does M3Prune cut, and what is gained?",
    "twins": "Is the team better than one agent with the same tokens?",
    "without_each_agent": "Which agent does the team not need?",
    "one_attacker": "How much harm does one attacker do, and what finds it?",
    "behaviour": "Does the model follow colleagues that are wrong?",
}
USAGE = """usage: python run.py experiment=<name or preset.yaml> [key=value ...]
       python run.py resume=<run folder>
       python run.py view=<folder of runs>
       python run.py explain=<run folder>      (lock=, replay.from=: docs/)
       python run.py table=[<run folder>,...]
       python run.py export=<run folder> export.format=<format> export.to=<file>

Experiments to begin with, without a GPU, an account or a download:

{first}

Then set a model (model=), data (data=) and methods (methods=) of your own:

    python run.py help=experiments       all experiments
    python run.py help=two_attackers     what an experiment sets
    python run.py help=methods           what can be compared
    python run.py help=data              also help=attacks, help=models
    python run.py help=topology.rounds   a key; help=topology, help=keys
    python run.py experiment=two_attackers dry_run=true   what a run would cost
"""


def usage() -> str:
    """Describes the calls of run.py: the experiments to begin with, and how to find the others."""
    return USAGE.format(first="\n".join(f"    {name:<20} {question}" for name, question in FIRST.items()))


def reference(topic: str) -> str:
    """Lists a topic's names, an experiment's settings, or keys, each with its description. Raises UserError where there
    is nothing of that name."""
    rows = dict(TOPICS[topic]() if topic in TOPICS else {})
    known = experiments()
    if topic in known or topic.endswith((".yaml", ".yml")):
        rows[topic] = known.get(topic, "an experiment of your own")
        config, overrides = load_overrides([f"experiment={topic}"])
        for key, value in config.by_key.items():
            if overrides and among(key, overrides.preset_keys):
                rows[f"{key}={written(value)}"] = list(_keys(key).values())[-1]
    rows |= _keys(topic)
    # A row for each name; the description of a long name begins on the next line.
    column = min(28, max(map(len, rows), default=0)) + 2
    lines = []
    for name, text in rows.items():
        first, *more = textwrap.wrap(text, WIDTH - column) or [""]
        lines += [name] if len(name) + 2 > column else []
        lines.append(f"{'' if len(name) + 2 > column else name:<{column}}{first}".rstrip())
        lines += [" " * column + line for line in more]
    if not rows:
        keys = list(paths())
        hint = near_key(topic) if "." in topic else near_miss(topic, [*known, *TOPICS, *keys])
        raise UserError(f"help={topic}: there is no such experiment, key or list.{hint} Lists: {', '.join(TOPICS)}")
    return "\n".join(lines)


def _keys(key: str) -> dict[str, str]:
    """Lists a key, or the keys of a group, below the groups that it lies in."""
    # A judge and a role's model and reader have the keys of the run's.
    own = re.sub(r"\A(roles\.<role>\.(?=(model|reader)\.)|judge(?=\.))", "", of_any_role(key))
    own = f"model{own}" if own.startswith(".") else own
    rows = [row for row in _documented() if f"{row[0]}.".startswith(f"{own}.") or own.startswith(f"{row[0]}.")]
    is_known = any(name == own or label != name for name, label, _ in rows)
    return {label: text for _, label, text in rows} if is_known else {}


@cache  # the source of all settings is parsed
def _documented() -> tuple[Row, ...]:
    """Every key with its default and description. Groups of keys without a default."""
    return tuple(_rows(Config()))


def _first_paragraph(documented: object) -> str:
    return " ".join((inspect.getdoc(documented) or "").split("\n\n")[0].split())


def _rows(group: Any, key: str = "") -> Iterator[Row]:
    """Yields the row of a group, unless it is the whole configuration, and of its settings."""
    kind = type(group)
    if key:
        text = _first_paragraph(kind)
        # A dataclass without a docstring has its signature there.
        text = "" if text.startswith(f"{kind.__name__}(") else text
        yield key, key, f"{text}{_counts_with(key)}".lstrip()
    hints, documents = get_type_hints(kind), _documents(kind)
    for f in fields(group):
        own, value = f"{key}.{f.name}".lstrip("."), getattr(group, f.name)
        if own == "roles":
            own, value = "roles.<role>", RoleSettings()
        if is_dataclass(value):
            yield from _rows(value, own)
            continue
        text, choices = documents[f.name], _choices(hints[f.name])
        # A setting whose text names them all needs no list.
        if any(choice not in text for choice in choices):
            text = f"{text.rstrip('.')}; one of {', '.join(choices)}"
        if bounds := bounds_text(f.metadata):
            text = f"{text} [{bounds}]"
        yield own, f"{own}={written(value)}", f"{text}{_counts_with(own)}"


def _counts_with(key: str) -> str:
    """Writes the parts that read a setting and its other conditions, in brackets. Empty where it always counts."""
    stated = [*filter(None, (readers(key, named_by) for named_by in PARTS)), *conditions(key)]
    return f" (counts with {', '.join(stated)})" if stated else ""


def _choices(kind: Any) -> list[str]:
    """Lists the values of a type that has few."""
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return [member.value for member in kind]
    if get_origin(kind) is Literal:
        return [str(value) for value in get_args(kind)]
    return [choice for part in get_args(kind) for choice in _choices(part)] if get_origin(kind) is not None else []


def _documents(group: type) -> dict[str, str]:
    """Reads the docstring below each field."""
    # It is not kept at run time, so the source is parsed.
    descriptions, last = {}, ""
    for node in ast.parse(textwrap.dedent(inspect.getsource(group))).body[0].body:  # type: ignore[attr-defined]
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            last = node.target.id
        elif last and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            descriptions[last] = " ".join(str(node.value.value).split())
    return descriptions


TOPICS: Mapping[str, Callable[[], Mapping[str, str]]] = {
    "experiments": experiments,
    "methods": lambda: {method.name: method.description for method in METHODS} | installed("methods"),
    "data": lambda: {dataset.name: dataset.release for dataset in DATASETS} | installed("datasets"),
    "attacks": lambda: {attack.name: _first_paragraph(attack) for attack in ATTACKS} | installed("attacks"),
    "models": lambda: {backend.name: backend.description for backend in BACKENDS} | installed("models"),
    "keys": lambda: {label: text for _, label, text in _documented()},
}
