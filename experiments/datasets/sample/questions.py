"""The sixteen question types of MultimodalQA, put together from one hop each.

A clue describes entities by row, passage or picture; a draft is a question about an entity so described.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random

from experiments.datasets.sample.scene import NUMBERS, SHAPES, article, plural
from experiments.datasets.sample.world import ColumnTemplates, Relation, Shelf, WorldEntity, templates

# The share of paraphrases that may have no word of the fact: comparing words alone must not find every source.
OTHER_WORDING = 0.25

Support = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Sight:
    """Something to look for on pictures. An empty colour means any, and `many` only affects the wording."""

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
        """The only entity that it describes. ValueError where it describes several."""
        (only,) = self.fits
        return only


def titles(clue: Clue) -> tuple[str, ...]:
    return tuple(entity.title for entity in clue.fits)


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


About = Callable[[WorldEntity, str], Draft]  # a question about the entity that a text describes


class Asker:
    """Asks about one shelf. Everything is drawn from `rng`; None means that the draw makes no sound question."""

    def __init__(self, shelf: Shelf, rng: Random) -> None:
        self.shelf, self.domain, self.rng = shelf, shelf.domain, rng
        self.table: Support = ((shelf.table_id, "table"),)
        self.among = self.domain.among.format(o=shelf.owner)
        self.place = self.among[0].upper() + self.among[1:]

    def any_entity(self) -> WorldEntity:
        return self.rng.choice(self.shelf.entities)

    def any_relation(self) -> Relation:
        return self.rng.choice(self.domain.relations)

    def named(self, entity: WorldEntity) -> str:
        return self.rng.choice((entity.title, f"the {self.domain.noun} {entity.title}"))

    def ask(self, about: ColumnTemplates, x: str) -> str:
        template = about.other_ask if self.rng.random() < OTHER_WORDING else self.rng.choice(about.ask)
        return template.format(x=x, o=self.shelf.owner)

    def such(self, about: ColumnTemplates, value: str) -> str:
        template = about.other_such if self.rng.random() < OTHER_WORDING else about.such
        return template.format(v=value, o=self.shelf.owner)

    # Descriptions. Those of one entity are noun phrases ("the film that Ana Brix directed"), those of several end one.

    def by_name(self) -> Clue:
        entity = self.any_entity()
        return Clue((entity,), self.named(entity), entity.title, self.table)

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

    def of_row(self, entity: WorldEntity, x: str) -> Draft:
        column = self.rng.choice((self.domain.number, self.domain.group, self.domain.mark))
        return Draft(self.ask(column, x), (entity.cells[column.name],), self.table)

    def of_passage(self, entity: WorldEntity, x: str) -> Draft:
        """Asks for a fact, yes or no, or a fact of the person whom the passage names."""
        relation, turn = self.any_relation(), self.rng.random()
        passage, value = entity.passage, entity.passage.facts[relation.name]
        own: Support = ((passage.id, "text"),)
        if turn < 0.12:
            others = [fact for e in self.shelf.entities if (fact := e.passage.facts[relation.name]) != value]
            checked = self.rng.choice((value, self.rng.choice(others)))  # even odds
            return Draft(relation.check.format(x=x, v=checked), ("yes" if checked == value else "no",), own)
        # Only people among the values have a `role` and a passage.
        if turn < 0.6 and relation.role:
            person, further = self.shelf.people[value], self.rng.choice(templates().person)
            text = self.ask(further, relation.role.format(x=x))
            support = (*own, (person.id, "text"))
            return Draft(text, (person.facts[further.name],), support, between=((value,),))
        return Draft(self.ask(relation, x), (value,), own)

    def of_picture(self, entity: WorldEntity, x: str) -> Draft:
        """Colour, number, kind, words, or yes or no. `turn` sets how often each is drawn."""
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
        return Draft(text, (answer,), ((entity.image_id, "image"),))

    # Whole questions.

    def about_table(self) -> Draft | None:
        """Asks for a cell, a comparison of two rows, the rows of a group, or their sum."""
        turn, domain = self.rng.random(), self.domain
        if turn < 0.3:
            return self.of_named(self.of_row)
        if turn < 0.6:
            clue = self.by_row()
            draft = self.of_row(clue.entity, clue.text)
            # A clue by the column that the question is about would hold the answer.
            return None if draft.answers == (clue.start,) else draft
        if turn < 0.75:
            return self.compared(self.by_name(), self.by_name())
        if turn < 0.9:
            clue, plural = self.by_group(), domain.plural
            text = self.rng.choice(
                (f"{self.place}, which {plural} are {clue.text}?", f"Name the {plural} {self.among} {clue.text}.")
            )
            return Draft(text, titles(clue), clue.support)
        if not domain.total:
            return None
        clue = self.by_group()
        total = float(sum(int(entity.cells[domain.mark.name]) for entity in clue.fits))
        return Draft(domain.total.format(o=self.shelf.owner, v=clue.start), (total,), self.table)

    def about_pictures(self) -> Draft | None:
        """Asks for the entity, or the several, with a thing on their pictures."""
        clue = self.by_picture(several=self.rng.random() < 0.3)
        if clue is None or clue.sight is None:
            return None
        thing, picture, single = clue.sight.phrase(), self.domain.picture, len(clue.fits) == 1
        noun, has, its = (self.domain.noun, "has", "its") if single else (self.domain.plural, "have", "their")
        which = self.rng.choice(
            (f"which {noun} {has} {thing} on {its} {picture}", f"on the {picture} of which {noun} can one see {thing}")
        )
        return Draft(f"{self.place}, {which}?", titles(clue), clue.support, sight=clue.sight)

    def of_named(self, about: About) -> Draft:
        """Asks about an entity by its name."""
        entity = self.any_entity()
        return replace(about(entity, self.named(entity)), between=())

    def composed(self, clue: Clue | None, about: About) -> Draft | None:
        """Asks about the entity that a clue describes."""
        if clue is None:
            return None
        asked = about(clue.entity, clue.text)
        support = tuple(dict.fromkeys((*clue.support, *asked.support)))
        between = (titles(clue), *asked.between)
        return replace(asked, support=support, start=clue.start, between=between, sight=clue.sight)

    def compared(self, left: Clue | None, right: Clue | None) -> Draft | None:
        """Asks which of two entities comes first or last by the table's number."""
        if left is None or right is None or left.entity is right.entity:
            return None
        domain, least = self.domain, self.rng.random() < 0.5
        # Numbers are unique in a table, so there are no ties.
        first, last = sorted((left.entity, right.entity), key=lambda entity: int(entity.cells[domain.number.name]))
        a, b = self.rng.sample((left.text, right.text), 2)
        text = self.rng.choice(domain.least if least else domain.most).format(o=self.shelf.owner, a=a, b=b)
        support = tuple(dict.fromkeys((*left.support, *right.support, *self.table)))
        winner = first if least else last
        return Draft(text, (winner.title,), support, sight=left.sight or right.sight)

    def intersected(self, left: Clue | None, right: Clue | None) -> Draft | None:
        """Each condition alone leaves several entities, both together exactly one."""
        if left is None or right is None or min(len(left.fits), len(right.fits)) < 2:
            return None
        both = [entity for entity in left.fits if entity in right.fits]
        if len(both) != 1:
            return None
        # Either condition may come first, so that its place does not depend on its kind.
        first, last = self.rng.sample((left.text, right.text), 2)
        text = f"{self.place}, which {self.domain.noun} {first} is {self.rng.choice(('the', 'also'))} one {last}?"
        support = tuple(dict.fromkeys((*left.support, *right.support)))
        between = (titles(left), titles(right))
        return Draft(text, (both[0].title,), support, "", between, left.sight or right.sight)


