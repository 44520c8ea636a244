"""Kinds of table of the invented world, as templates of its texts and questions; domains.yaml holds them.

In every template `{o}` is the table's owner, `{e}` an entity, `{v}` a value, `{x}` a description of an entity
("the film Night Harbour", "the film directed by Ana Brix") and `{a}`, `{b}` two such descriptions. `ask` and `such`
share a relation word with the fact; `other_ask` and `other_such` are paraphrases that may share none.

Patterns of values and names have names of `world.Names` in braces: `{w}` is an invented word, `{n}` a number, `{c}`
three capitals.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml
from pydantic import TypeAdapter


@dataclass(frozen=True, slots=True)
class ColumnTemplates:
    """A table column besides the entity's own. `such` describes one entity, or several where values repeat."""

    name: str
    ask: tuple[str, ...]
    other_ask: str
    such: str
    other_such: str


@dataclass(frozen=True, slots=True)
class Relation:
    """A fact of a passage.

    value: the pattern of its values.
    role: describes the value through the entity ("the director of {x}"), for questions that continue from a person.
    """

    name: str
    value: str
    say: tuple[str, ...]
    ask: tuple[str, ...]
    other_ask: str
    such: str
    other_such: str
    check: str
    role: str = ""


@dataclass(frozen=True, slots=True)
class Domain:
    """A kind of table and of entity. `number` orders the rows, `group` repeats among them, `mark` is unique."""

    noun: str
    plural: str
    picture: str
    owner: str
    title: str
    table: str
    header: str
    among: str
    number: ColumnTemplates
    group: ColumnTemplates
    mark: ColumnTemplates
    least: tuple[str, ...]
    most: tuple[str, ...]
    relations: tuple[Relation, ...]
    opening: tuple[str, ...]
    asides: tuple[str, ...]
    bystander: str
    groups: tuple[str, ...]
    mark_value: str
    total: str = ""


@dataclass(frozen=True, slots=True)
class Templates:
    """Everything that the world's texts are made of; `person` are the facts about people, `parts` those of names."""

    person: tuple[Relation, ...]
    domains: tuple[Domain, ...]
    parts: dict[str, tuple[tuple[str, ...], ...]]
    habits: tuple[str, ...]
    slogans: tuple[str, ...]
    places: tuple[str, ...]


@cache
def templates() -> Templates:
    text = (Path(__file__).parent / "domains.yaml").read_text(encoding="utf-8")
    return TypeAdapter(Templates).validate_python(yaml.safe_load(text))
