"""The sixteen question types of MultimodalQA, put together from one hop each.

A clue describes entities by row, passage or picture; a draft is a question about an entity so described.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import chain
from random import Random

from experiments.datasets.sample.scene import NUMBERS, SHAPES, article, plural
from experiments.datasets.sample.world import ColumnTemplates, Relation, Shelf, WorldEntity, capitalised, templates

# The share of paraphrases that may have no word of the fact: comparing words alone must not find every source.
OTHER_WORDING = 0.25

Support = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Sight:
    """Something to look for on pictures. An empty colour means any, and `is_plural` only affects the wording."""

    kind: str
    colour: str
    is_plural: bool

    def on(self, entity: WorldEntity) -> bool:
        return any(group.kind == self.kind and self.colour in ("", group.colour) for group in entity.scene.groups)

    def phrase(self) -> str:
        if self.is_plural:
            return f"{self.colour} {plural(self.kind)}".strip()
        thing = f"{self.colour} {self.kind}".strip()
        return f"{article(thing)} {thing}"


@dataclass(frozen=True, slots=True)
class Clue:
    """A description of entities, what it starts from, and the documents that lead from there to the entities."""

    entities: tuple[WorldEntity, ...]
    text: str
    start: str
    support: Support
    sight: Sight | None = None

    @property
    def entity(self) -> WorldEntity:
        """The only entity that it describes. ValueError where it describes several."""
        [entity] = self.entities
        return entity

    @property
    def titles(self) -> tuple[str, ...]:
        return tuple(entity.title for entity in self.entities)


@dataclass(frozen=True, slots=True)
class Draft:
    """A question before it gets its distractors. What `sight` looks for must not be on pictures from elsewhere.

    start: where the first description of a question of several hops starts from.
    between: the names that each hop before the last leads to, a tuple for each.
    """

    text: str
    answers: tuple[str | float, ...]
    support: Support
    start: str = ""
    between: tuple[tuple[str, ...], ...] = ()
    sight: Sight | None = None


class Asker:
    """Asks about one shelf. Everything is drawn from `rng`; None means that the draw makes no sound question."""

    def __init__(self, shelf: Shelf, rng: Random) -> None:
        self.shelf = shelf
        self.domain = shelf.domain
        self.rng = rng
        self.table: Support = ((shelf.table_id, "table"),)
        self.among = self.domain.among.format(o=shelf.owner)
        self.place = capitalised(self.among)

    def any_entity(self) -> WorldEntity:
        return self.rng.choice(self.shelf.entities)

    def any_relation(self) -> Relation:
        return self.rng.choice(self.domain.relations)

    def sharing(self, entity: WorldEntity, relation: Relation) -> list[WorldEntity]:
        """Entities that share a fact with one."""
        value = entity.passage.facts[relation.name]
        return [entity for entity in self.shelf.entities if entity.passage.facts[relation.name] == value]

    def named(self, entity: WorldEntity) -> str:
        return self.rng.choice((entity.title, f"the {self.domain.noun} {entity.title}"))

    def ask(self, templates: ColumnTemplates, description: str) -> str:
        template = templates.other_ask if self.rng.random() < OTHER_WORDING else self.rng.choice(templates.ask)
        return template.format(x=description, o=self.shelf.owner)

    def such(self, templates: ColumnTemplates, value: str) -> str:
        template = templates.other_such if self.rng.random() < OTHER_WORDING else templates.such
        return template.format(v=value, o=self.shelf.owner)

    def pictured(self, wording: str, **words: str) -> str:
        return self.rng.choice(templates().pictures[wording]).format(**words)

    # Descriptions. Those of one entity are noun phrases ("the film that Ana Brix directed"), those of several end one.

    def by_name(self) -> Clue:
        entity = self.any_entity()
        return Clue((entity,), self.named(entity), entity.title, self.table)

    def by_row(self) -> Clue:
        entity = self.any_entity()
        # Not the group column: numbers and marks are unique in a table, so the clue fits one row.
        column = self.rng.choice((self.domain.number, self.domain.mark))
        value = entity.cells[column.name]
        return Clue((entity,), self.such(column, value), value, self.table)

    def by_group(self) -> Clue:
        group = self.domain.group
        value = self.any_entity().cells[group.name]
        entities = tuple(entity for entity in self.shelf.entities if entity.cells[group.name] == value)
        return Clue(entities, self.such(group, value), value, self.table)

    def by_fact(self, several: bool = False) -> Clue | None:
        relation = self.any_relation()
        entity = self.any_entity()
        entities = self.sharing(entity, relation)
        if (len(entities) > 1) is not several:
            return None
        value = entity.passage.facts[relation.name]
        text = self.such(relation, value)
        if not several:
            text = f"the {self.domain.noun} {text}"
        support = tuple((entity.passage.id, "text") for entity in entities)
        return Clue(tuple(entities), text, value, support)

    def by_picture(self, several: bool = False, names_table: bool = False) -> Clue | None:
        """`names_table` names it in the description, for questions that do not name it anyway."""
        group = self.rng.choice(self.any_entity().scene.groups)
        # The kind that pictures of a shelf share has another colour on each, so a colour would single one out.
        colour = "" if several or self.rng.random() < 0.4 else group.colour
        sight = Sight(group.kind, colour, is_plural=group.count > 1 and not several)
        entities = tuple(filter(sight.on, self.shelf.entities))
        # An ambiguous clue, or a single entity where several are needed, is no sound question.
        if (len(entities) > 1) is not several:
            return None

        text = self.pictured("clue", thing=sight.phrase(), picture=self.domain.picture)
        if not several:
            place = f"{self.among} " if names_table else ""
            text = f"the {self.domain.noun} {place}{text}"

        support = tuple((entity.image_id, "image") for entity in entities)
        return Clue(entities, text, sight.phrase(), support, sight)

    def by_shared_fact(self) -> Clue | None:
        return self.by_fact(several=True)

    def by_shared_sight(self) -> Clue | None:
        return self.by_picture(several=True)

    def by_placed_picture(self) -> Clue | None:
        return self.by_picture(names_table=True)

    # Questions about the entity that a text describes.

    def of_row(self, entity: WorldEntity, description: str) -> Draft:
        column = self.rng.choice((self.domain.number, self.domain.group, self.domain.mark))
        return Draft(self.ask(column, description), (entity.cells[column.name],), self.table)

    def of_passage(self, entity: WorldEntity, description: str) -> Draft:
        """Asks for a fact, yes or no, or a fact of the person whom the passage names."""
        relation = self.any_relation()
        turn = self.rng.random()
        value = entity.passage.facts[relation.name]
        support: Support = ((entity.passage.id, "text"),)
        if turn < 0.12:
            facts = [entity.passage.facts[relation.name] for entity in self.shelf.entities]
            wrong_value = self.rng.choice([fact for fact in facts if fact != value])
            checked_value = self.rng.choice((value, wrong_value))  # even odds
            answer = "yes" if checked_value == value else "no"
            return Draft(relation.check.format(x=description, v=checked_value), (answer,), support)
        # Only people among the values have a `role` and a passage.
        if turn < 0.6 and relation.role:
            person = self.shelf.people[value]
            fact = self.rng.choice(templates().person)
            text = self.ask(fact, relation.role.format(x=description))
            support = (*support, (person.id, "text"))
            return Draft(text, (person.facts[fact.name],), support, between=((value,),))

        return Draft(self.ask(relation, description), (value,), support)

    def of_picture(self, entity: WorldEntity, description: str) -> Draft:
        """Colour, number, kind, words, or yes or no. `turn` sets how often each is drawn."""
        scene = entity.scene
        turn = self.rng.random()
        group = self.rng.choice(scene.groups)
        kind = group.kind
        colours = [group.colour for group in scene.groups]
        thing = kind
        noun = "thing"
        verb = "is"
        if group.count > 1:
            thing = plural(kind)
            noun = "things"
            verb = "are"

        if turn < 0.1:
            # Half of the time a kind that is there for certain, or most answers would be no.
            other_kind = self.rng.choice([kind for kind in SHAPES if kind != group.kind])
            kind = self.rng.choice((group.kind, other_kind))
            wording = "kind"
            answer = "yes" if any(group.kind == kind for group in scene.groups) else "no"
        elif turn < 0.35 and scene.words:
            wording = "lettering"
            answer = scene.words
        elif turn < 0.58:
            wording = "count"
            answer = NUMBERS[group.count]
        # Only where no other group has the colour: two would make two right answers.
        elif turn < 0.78 and colours.count(group.colour) == 1:
            wording = "thing"
            answer = thing
        else:
            wording = "colour"
            answer = group.colour

        text = self.pictured(
            wording,
            p=f"the {self.domain.picture} of {description}",
            article=article(kind),
            kind=kind,
            colour=group.colour,
            thing=thing,
            things=plural(kind),
            noun=noun,
            verb=verb,
        )
        return Draft(text, (answer,), ((entity.image_id, "image"),))

    # Whole questions.

    def about_table(self) -> Draft | None:
        """Asks for a cell, a comparison of two rows, the rows of a group, or their sum."""
        turn = self.rng.random()
        domain = self.domain
        if turn < 0.3:
            return of_named(Asker.of_row)(self)
        if turn < 0.6:
            clue = self.by_row()
            draft = self.of_row(clue.entity, clue.text)
            # A clue by the column that the question is about would hold the answer.
            return None if draft.answers == (clue.start,) else draft
        if turn < 0.75:
            return compared(Asker.by_name, Asker.by_name)(self)
        if turn < 0.9:
            clue = self.by_group()
            template = self.rng.choice(templates().rows)
            text = template.format(place=self.place, among=self.among, plural=domain.plural, clue=clue.text)
            return Draft(text, clue.titles, clue.support)
        if not domain.total:
            return None

        clue = self.by_group()
        total = float(sum(int(entity.cells[domain.mark.name]) for entity in clue.entities))
        return Draft(domain.total.format(o=self.shelf.owner, v=clue.start), (total,), self.table)

    def about_pictures(self) -> Draft | None:
        """Asks for the entity, or the several, with a thing on their pictures."""
        clue = self.by_picture(several=self.rng.random() < 0.3)
        if clue is None:
            return None
        domain = self.domain
        wording = "entity" if len(clue.entities) == 1 else "entities"
        which = self.pictured(wording, noun=domain.noun, plural=domain.plural, picture=domain.picture, thing=clue.start)
        return Draft(f"{self.place}, {which}?", clue.titles, clue.support, sight=clue.sight)


Describe = Callable[[Asker], Clue | None]
About = Callable[[Asker, WorldEntity, str], Draft]  # a question about the entity that a text describes
Make = Callable[[Asker], Draft | None]


def of_named(about: About) -> Make:
    """Asks about an entity by its name."""

    def draft(asker: Asker) -> Draft:
        entity = asker.any_entity()
        return replace(about(asker, entity, asker.named(entity)), between=())

    return draft


def composed(describe: Describe, about: About) -> Make:
    """Asks about the entity that a clue describes."""

    def draft(asker: Asker) -> Draft | None:
        clue = describe(asker)
        if clue is None:
            return None
        question = about(asker, clue.entity, clue.text)
        return replace(
            question,
            support=joined(clue.support, question.support),
            start=clue.start,
            between=(clue.titles, *question.between),
            sight=clue.sight,
        )

    return draft


def compared(describe_first: Describe, describe_second: Describe) -> Make:
    """Asks which of two entities comes first or last by the table's number."""

    def draft(asker: Asker) -> Draft | None:
        first = describe_first(asker)
        second = describe_second(asker)
        if first is None or second is None or first.entity is second.entity:
            return None

        domain = asker.domain
        asks_least = asker.rng.random() < 0.5
        # Numbers are unique in a table, so there are no ties.
        entities = sorted((first.entity, second.entity), key=lambda entity: int(entity.cells[domain.number.name]))
        a, b = asker.rng.sample((first.text, second.text), 2)
        if asks_least:
            templates, answer = domain.least, entities[0].title
        else:
            templates, answer = domain.most, entities[1].title
        return Draft(
            asker.rng.choice(templates).format(o=asker.shelf.owner, a=a, b=b),
            (answer,),
            joined(first.support, second.support, asker.table),
            sight=first.sight or second.sight,
        )

    return draft