@dataclass(frozen=True, slots=True)
class QuestionType:
    """A question type: `weight` in questions of a hundred, `modalities` in the order of the official records."""

    weight: int
    modalities: tuple[str, ...]
    draft: Callable[[Asker], Draft | None]


# The official proportions, with more weight on questions that need several hops and sources of both kinds.
# Clues are drawn in the order in which they stand here, which is part of what a seed gives.
TYPES = {
    "TextQ": QuestionType(11, ("text",), lambda a: a.of_named(a.of_passage)),
    "TableQ": QuestionType(7, ("table",), Asker.about_table),
    "ImageQ": QuestionType(7, ("image",), lambda a: a.of_named(a.of_picture)),
    "ImageListQ": QuestionType(5, ("image",), Asker.about_pictures),
    "Compose(TextQ,TableQ)": QuestionType(10, ("table", "text"), lambda a: a.composed(a.by_row(), a.of_passage)),
    "Compose(TableQ,ImageListQ)": QuestionType(9, ("image", "table"), lambda a: a.composed(a.by_picture(), a.of_row)),
    "Compose(ImageQ,TableQ)": QuestionType(8, ("table", "image"), lambda a: a.composed(a.by_row(), a.of_picture)),
    "Compose(TableQ,TextQ)": QuestionType(5, ("text", "table"), lambda a: a.composed(a.by_fact(), a.of_row)),
    "Compose(TextQ,ImageListQ)": QuestionType(
        9, ("image", "text"), lambda a: a.composed(a.by_picture(placed=True), a.of_passage)
    ),
    "Compose(ImageQ,TextQ)": QuestionType(7, ("text", "image"), lambda a: a.composed(a.by_fact(), a.of_picture)),
    "Compare(Compose(TableQ,ImageQ),TableQ)": QuestionType(
        6, ("image", "table"), lambda a: a.compared(a.by_picture(), a.by_name())
    ),
    "Compare(TableQ,Compose(TableQ,TextQ))": QuestionType(
        4, ("text", "table"), lambda a: a.compared(a.by_fact(), a.by_name())
    ),
    "Compare(Compose(TableQ,ImageQ),Compose(TableQ,TextQ))": QuestionType(
        2, ("image", "text"), lambda a: a.compared(a.by_picture(), a.by_fact())
    ),
    "Intersect(TableQ,TextQ)": QuestionType(
        4, ("text", "table"), lambda a: a.intersected(a.by_fact(several=True), a.by_group())
    ),
    "Intersect(ImageListQ,TableQ)": QuestionType(
        3, ("image", "table"), lambda a: a.intersected(a.by_picture(several=True), a.by_group())
    ),
    "Intersect(ImageListQ,TextQ)": QuestionType(
        3, ("text", "image"), lambda a: a.intersected(a.by_fact(several=True), a.by_picture(several=True))
    ),
}
