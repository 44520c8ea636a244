"""One hop each: descriptions of an entity by row, passage or picture, and questions about an entity so described."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from experiments.datasets.sample.scene import NUMBERS, SHAPES, article, plural
from experiments.datasets.sample.world import ColumnTemplates, Relation, Shelf, WorldEntity, templates

# The share of paraphrases that may have no word of the fact: comparing words alone must not find every source.
OTHER_WORDING = 0.25

Answer = str | float
Support = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Sight:
    """Something to look for on pictures; an empty colour means any, and `many` only affects the wording."""

    kind: str
    colour: str
    many: bool

    def on(self, entity: WorldEntity) -> bool:
        return any(group.kind == self.kind and self.colour in ("", group.colour) for group in entity.scene.groups)

    def phrase(self) -> str:
        thing = f"{self.colour} {plural(self.kind) if self.many else self.kind}".strip()
        return thing if self.many else f"{article(thing)} {thing}"


@dataclass(frozen=True, slots=True)
class Clue:
    """A description of entities, what it starts from, and the documents that lead from there to the entities."""

    fits: tuple[WorldEntity, ...]
    text: str
    start: str
    support: Support
    sight: Sight | None = None

    @property
    def entity(self) -> WorldEntity:
        """The only entity that it describes; ValueError where it describes several."""
        (only,) = self.fits
        return only


@dataclass(frozen=True, slots=True)
class Finding:
    """A question about a described entity, with its answer; `between` are names that it passes on the way."""

    text: str
    answer: str
    support: Support
    between: tuple[str, ...] = ()


class Asker:
    """Asks about one shelf. Everything is drawn from `rng`; None means that the draw makes no sound question."""

    def __init__(self, shelf: Shelf, rng: Random) -> None:
        self.shelf, self.domain, self.rng = shelf, shelf.domain, rng
        self.table: Support = ((shelf.table_id, "table"),)
        self.among = self.domain.among.format(o=shelf.owner)

    def any_entity(self) -> WorldEntity:
        return self.rng.choice(self.shelf.entities)

    def any_relation(self) -> Relation:
        return self.rng.choice(self.domain.relations)

    def any_column(self) -> ColumnTemplates:
        return self.rng.choice((self.domain.number, self.domain.group, self.domain.mark))

    def other_value(self, relation: Relation, value: str) -> str:
        values = [entity.passage.facts[relation.name] for entity in self.shelf.entities]
        return self.rng.choice([other for other in values if other != value])

    def named(self, entity: WorldEntity) -> str:
        return self.rng.choice((entity.title, f"the {self.domain.noun} {entity.title}"))

    def ask(self, about: ColumnTemplates | Relation, x: str) -> str:
        template = about.other_ask if self.rng.random() < OTHER_WORDING else self.rng.choice(about.ask)
        return template.format(x=x, o=self.shelf.owner)

    def such(self, about: ColumnTemplates | Relation, value: str) -> str:
        template = about.other_such if self.rng.random() < OTHER_WORDING else about.such
        return template.format(v=value, o=self.shelf.owner)

    # Descriptions. Those of one entity are noun phrases ("the film that Ana Brix directed"), those of several end one.

    def by_row(self) -> Clue:
        # Not the group column: numbers and marks are unique in a table, so the clue fits one row.
        entity, column = self.any_entity(), self.rng.choice((self.domain.number, self.domain.mark))
        value = entity.cells[column.name]
        return Clue((entity,), self.such(column, value), value, self.table)

    def by_group(self) -> Clue:
        group = self.domain.group
        value = self.any_entity().cells[group.name]
        fits = tuple(entity for entity in self.shelf.entities if entity.cells[group.name] == value)
        return Clue(fits, self.such(group, value), value, self.table)

    def by_fact(self, several: bool = False) -> Clue | None:
        relation = self.any_relation()
        value = self.any_entity().passage.facts[relation.name]
        fits = tuple(entity for entity in self.shelf.entities if entity.passage.facts[relation.name] == value)
        if (len(fits) > 1) is not several:
            return None
        text = self.such(relation, value)
        text = text if several else f"the {self.domain.noun} {text}"
        return Clue(fits, text, value, tuple((entity.passage.id, "text") for entity in fits))

    def by_picture(self, several: bool = False, placed: bool = False) -> Clue | None:
        """`placed` names the table in the description, for questions that do not name it anyway."""
        group = self.rng.choice(self.any_entity().scene.groups)
        # The kind that pictures of a shelf share has another colour on each, so a colour would single one out.
        colour = "" if several or self.rng.random() < 0.4 else group.colour
        sight = Sight(group.kind, colour, many=group.count > 1 and not several)
        fits = tuple(entity for entity in self.shelf.entities if sight.on(entity))
        # An ambiguous clue, or a single entity where several are needed, is no sound question.
        if (len(fits) > 1) is not several:
            return None
        picture, thing = self.domain.picture, sight.phrase()
        text = self.rng.choice((f"with {thing} on its {picture}", f"whose {picture} shows {thing}"))
        return Clue(
            fits,
            text if several else f"the {self.domain.noun} {f'{self.among} ' if placed else ''}{text}",
            thing,
            tuple((entity.image_id, "image") for entity in fits),
            sight,
        )

    # What one asks of the entity that `x` describes.

    def of_row(self, entity: WorldEntity, x: str) -> Finding:
        column = self.any_column()
        return Finding(self.ask(column, x), entity.cells[column.name], self.table)

    def of_passage(self, entity: WorldEntity, x: str) -> Finding:
        """A fact, yes or no, or a fact of the person whom the passage names."""
        relation, turn = self.any_relation(), self.rng.random()
        passage, value = entity.passage, entity.passage.facts[relation.name]
        own: Support = ((passage.id, "text"),)
        if turn < 0.12:
            checked = self.rng.choice((value, self.other_value(relation, value)))  # even odds
            return Finding(relation.check.format(x=x, v=checked), "yes" if checked == value else "no", own)
        # Only values that are people have a `role` and a passage of their own.
        if turn < 0.6 and relation.role:
            person, further = self.shelf.people[value], self.rng.choice(templates().person)
            text = self.ask(further, relation.role.format(x=x))
            return Finding(text, person.facts[further.name], (*own, (person.id, "text")), (value,))
        return Finding(self.ask(relation, x), value, own)

    def of_picture(self, entity: WorldEntity, x: str) -> Finding:
        """Colour, number, kind, words, or yes or no; `turn` sets how often each is drawn."""
        picture, scene, turn = self.domain.picture, entity.scene, self.rng.random()
        group = self.rng.choice(scene.groups)
        single, things = group.count == 1, plural(group.kind)
        thing, verb = (group.kind, "is") if single else (things, "are")
        if turn < 0.1:
            # Half of the time a kind that is there for certain, or most answers would be no.
            kind = self.rng.choice((group.kind, self.rng.choice([kind for kind in SHAPES if kind != group.kind])))
            questions = (f"Is there {article(kind)} {kind} on {{p}}?", f"Does {{p}} show {article(kind)} {kind}?")
            answer = "yes" if any(other.kind == kind for other in scene.groups) else "no"
        elif turn < 0.35 and scene.words:
            questions = ("What does the lettering on {p} read?", "Which words are written on {p}?")
            answer = scene.words
        elif turn < 0.58:
            questions = (f"How many {things} are on {{p}}?", f"What is the number of {things} on {{p}}?")
            answer = NUMBERS[group.count]
        # Only where no other group has the colour: two would make two right answers.
        elif turn < 0.78 and [other.colour for other in scene.groups].count(group.colour) == 1:
            noun = "thing" if single else "things"
            questions = (
                f"What {group.colour} {noun} can one see on {{p}}?",
                f"Which {noun} on {{p}} {verb} {group.colour}?",
            )
            answer = thing
        else:
            questions = (f"What colour {verb} the {thing} on {{p}}?", f"In which colour does {{p}} show the {thing}?")
            answer = group.colour
        text = self.rng.choice(questions).format(p=f"the {picture} of {x}")
        return Finding(text, answer, ((entity.image_id, "image"),))