def intersected(describe_first: Describe, describe_second: Describe) -> Make:
    """Makes a question of two conditions: each alone leaves several entities, both together exactly one."""

    def draft(asker: Asker) -> Draft | None:
        first = describe_first(asker)
        second = describe_second(asker)
        if first is None or second is None or min(len(first.entities), len(second.entities)) < 2:
            return None

        answers = tuple(entity.title for entity in first.entities if entity in second.entities)
        if len(answers) != 1:
            return None

        # Either condition may come first, so that its place does not depend on its kind.
        a, b = asker.rng.sample((first.text, second.text), 2)
        link = asker.rng.choice(("the", "also"))
        return Draft(
            f"{asker.place}, which {asker.domain.noun} {a} is {link} one {b}?",
            answers,
            joined(first.support, second.support),
            between=(first.titles, second.titles),
            sight=first.sight or second.sight,
        )

    return draft


def joined(*parts: Iterable[tuple[str, str]]) -> Support:
    """Joins lists of documents, each document once."""
    return tuple(dict.fromkeys(chain.from_iterable(parts)))


@dataclass(frozen=True, slots=True)
class QuestionType:
    """A question type: `weight` in questions of a hundred, `modalities` in the order of the official records."""

    weight: int
    modalities: tuple[str, ...]
    draft: Make


