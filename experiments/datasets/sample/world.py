"""The invented world: shelves of entities, each shelf one table with a passage and a picture for every row.

domains.yaml holds the kinds of table as templates of their texts and questions. In every template `{o}` is the table's
owner, `{e}` an entity, `{v}` a value, `{x}` a description of an entity ("the film Night Harbour", "the film directed by
Ana Brix") and `{a}`, `{b}` two such descriptions. `ask` and `such` share a relation word with the fact; `other_ask` and
`other_such` are paraphrases that may share none.

Patterns of values and names have names of `Names` in braces: `{w}` is an invented word, `{n}` a number, `{c}` three
capitals.
"""

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random

import yaml
from pydantic import TypeAdapter

from actors.errors import UserError
from experiments.datasets.sample.scene import COLOURS, GROUNDS, SHAPES, Scene, Things


@dataclass(frozen=True, slots=True)
class ColumnTemplates:
    """A table column besides the entity's own. `such` describes one entity, or several where values repeat."""

    name: str
    ask: tuple[str, ...]
    other_ask: str
    such: str
    other_such: str


@dataclass(frozen=True, slots=True)
class Relation(ColumnTemplates):
    """A fact of a passage.

    value: the pattern of its values.
    role: describes the value through the entity ("the director of {x}"), for questions that continue from a person.
    """

    value: str
    say: tuple[str, ...]
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


@dataclass(frozen=True, slots=True)
class WorldPassage:
    """A text about `title`; `facts` are its askable facts by relation name, each stated once in `text`."""

    id: str
    title: str
    text: str
    facts: dict[str, str]


@dataclass(frozen=True, slots=True)
class WorldEntity:
    """One row of a table: its cells by column name, its passage and its picture."""

    title: str
    cells: dict[str, str]
    passage: WorldPassage
    image_id: str
    scene: Scene
    description: str


@dataclass(frozen=True, slots=True)
class Shelf:
    """A table in row order, and the passages of the people that its entities' passages name."""

    domain: Domain
    owner: str
    table_id: str
    header: tuple[str, ...]
    entities: tuple[WorldEntity, ...]
    people: dict[str, WorldPassage]

    @property
    def passages(self) -> list[WorldPassage]:
        return [*(entity.passage for entity in self.entities), *self.people.values()]


class Names:
    """Fills patterns such as `{first} {second}` or `{w} Prize` with invented names."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._taken: set[str] = set()
        self._families: list[str] = []

    def fill(self, pattern: str) -> str:
        """A draw, which may come again."""
        return re.sub(r"{(\w+)}", lambda match: self._part(match[1]), pattern)

    def fresh(self, pattern: str) -> str:
        """A draw that no call of `fresh` or `near` returned before. Raises UserError when the pattern runs dry."""
        # A pattern in which a thousand draws in a row are taken has run dry, or nearly so.
        for _ in range(1000):
            name = self.fill(pattern)
            if name not in self._taken:
                self._taken.add(name)
                return name
        raise UserError(f"no new name of the form {pattern!r} is left for the sample data set: ask for fewer questions")

    def near(self, name: str, pattern: str) -> str:
        """A new name that differs from `name` in its last word only, or any new one when those are used up."""
        # Some last words have a handful of values, which are soon all taken for this first part.
        for _ in range(30):
            twin = f"{name.rsplit(maxsplit=1)[0]} {self.fill(pattern).split()[-1]}"
            if twin not in self._taken:
                self._taken.add(twin)
                return twin
        return self.fresh(pattern)

    def _part(self, kind: str) -> str:
        rng = self._rng
        if kind == "person":
            given = self._part("given")
            # A surname, one in five drawn before: people with one surname are easily confused.
            if self._families and rng.random() < 0.2:
                return f"{given} {rng.choice(self._families)}"
            self._families.append(self._part("surname"))
            return f"{given} {self._families[-1]}"
        if kind == "town":
            return self._part("stem") + rng.choice(templates().places)
        if kind == "n":
            return str(rng.randint(12, 99))
        if kind == "c":
            return "".join(rng.sample("BCDFGHKLMNPRSTVWZ", 3))
        return "".join(rng.choice(choices) for choices in templates().parts[kind])


def identity(*parts: str | int) -> str:
    """32 hexadecimal digits, as the official identifiers have."""
    # The separator is in no part: without it ("a", "bc") and ("ab", "c") would be one.
    return hashlib.blake2b("\x1f".join(map(str, parts)).encode(), digest_size=16).hexdigest()


def shelves(rng: Random, seed: int) -> Iterator[Shelf]:
    """Shelves without end, the domains in turn; no entity, person or value of a passage is on two of them."""
    names, domains = Names(rng), templates().domains
    while True:
        for domain in rng.sample(domains, len(domains)):
            yield _shelf(domain, rng, names, seed)


def _shelf(domain: Domain, rng: Random, names: Names, seed: int) -> Shelf:
    """Six to nine rows in the order of their number."""
    owner = names.fresh(domain.owner)
    titles = [names.fresh(domain.title)]
    for _ in range(rng.randint(5, 8)):
        # Names that differ in their last word only: matching some of the words is not enough.
        twin = " " in domain.title and rng.random() < 0.3
        titles.append(names.near(rng.choice(titles), domain.title) if twin else names.fresh(domain.title))
    size = len(titles)
    # The order of draws from `rng` decides every byte of the data set: keep it, or raise `release.VERSION`.
    cells = _cells(domain, size, rng, names)
    facts = {relation.name: _values(relation, size, rng, names) for relation in domain.relations}
    entities = []
    for row, (title, scene) in enumerate(zip(titles, _scenes(size, rng), strict=True)):
        own = {name: values[row] for name, values in facts.items()}
        text = _entity_text(domain, title, own, rng, names)
        entities.append(
            WorldEntity(
                title=title,
                cells={domain.header: title} | {name: values[row] for name, values in cells.items()},
                passage=WorldPassage(identity(seed, "text", title), title, text, own),
                image_id=identity(seed, "image", title),
                scene=scene,
                description=scene.describe(domain.picture, title, rng),
            )
        )
    # After the entities are drawn, so that a row's place depends on nothing else in it.
    entities.sort(key=lambda entity: int(entity.cells[domain.number.name]))
    named = [value for relation in domain.relations if relation.value == "{person}" for value in facts[relation.name]]
    # Several entities may share a person, who has one passage.
    people = {person: _person(person, rng, names, seed) for person in dict.fromkeys(named)}
    header = [domain.number.name, domain.header, domain.group.name, domain.mark.name]
    # As in real tables, the key column is not always the first.
    if rng.random() < 0.5:
        header[:2] = header[1], header[0]
    return Shelf(domain, owner, identity(seed, "table", owner), tuple(header), tuple(entities), people)


def _cells(domain: Domain, size: int, rng: Random, names: Names) -> dict[str, list[str]]:
    """The columns besides the entity's. Every group has two rows at least, so that it never singles one out."""
    # Without repetition, so that a year describes one row and comparisons have no ties.
    years = [str(year) for year in rng.sample(range(1921, 2020), size)]
    groups = [names.fresh(pattern) if "{" in pattern else pattern for pattern in rng.sample(domain.groups, 3)]
    # There are six rows at least: two for each group, the rest at random.
    shares = groups * 2 + [rng.choice(groups) for _ in range(size - 6)]
    rng.shuffle(shares)
    # A dict, because a set of strings has another order in every process.
    marks: dict[str, None] = {}
    while len(marks) < size:
        marks[names.fill(domain.mark_value)] = None
    return {domain.number.name: years, domain.group.name: shares, domain.mark.name: list(marks)}


