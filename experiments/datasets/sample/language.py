"""Templates of the invented world's texts and questions, which `domains` fills in.

In every template `{o}` is the table's owner, `{e}` an entity, `{v}` a value, `{x}` a description of an entity
("the film Night Harbour", "the film directed by Ana Brix") and `{a}`, `{b}` two such descriptions. `ask` and `such`
share a relation word with the fact; `other_ask` and `other_such` are paraphrases that may share none.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Column:
    """A table column besides the entity's own. `such` describes one entity, or several where values repeat."""

    name: str
    ask: tuple[str, ...]
    other_ask: str
    such: str
    other_such: str


@dataclass(frozen=True, slots=True)
class Relation:
    """A fact of a passage. `value` is the pattern of its values, as in `Domain`.

    `role` describes the value through the entity ("the director of {x}"), for questions that go on from a person.
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
    """A kind of table and of entity. `number` orders the rows, `group` repeats among them, `mark` is unique.

    In patterns, `{w}` is an invented word, `{n}` a number, `{c}` three capitals; for the others see `names`.
    """

    noun: str
    plural: str
    picture: str
    owner: str
    title: str
    table: str
    header: str
    among: str
    number: Column
    group: Column
    mark: Column
    least: tuple[str, ...]
    most: tuple[str, ...]
    relations: tuple[Relation, ...]
    opening: tuple[str, ...]
    asides: tuple[str, ...]
    bystander: str
    groups: tuple[str, ...]
    mark_value: str
    total: str = ""


PERSON = (
    Relation(
        "birthplace",
        "{town}",
        ("{e} was born in {v}.", "The town in which {e} was born is {v}."),
        ("In which town was {x} born?", "Where was {x} born?"),
        "Which place is the home of the family of {x}?",
        "born in {v}",
        "from {v}",
        "Was {x} born in {v}?",
    ),
    Relation(
        "school",
        "{w} Academy",
        ("{e} studied at {v}.", "{e} went to {v} and studied there for years."),
        ("At which academy had {x} studied?", "Where had {x} studied?"),
        "Which school taught {x}?",
        "who studied at {v}",
        "taught at {v}",
        "Had {x} studied at {v}?",
    ),
    Relation(
        "boat",
        "{w} Maid",
        ("{e} sails a boat called {v}.", "The boat of {e} is called {v}."),
        ("What is the boat of {x} called?", "Which boat does {x} sail?"),
        "What name is painted on the vessel of {x}?",
        "who sails the {v}",
        "owner of the {v}",
        "Is {v} the boat of {x}?",
    ),
)
