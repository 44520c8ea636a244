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
    """Everything that the world's texts are made of. `person` are the facts about people, `parts` those of names.

    pictures: questions about pictures and descriptions of them, by kind. rows: questions about the rows of a group.
    """

    person: tuple[Relation, ...]
    domains: tuple[Domain, ...]
    parts: dict[str, tuple[tuple[str, ...], ...]]
    habits: tuple[str, ...]
    slogans: tuple[str, ...]
    places: tuple[str, ...]
    pictures: dict[str, tuple[str, ...]]
    rows: tuple[str, ...]


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
        self.rng = rng
        self.seed = seed
        self._names: set[str] = set()
        self._families: list[str] = []

    def fill(self, pattern: str) -> str:
        """Fills a pattern such as `{first} {second}` or `{w} Prize`. The name may come again."""
        return re.sub(r"{(\w+)}", lambda match: self.part(match[1]), pattern)

    def fresh(self, pattern: str) -> str:
        """Draws a name that neither `fresh` nor `near` returned before. Raises UserError when the pattern runs dry."""
        # A pattern in which a thousand draws in a row are taken has run dry, or nearly so.
        for _ in range(1000):
            name = self.fill(pattern)
            if name not in self._names:
                self._names.add(name)
                return name
        raise UserError(f"no new name of the form {pattern!r} is left for the sample data set: ask for fewer questions")

    def near(self, name: str, pattern: str) -> str:
        """Draws a name that differs from `name` in its last word, or any new one when those are used up."""
        beginning = name.rsplit(maxsplit=1)[0]
        # Some last words have a handful of values, which are soon all taken for this first part.
        for _ in range(30):
            twin = f"{beginning} {self.fill(pattern).split()[-1]}"
            if twin not in self._names:
                self._names.add(twin)
                return twin
        return self.fresh(pattern)

    def part(self, kind: str) -> str:
        """Draws a value for one name in braces."""
        if kind == "person":
            given_name = self.part("given")
            # A surname, one in five drawn before: people with one surname are easily confused.
            if self._families and self.rng.random() < 0.2:
                return f"{given_name} {self.rng.choice(self._families)}"
            self._families.append(self.part("surname"))
            return f"{given_name} {self._families[-1]}"
        if kind == "town":
            return self.part("stem") + self.rng.choice(templates().places)
        if kind == "n":
            return str(self.rng.randint(12, 99))
        if kind == "c":
            return "".join(self.rng.sample("BCDFGHKLMNPRSTVWZ", 3))

        return "".join(self.rng.choice(choices) for choices in templates().parts[kind])

    def shelves(self) -> Iterator[Shelf]:
        """Shelves without end, the domains in turn. No entity, person or value of a passage is on two of them."""
        domains = templates().domains
        while True:
            yield from map(self.shelf, self.rng.sample(domains, len(domains)))

    def shelf(self, domain: Domain) -> Shelf:
        """Six to nine rows in the order of their number."""
        owner = self.fresh(domain.owner)
        titles = self.titles(domain)
        cells = self.cells(domain, len(titles))
        facts = {relation.name: self.values(relation, len(titles)) for relation in domain.relations}
        entities: list[WorldEntity] = []

        for row, scene in enumerate(self.scenes(len(titles))):
            row_facts = {name: values[row] for name, values in facts.items()}
            row_cells = {domain.header: titles[row]} | {name: values[row] for name, values in cells.items()}
            entities.append(self.entity(domain, row_cells, row_facts, scene))

        # After the entities are drawn, so that a row's place depends on nothing else in it.
        entities.sort(key=lambda entity: int(entity.cells[domain.number.name]))
        # Several entities may share a person, who has one passage.
        people: dict[str, WorldPassage] = {}
        for relation in domain.relations:
            if relation.value == "{person}":
                for name in facts[relation.name]:
                    if name not in people:
                        people[name] = self.person(name)

        header = [domain.number.name, domain.header, domain.group.name, domain.mark.name]
        # As in real tables, the key column is not always the first.
        if self.rng.random() < 0.5:
            header[:2] = domain.header, domain.number.name
        table_id = identity(self.seed, "table", owner)
        return Shelf(domain, owner, table_id, tuple(header), tuple(entities), people)

    def titles(self, domain: Domain) -> list[str]:
        titles = [self.fresh(domain.title)]
        for _ in range(self.rng.randint(5, 8)):
            # Names that differ in their last word only: matching some of the words is not enough.
            if " " in domain.title and self.rng.random() < 0.3:
                titles.append(self.near(self.rng.choice(titles), domain.title))
            else:
                titles.append(self.fresh(domain.title))
        return titles

    def values(self, relation: Relation, size: int) -> list[str]:
        """Draws a value for each entity. One value is shared by two or three entities, the others are single."""
        values = [self.fresh(relation.value) for _ in range(size)]
        shared, *repeats = self.rng.sample(range(size), self.rng.randint(2, 3))
        for row in repeats:
            values[row] = values[shared]
        return values

    def entity(self, domain: Domain, cells: dict[str, str], facts: dict[str, str], scene: Scene) -> WorldEntity:
        title = cells[domain.header]
        text = self.entity_text(domain, title, facts)
        passage = WorldPassage(identity(self.seed, "text", title), title, text, facts)
        description = self.description(domain.picture, title, scene)
        return WorldEntity(title, cells, passage, identity(self.seed, "image", title), scene, description)

    def cells(self, domain: Domain, size: int) -> dict[str, list[str]]:
        """Draws the columns other than the entity's. Every group has two rows at least, so that it singles none out."""
        # Without repetition, so that a year describes one row and comparisons have no ties.
        years = [str(year) for year in self.rng.sample(range(1921, 2020), size)]
        patterns = self.rng.sample(domain.groups, 3)
        groups = [self.fresh(pattern) if "{" in pattern else pattern for pattern in patterns]
        # There are six rows at least: two for each group, the rest at random.
        shares = groups * 2 + [self.rng.choice(groups) for _ in range(size - 6)]
        self.rng.shuffle(shares)
        # A dict, because a set of strings has another order in every process.
        marks: dict[str, None] = {}
        while len(marks) < size:
            marks[self.fill(domain.mark_value)] = None
        return {domain.number.name: years, domain.group.name: shares, domain.mark.name: list(marks)}

    def scenes(self, size: int) -> list[Scene]:
        """One kind of thing is on two to four of the pictures, in different colours. No picture has a kind twice."""
        motif = self.rng.choice(list(SHAPES))
        holders = self.rng.sample(range(size), self.rng.randint(2, 4))
        motif_colours = dict(zip(holders, self.rng.sample(list(COLOURS), len(holders)), strict=True))
        # The motif is put in below, on the chosen pictures only: elsewhere it would break the count.
        other_kinds = [kind for kind in SHAPES if kind != motif]
        scenes: list[Scene] = []

        for row in range(size):
            kinds = self.rng.sample(other_kinds, self.rng.randint(1, 3))
            groups = [Things(self.rng.randint(1, 5), self.rng.choice(list(COLOURS)), kind) for kind in kinds]
            if row in motif_colours:
                place = self.rng.randint(0, len(groups))
                groups.insert(place, Things(self.rng.randint(1, 5), motif_colours[row], motif))

            words = ""
            if self.rng.random() < 0.7:
                words = f"{self.rng.choice(templates().slogans)} {self.fill('{w}').upper()}"
            scenes.append(Scene(tuple(groups), words, self.rng.choice(list(GROUNDS))))

        return scenes

    def description(self, picture: str, title: str, scene: Scene) -> str:
        """Describes a picture as a perfect observer, in two or three sentences."""
        *first, last = [group.phrase() for group in scene.groups]
        things = f"{', '.join(first)} and {last}" if first else last
        wordings = templates().pictures
        sentence = self.rng.choice(wordings["scene"])
        sentences = [sentence.format(picture=picture, title=title, things=things, Things=capitalised(things))]
        if scene.words:
            sentences.append(self.rng.choice(wordings["words"]).format(words=scene.words))
        sentences.append(f"The background is {scene.ground}.")
        return " ".join(sentences)

    def entity_text(self, domain: Domain, title: str, facts: dict[str, str]) -> str:
        """Four to six sentences. One in four after the first has `it` or `the film` instead of the name."""
        # `{e}` stays in: below, each sentence replaces it by the name or a pronoun.
        statements = self.statements(domain.relations, facts, "{e}")
        statements += self.rng.sample(domain.asides, self.rng.randint(0, 1))
        if self.rng.random() < 0.4:
            statements.append(domain.bystander.format(e="{e}", v=self.fresh("{person}")))
        self.rng.shuffle(statements)
        # The first sentence has the name, to which the pronouns of the others refer.
        sentences = [self.rng.choice(domain.opening).format(e=title)]

        for statement in statements:
            noun = f"the {domain.noun}"
            if statement.startswith("{e} ") and self.rng.random() < 0.5:
                noun = "it"
            subject = noun if self.rng.random() < 0.25 else title
            sentences.append(statement.format(e=subject))

        return " ".join(map(capitalised, sentences))

    def person(self, name: str) -> WorldPassage:
        """Makes the passage of a person whom another passage names."""
        relations = templates().person
        facts = {relation.name: self.fresh(relation.value) for relation in relations}
        statements = self.statements(relations, facts, name)
        if self.rng.random() < 0.4:
            statements.append(f"A cousin of {name} is {self.fresh('{person}')}.")
        self.rng.shuffle(statements)
        opening = f"{name} is {self.rng.choice(templates().habits)}."
        text = " ".join(map(capitalised, [opening, *statements]))
        return WorldPassage(identity(self.seed, "text", name), name, text, facts)

    def statements(self, relations: Sequence[Relation], facts: dict[str, str], name: str) -> list[str]:
        return [self.rng.choice(relation.say).format(e=name, v=facts[relation.name]) for relation in relations]


def identity(*parts: str | int) -> str:
    """32 hexadecimal digits, as the official identifiers have."""
    # The separator is in no part: without it ("a", "bc") and ("ab", "c") would be one.
    return hashlib.blake2b("\x1f".join(map(str, parts)).encode(), digest_size=16).hexdigest()


def capitalised(text: str) -> str:
    return text[0].upper() + text[1:]
