"""The invented world: shelves of entities. Each shelf is one table with a passage and a picture for every row.

domains.yaml holds the kinds of table as templates of their texts and questions. In every template `{o}` is the table's
owner, `{e}` an entity, `{v}` a value, `{x}` a description of an entity ("the film Night Harbour", "the film directed by
Ana Brix") and `{a}`, `{b}` two such descriptions. `ask` and `such` share a relation word with the fact; `other_ask` and
`other_such` are paraphrases that may share none.

Patterns of values and names have parts in braces (`World.part`): `{w}` is an invented word, `{n}` a number, `{c}` three
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
    """Everything that the world's texts are made of. `person` are the facts about people, `parts` those of names."""

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
    """A text about `title`. `facts` are its askable facts by relation name, each stated once in `text`."""

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
    """Table in row order, and the passages of the people that its entities' passages name."""

    domain: Domain
    owner: str
    table_id: str
    header: tuple[str, ...]
    entities: tuple[WorldEntity, ...]
    people: dict[str, WorldPassage]

    @property
    def passages(self) -> list[WorldPassage]:
        return [*(entity.passage for entity in self.entities), *self.people.values()]


class World:
    """Invents shelves, and the names and people on them, all drawn from one generator.

    The order of draws decides every byte of the data set: keep it, or raise `release.VERSION`.
    """

    def __init__(self, rng: Random, seed: int) -> None:
        self.rng, self.seed = rng, seed
        self._taken: set[str] = set()
        self._families: list[str] = []

    def fill(self, pattern: str) -> str:
        """Fills a pattern such as `{first} {second}` or `{w} Prize`. The name may come again."""
        return re.sub(r"{(\w+)}", lambda match: self.part(match[1]), pattern)

    def fresh(self, pattern: str) -> str:
        """Draws a name that neither `fresh` nor `near` returned before. Raises UserError when the pattern runs dry."""
        # A pattern in which a thousand draws in a row are taken has run dry, or nearly so.
        for _ in range(1000):
            name = self.fill(pattern)
            if name not in self._taken:
                self._taken.add(name)
                return name
        raise UserError(f"no new name of the form {pattern!r} is left for the sample data set: ask for fewer questions")

    def near(self, name: str, pattern: str) -> str:
        """Draws a name that differs from `name` in its last word, or any new one when those are used up."""
        # Some last words have a handful of values, which are soon all taken for this first part.
        for _ in range(30):
            twin = f"{name.rsplit(maxsplit=1)[0]} {self.fill(pattern).split()[-1]}"
            if twin not in self._taken:
                self._taken.add(twin)
                return twin
        return self.fresh(pattern)

    def part(self, kind: str) -> str:
        """Draws a value for one name in braces."""
        rng = self.rng
        if kind == "person":
            given = self.part("given")
            # A surname, one in five drawn before: people with one surname are easily confused.
            if self._families and rng.random() < 0.2:
                return f"{given} {rng.choice(self._families)}"
            self._families.append(self.part("surname"))
            return f"{given} {self._families[-1]}"
        if kind == "town":
            return self.part("stem") + rng.choice(templates().places)
        if kind == "n":
            return str(rng.randint(12, 99))
        if kind == "c":
            return "".join(rng.sample("BCDFGHKLMNPRSTVWZ", 3))
        return "".join(rng.choice(choices) for choices in templates().parts[kind])

    def shelves(self) -> Iterator[Shelf]:
        """Shelves without end, the domains in turn. No entity, person or value of a passage is on two of them."""
        while True:
            yield from map(self.shelf, self.rng.sample(templates().domains, len(templates().domains)))

    def shelf(self, domain: Domain) -> Shelf:
        """Six to nine rows in the order of their number."""
        rng, owner = self.rng, self.fresh(domain.owner)
        titles = [self.fresh(domain.title)]
        for _ in range(rng.randint(5, 8)):
            # Names that differ in their last word only: matching some of the words is not enough.
            twin = " " in domain.title and rng.random() < 0.3
            titles.append(self.near(rng.choice(titles), domain.title) if twin else self.fresh(domain.title))
        rows = range(len(titles))
        cells, facts = self.cells(domain, len(titles)), {}
        for relation in domain.relations:
            # One value is shared by two or three entities, the others are single.
            values = facts[relation.name] = [self.fresh(relation.value) for _ in rows]
            common, *repeats = rng.sample(rows, rng.randint(2, 3))
            for row in repeats:
                values[row] = values[common]
        entities = []
        for row, scene in enumerate(self.scenes(len(titles))):
            title, own = titles[row], {name: values[row] for name, values in facts.items()}
            passage = WorldPassage(identity(self.seed, "text", title), title, self.entity_text(domain, title, own), own)
            named = {domain.header: title} | {name: values[row] for name, values in cells.items()}
            description = scene.describe(domain.picture, title, rng)
            image = identity(self.seed, "image", title)
            entities.append(WorldEntity(title, named, passage, image, scene, description))
        # After the entities are drawn, so that a row's place depends on nothing else in it.
        entities.sort(key=lambda entity: int(entity.cells[domain.number.name]))
        people = [
            value for relation in domain.relations if relation.value == "{person}" for value in facts[relation.name]
        ]
        # Several entities may share a person, who has one passage.
        passages = {person: self.person(person) for person in dict.fromkeys(people)}
        header = [domain.number.name, domain.header, domain.group.name, domain.mark.name]
        # As in real tables, the key column is not always the first.
        if rng.random() < 0.5:
            header[:2] = header[1], header[0]
        table = identity(self.seed, "table", owner)
        return Shelf(domain, owner, table, tuple(header), tuple(entities), passages)

    def cells(self, domain: Domain, size: int) -> dict[str, list[str]]:
        """Draws the columns other than the entity's. Every group has two rows at least, so that it singles none out."""
        rng = self.rng
        # Without repetition, so that a year describes one row and comparisons have no ties.
        years = [str(year) for year in rng.sample(range(1921, 2020), size)]
        groups = [self.fresh(pattern) if "{" in pattern else pattern for pattern in rng.sample(domain.groups, 3)]
        # There are six rows at least: two for each group, the rest at random.
        shares = groups * 2 + [rng.choice(groups) for _ in range(size - 6)]
        rng.shuffle(shares)
        # A dict, because a set of strings has another order in every process.
        marks: dict[str, None] = {}
        while len(marks) < size:
            marks[self.fill(domain.mark_value)] = None
        return {domain.number.name: years, domain.group.name: shares, domain.mark.name: list(marks)}

    def scenes(self, size: int) -> list[Scene]:
        """One kind of thing is on two to four of the pictures, in different colours. No picture has a kind twice."""
        rng = self.rng
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
            words = f"{rng.choice(templates().slogans)} {self.fill('{w}').upper()}" if rng.random() < 0.7 else ""
            scenes.append(Scene(tuple(groups), words, rng.choice(list(GROUNDS))))
        return scenes

    def entity_text(self, domain: Domain, title: str, facts: dict[str, str]) -> str:
        """Four to six sentences. One in four after the first has `it` or `the film` instead of the name."""
        rng = self.rng
        # `{e}` stays in: below, each sentence replaces it by the name or a pronoun.
        statements = [rng.choice(relation.say).format(e="{e}", v=facts[relation.name]) for relation in domain.relations]
        statements += rng.sample(domain.asides, rng.randint(0, 1))
        if rng.random() < 0.4:
            statements.append(domain.bystander.format(e="{e}", v=self.fresh("{person}")))
        rng.shuffle(statements)
        # The first sentence has the name, to which the pronouns of the others refer.
        sentences = [rng.choice(domain.opening).format(e=title)]
        for sentence in statements:
            noun = "it" if sentence.startswith("{e} ") and rng.random() < 0.5 else f"the {domain.noun}"
            sentences.append(sentence.format(e=noun if rng.random() < 0.25 else title))
        return paragraph(sentences)

    def person(self, name: str) -> WorldPassage:
        """Makes the passage of a person whom another passage names."""
        rng, relations = self.rng, templates().person
        facts = {relation.name: self.fresh(relation.value) for relation in relations}
        statements = [rng.choice(relation.say).format(e=name, v=facts[relation.name]) for relation in relations]
        if rng.random() < 0.4:
            statements.append(f"A cousin of {name} is {self.fresh('{person}')}.")
        rng.shuffle(statements)
        text = paragraph([f"{name} is {rng.choice(templates().habits)}.", *statements])
        return WorldPassage(identity(self.seed, "text", name), name, text, facts)


def identity(*parts: str | int) -> str:
    """32 hexadecimal digits, as the official identifiers have."""
    # The separator is in no part: without it ("a", "bc") and ("ab", "c") would be one.
    return hashlib.blake2b("\x1f".join(map(str, parts)).encode(), digest_size=16).hexdigest()


def paragraph(sentences: Sequence[str]) -> str:
    return " ".join(sentence[0].upper() + sentence[1:] for sentence in sentences)