# The official proportions, with more weight on questions that need several hops and sources of both kinds.
# Clues are drawn in the order in which they stand here, which is part of what a seed gives.
TYPES = {
    "TextQ": QuestionType(11, ("text",), of_named(Asker.of_passage)),
    "TableQ": QuestionType(7, ("table",), Asker.about_table),
    "ImageQ": QuestionType(7, ("image",), of_named(Asker.of_picture)),
    "ImageListQ": QuestionType(5, ("image",), Asker.about_pictures),
    "Compose(TextQ,TableQ)": QuestionType(10, ("table", "text"), composed(Asker.by_row, Asker.of_passage)),
    "Compose(TableQ,ImageListQ)": QuestionType(9, ("image", "table"), composed(Asker.by_picture, Asker.of_row)),
    "Compose(ImageQ,TableQ)": QuestionType(8, ("table", "image"), composed(Asker.by_row, Asker.of_picture)),
    "Compose(TableQ,TextQ)": QuestionType(5, ("text", "table"), composed(Asker.by_fact, Asker.of_row)),
    "Compose(TextQ,ImageListQ)": QuestionType(
        9, ("image", "text"), composed(Asker.by_placed_picture, Asker.of_passage)
    ),
    "Compose(ImageQ,TextQ)": QuestionType(7, ("text", "image"), composed(Asker.by_fact, Asker.of_picture)),
    "Compare(Compose(TableQ,ImageQ),TableQ)": QuestionType(
        6, ("image", "table"), compared(Asker.by_picture, Asker.by_name)
    ),
    "Compare(TableQ,Compose(TableQ,TextQ))": QuestionType(4, ("text", "table"), compared(Asker.by_fact, Asker.by_name)),
    "Compare(Compose(TableQ,ImageQ),Compose(TableQ,TextQ))": QuestionType(
        2, ("image", "text"), compared(Asker.by_picture, Asker.by_fact)
    ),
    "Intersect(TableQ,TextQ)": QuestionType(4, ("text", "table"), intersected(Asker.by_shared_fact, Asker.by_group)),
    "Intersect(ImageListQ,TableQ)": QuestionType(
        3, ("image", "table"), intersected(Asker.by_shared_sight, Asker.by_group)
    ),
    "Intersect(ImageListQ,TextQ)": QuestionType(
        3, ("text", "image"), intersected(Asker.by_shared_fact, Asker.by_shared_sight)
    ),
}
