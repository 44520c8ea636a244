"""Lists what `python run.py` and `python run.py help=...` print: experiments, names and keys."""

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import is_dataclass
from enum import StrEnum
from functools import cache
from itertools import pairwise
from typing import Any, Literal, get_args, get_origin

from actors.backends.backends import BACKENDS
from actors.errors import UserError
from actors.lookup import installed, near_miss
from actors.settings import bounds_text
from experiments.attacks.catalogue import ATTACKS
from experiments.config.config import Config, among, of_any_role, written
from experiments.config.keys import Declared, fields_of, near_key, paths
from experiments.config.loading import experiments, load_overrides
from experiments.config.setting_groups import RoleSettings
from experiments.datasets.catalogue import DATASETS
from experiments.unused import FACTS, PARTS, conditions, readers
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
       python run.py ask="<question>" [data=...]
       python run.py resume=<run folder> (or view=<folder of runs>)
       python run.py explain=<run folder> (report=, track=, lock=, replay.from=)
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
    rows = [f"    {name:<20} {question}" for name, question in FIRST.items()]
    return USAGE.format(first="\n".join(rows))


def reference(topic: str) -> str:
    """Lists a topic's names, an experiment's settings, or keys, each with its description. Raises UserError where there
    is nothing of that name."""
    rows: dict[str, str] = {}
    if topic in TOPICS:
        rows |= TOPICS[topic]()
    descriptions = experiments()
    if topic in descriptions or topic.endswith((".yaml", ".yml")):
        rows[topic] = descriptions.get(topic, "an experiment of your own")
        rows |= _settings_of(topic)
    rows |= _keys(topic)
    if not rows:
        hint = near_key(topic) if "." in topic else near_miss(topic, [*descriptions, *TOPICS, *paths()])
        raise UserError(f"help={topic}: there is no such experiment, key or list.{hint} Lists: {', '.join(TOPICS)}")

    # A row for each name; the description of a long name begins on the next line.
    column = min(28, max(map(len, rows))) + 2
    lines = []
    for name, description in rows.items():
        text = textwrap.wrap(description, WIDTH - column) or [""]
        if len(name) + 2 > column:
            lines.append(name)
        else:
            lines.append(f"{name:<{column}}{text.pop(0)}".rstrip())
        lines += [" " * column + line for line in text]
    return "\n".join(lines)


def _settings_of(experiment: str) -> dict[str, str]:
    """Lists the settings of an experiment."""
    config, overrides = load_overrides([f"experiment={experiment}"])
    assert overrides is not None, "only a resumed run has none"
    rows = {}
    for key, value in config.by_key.items():
        if among(key, overrides.preset_keys):
            *_, description = _keys(key).values()
            rows[f"{key}={written(value)}"] = description
    return rows


def _keys(key: str) -> dict[str, str]:
    """Lists a key, or the keys of a group, below the groups that it lies in."""
    # A judge and a role's model and reader have the keys of the run's.
    own_key = re.sub(r"\A(roles\.<role>\.(?=(model|reader)\.)|judge(?=\.))", "", of_any_role(key))
    if own_key.startswith("."):
        own_key = f"model{own_key}"
    rows = {}
    is_known = False
    for name, label, description in _documented():
        if f"{name}.".startswith(f"{own_key}.") or own_key.startswith(f"{name}."):
            rows[label] = description
            # Below a setting of any type there is no other.
            is_known = is_known or name == own_key or label != name
    return rows if is_known else {}


@cache  # the source of all settings is parsed
def _documented() -> tuple[Row, ...]:
    """Every key with its default and description. Groups of keys without a default."""
    return tuple(_rows(Config()))


def _first_paragraph(documented: object) -> str:
    return " ".join((inspect.getdoc(documented) or "").split("\n\n")[0].split())


def _rows(group: Any, key: str = "") -> Iterator[Row]:
    """Yields the row of a group, unless it is the whole configuration, and of its settings."""
    kind: Any = type(group)
    if key:
        text = _first_paragraph(kind)
        # A dataclass without a docstring has its signature there.
        if text.startswith(f"{kind.__name__}("):
            text = ""
        yield key, key, f"{text}{_counts_with(key)}".lstrip()
    descriptions = _descriptions(kind)
    for name, setting in fields_of(kind).items():
        value = getattr(group, name)
        own_key = f"{key}.{name}".lstrip(".")
        if own_key == "roles":
            yield from _rows(RoleSettings(), "roles.<role>")
        elif is_dataclass(value):
            yield from _rows(value, own_key)
        else:
            text = descriptions[name]
            choices = _choices(setting)
            # A setting whose text names them all needs no list.
            if any(choice not in text for choice in choices):
                text = f"{text.rstrip('.')}; one of {', '.join(choices)}"
            bounds = bounds_text(setting.metadata)
            if bounds:
                text += f" [{bounds}]"
            yield own_key, f"{own_key}={written(value)}", f"{text}{_counts_with(own_key)}"


def _counts_with(key: str) -> str:
    """Writes the parts that read a setting and its other conditions, in brackets. Empty where it always counts."""
    parts = [readers(key, named_by) for named_by in PARTS]
    facts = [FACTS.get(condition, condition) for condition in conditions(key)]
    stated = ", ".join([*filter(None, parts), *facts])
    return f" (counts with {stated})" if stated else ""


def _choices(setting: Declared) -> list[str]:
    """Lists the values of a setting that has few."""
    of_item = setting.below if setting.is_list else setting
    if get_origin(of_item.kind) is Literal:
        return [str(choice) for choice in get_args(of_item.kind)]
    if isinstance(of_item.kind, type) and issubclass(of_item.kind, StrEnum):
        return [member.value for member in of_item.kind]
    return []


def _descriptions(group: type) -> dict[str, str]:
    """Reads the docstring below each field."""
    # It is not kept at run time, so the source is parsed.
    [definition] = ast.parse(textwrap.dedent(inspect.getsource(group))).body
    assert isinstance(definition, ast.ClassDef)
    descriptions = {}
    for field, docstring in pairwise(definition.body):
        match field, docstring:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                descriptions[name] = " ".join(text.split())
    return descriptions


TOPICS: Mapping[str, Callable[[], Mapping[str, str]]] = {
    "experiments": experiments,
    "methods": lambda: {method.name: method.description for method in METHODS} | installed("methods"),
    "data": lambda: {dataset.name: dataset.release for dataset in DATASETS} | installed("datasets"),
    "attacks": lambda: {attack.name: _first_paragraph(attack) for attack in ATTACKS} | installed("attacks"),
    "models": lambda: {backend.name: backend.description for backend in BACKENDS} | installed("models"),
    "keys": lambda: {label: text for _, label, text in _documented()},
}
