"""The invented world: shelves of entities, each shelf one table with a passage and a picture for every row."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

from experiments.datasets.sample.domains import DOMAINS
from experiments.datasets.sample.language import PERSON, Domain, Relation
from experiments.datasets.sample.names import Names
from experiments.datasets.sample.scene import COLOURS, GROUNDS, Group, Scene
from experiments.datasets.sample.shapes import SHAPES

_HABITS = "a patient teacher;a keen gardener;a former sailor;a poor sleeper;a collector of stamps;a good cook".split(
    ";"
)
_SLOGANS = "ANEW BOLD EVER FAR HOME KIND LOUD NEAR ONCE PURE SAFE TRUE WIDE WILD".split()


@dataclass(frozen=True, slots=True)
class Passage:
    """A text about `title`; `facts` are its askable facts by relation name, each stated once in `text`."""

    id: str
    title: str
    text: str
    facts: dict[str, str]


@dataclass(frozen=True, slots=True)
class Entity:
    """One row of a table: its cells by column name, its passage and its picture."""

    title: str
    cells: dict[str, str]
    passage: Passage
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
    entities: tuple[Entity, ...]
    people: dict[str, Passage]

    @property
    def passages(self) -> list[Passage]:
        return [*(entity.passage for entity in self.entities), *self.people.values()]


def identity(*parts: str | int) -> str:
    """32 hexadecimal digits, as the official identifiers have."""
    # The separator is in no part: without it ("a", "bc") and ("ab", "c") would be one.
    return hashlib.blake2b("\x1f".join(map(str, parts)).encode(), digest_size=16).hexdigest()


def shelves(rng: Random, seed: int) -> Iterator[Shelf]:
    """Shelves without end, the domains in turn; no entity, person or value of a passage is on two of them."""
    names = Names(rng)
    while True:
        for domain in rng.sample(DOMAINS, len(DOMAINS)):
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
            Entity(
                title=title,
                cells={domain.header: title} | {name: values[row] for name, values in cells.items()},
                passage=Passage(identity(seed, "text", title), title, text, own),
                image_id=identity(seed, "image", title),
                scene=scene,
                description=scene.describe(domain.picture, title, rng),
            )
        )
    # After the entities are drawn, so that a row's place says nothing about what else it holds.
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
        groups = [Group(rng.randint(1, 5), rng.choice(list(COLOURS)), kind) for kind in kinds]
        if row in colours:
            groups.insert(rng.randint(0, len(groups)), Group(rng.randint(1, 5), colours[row], motif))
        # Names of its own, because lettering may come again and must use up no name of the world.
        lettering = f"{rng.choice(_SLOGANS)} {Names(rng).fill('{w}').upper()}" if rng.random() < 0.7 else ""
        scenes.append(Scene(tuple(groups), lettering, rng.choice(list(GROUNDS))))
    return scenes


def _entity_text(domain: Domain, title: str, facts: dict[str, str], rng: Random, names: Names) -> str:
    """Four to six sentences; one in four after the first says `it` or `the film` instead of the name."""
    # `{e}` stays in: whether it becomes the name or a pronoun depends on the sentence, below.
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


def _person(name: str, rng: Random, names: Names, seed: int) -> Passage:
    facts = {relation.name: names.fresh(relation.value) for relation in PERSON}
    statements = [rng.choice(relation.say).format(e=name, v=facts[relation.name]) for relation in PERSON]
    if rng.random() < 0.4:
        statements.append(f"A cousin of {name} is {names.fresh('{person}')}.")
    rng.shuffle(statements)
    text = _paragraph([f"{name} is {rng.choice(_HABITS)}.", *statements])
    return Passage(identity(seed, "text", name), name, text, facts)


def _paragraph(sentences: Sequence[str]) -> str:
    return " ".join(sentence[0].upper() + sentence[1:] for sentence in sentences)