def _values(relation: Relation, size: int, rng: Random, names: Names) -> list[str]:
    """One value is shared by two or three entities, the others are single."""
    values = [names.fresh(relation.value) for _ in range(size)]
    common, *repeats = rng.sample(range(size), rng.randint(2, 3))
    for row in repeats:
        values[row] = values[common]
    return values


def _scenes(size: int, rng: Random) -> list[Scene]:
    """One kind of thing is on two to four of the pictures, in different colours; no picture has a kind twice."""
    motif = rng.choice(list(SHAPES))
    holders = rng.sample(range(size), rng.randint(2, 4))
    colours = dict(zip(holders, rng.sample(list(COLOURS), len(holders)), strict=True))
    scenes = []
    for row in range(size):
        # The motif is put in below, on the chosen pictures only: elsewhere it would break the count.
        kinds = rng.sample([kind for kind in SHAPES if kind != motif], rng.randint(1, 3))
        groups = [Things(rng.randint(1, 5), rng.choice(list(COLOURS)), kind) for kind in kinds]
        if row in colours:
            groups.insert(rng.randint(0, len(groups)), Things(rng.randint(1, 5), colours[row], motif))
        # Other names, because words may come again and must use up no name of the world.
        words = f"{rng.choice(templates().slogans)} {Names(rng).fill('{w}').upper()}" if rng.random() < 0.7 else ""
        scenes.append(Scene(tuple(groups), words, rng.choice(list(GROUNDS))))
    return scenes


def _entity_text(domain: Domain, title: str, facts: dict[str, str], rng: Random, names: Names) -> str:
    """Four to six sentences; one in four after the first has `it` or `the film` instead of the name."""
    # `{e}` stays in: below, each sentence replaces it by the name or a pronoun.
    statements = [rng.choice(relation.say).format(e="{e}", v=facts[relation.name]) for relation in domain.relations]
    statements += rng.sample(domain.asides, rng.randint(0, 1))
    if rng.random() < 0.4:
        statements.append(domain.bystander.format(e="{e}", v=names.fresh("{person}")))
    rng.shuffle(statements)
    # The first sentence has the name, to which the pronouns of the others refer.
    sentences = [rng.choice(domain.opening).format(e=title)]
    for sentence in statements:
        noun = "it" if sentence.startswith("{e} ") and rng.random() < 0.5 else f"the {domain.noun}"
        sentences.append(sentence.format(e=noun if rng.random() < 0.25 else title))
    return _paragraph(sentences)


def _person(name: str, rng: Random, names: Names, seed: int) -> WorldPassage:
    facts = {relation.name: names.fresh(relation.value) for relation in templates().person}
    statements = [rng.choice(relation.say).format(e=name, v=facts[relation.name]) for relation in templates().person]
    if rng.random() < 0.4:
        statements.append(f"A cousin of {name} is {names.fresh('{person}')}.")
    rng.shuffle(statements)
    text = _paragraph([f"{name} is {rng.choice(templates().habits)}.", *statements])
    return WorldPassage(identity(seed, "text", name), name, text, facts)


def _paragraph(sentences: Sequence[str]) -> str:
    return " ".join(sentence[0].upper() + sentence[1:] for sentence in sentences)
