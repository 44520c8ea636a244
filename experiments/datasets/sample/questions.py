"""The sixteen question types of MultimodalQA, put together from clues and findings of one hop each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from experiments.datasets.sample.clues import Answer, Asker, Clue, Finding, Sight, Support
from experiments.datasets.sample.world import WorldEntity


@dataclass(frozen=True, slots=True)
class Draft:
    """A question before it gets its distractors; what `sight` looks for must not be on pictures from elsewhere.

    start: where the first description of a question of several hops starts from.
    between: the names that each hop before the last leads to, a tuple for each.
    """

    text: str
    answers: tuple[Answer, ...]
    support: Support
    start: str = ""
    between: tuple[tuple[str, ...], ...] = ()
    sight: Sight | None = None


def about_table(asker: Asker) -> Draft | None:
    """A cell by the entity or by another cell, a comparison of two rows, the rows of a group, or their sum."""
    turn = asker.rng.random()
    if turn < 0.3:
        return _named(asker, asker.of_row)
    if turn < 0.6:
        clue = asker.by_row()
        finding = asker.of_row(clue.entity, clue.text)
        # A clue by the column that the question is about would hold the answer.
        return None if finding.answer == clue.start else Draft(finding.text, (finding.answer,), asker.table)
    if turn < 0.75:
        return _compared(asker, _by_name(asker), _by_name(asker))
    return _group(asker) if turn < 0.9 else _sum(asker)


def _group(asker: Asker) -> Draft:
    clue = asker.by_group()
    plural, among = asker.domain.plural, asker.among
    text = asker.rng.choice(
        (f"{_place(asker)}, which {plural} are {clue.text}?", f"Name the {plural} {among} {clue.text}.")
    )
    return Draft(text, _titles(clue), clue.support)


def _sum(asker: Asker) -> Draft | None:
    if not asker.domain.total:
        return None
    clue = asker.by_group()
    total = float(sum(int(entity.cells[asker.domain.mark.name]) for entity in clue.fits))
    return Draft(asker.domain.total.format(o=asker.shelf.owner, v=clue.start), (total,), asker.table)


def about_pictures(asker: Asker) -> Draft | None:
    """The entity, or the several, with a thing on their pictures."""
    clue = asker.by_picture(several=asker.rng.random() < 0.3)
    if clue is None or clue.sight is None:
        return None
    thing, picture, single = clue.sight.phrase(), asker.domain.picture, len(clue.fits) == 1
    noun, has, its = (asker.domain.noun, "has", "its") if single else (asker.domain.plural, "have", "their")
    which = asker.rng.choice(
        (f"which {noun} {has} {thing} on {its} {picture}", f"on the {picture} of which {noun} can one see {thing}")
    )
    text = f"{_place(asker)}, {which}?"
    return Draft(text, _titles(clue), clue.support, sight=clue.sight)


def _intersected(asker: Asker, left: Clue | None, right: Clue | None) -> Draft | None:
    """Each condition alone leaves several entities, both together exactly one."""
    if left is None or right is None or min(len(left.fits), len(right.fits)) < 2:
        return None
    both = [entity for entity in left.fits if entity in right.fits]
    if len(both) != 1:
        return None
    # Either condition may come first, so that its place does not depend on its kind.
    first, last = asker.rng.sample((left.text, right.text), 2)
    also = asker.rng.choice(("the", "also"))
    text = f"which {asker.domain.noun} {first} is {also} one {last}?"
    support = tuple(dict.fromkeys((*left.support, *right.support)))
    between = (_titles(left), _titles(right))
    return Draft(f"{_place(asker)}, {text}", (both[0].title,), support, "", between, left.sight or right.sight)


def _titles(clue: Clue) -> tuple[str, ...]:
    return tuple(entity.title for entity in clue.fits)


def _place(asker: Asker) -> str:
    return asker.among[0].upper() + asker.among[1:]


def _named(asker: Asker, about: Callable[[WorldEntity, str], Finding]) -> Draft:
    entity = asker.any_entity()
    finding = about(entity, asker.named(entity))
    return Draft(finding.text, (finding.answer,), finding.support)


def _composed(clue: Clue | None, about: Callable[[WorldEntity, str], Finding]) -> Draft | None:
    if clue is None:
        return None
    finding = about(clue.entity, clue.text)
    support = tuple(dict.fromkeys((*clue.support, *finding.support)))
    between = (_titles(clue), *((name,) for name in finding.between))
    return Draft(finding.text, (finding.answer,), support, clue.start, between, clue.sight)


def _by_name(asker: Asker) -> Clue:
    entity = asker.any_entity()
    return Clue((entity,), asker.named(entity), entity.title, asker.table)


def _compared(asker: Asker, left: Clue | None, right: Clue | None) -> Draft | None:
    """Asks which of two entities comes first or last by the table's number."""
    if left is None or right is None or left.entity is right.entity:
        return None
    domain, least = asker.domain, asker.rng.random() < 0.5
    # Numbers are unique in a table, so there are no ties.
    first, last = sorted((left.entity, right.entity), key=lambda entity: int(entity.cells[domain.number.name]))
    a, b = asker.rng.sample((left.text, right.text), 2)
    text = asker.rng.choice(domain.least if least else domain.most).format(o=asker.shelf.owner, a=a, b=b)
    support = tuple(dict.fromkeys((*left.support, *right.support, *asker.table)))
    winner = first if least else last
    return Draft(text, (winner.title,), support, sight=left.sight or right.sight)


@dataclass(frozen=True, slots=True)
class QuestionType:
    """A question type: `weight` in questions of a hundred, `modalities` in the order of the official records."""

    weight: int
    modalities: tuple[str, ...]
    draft: Callable[[Asker], Draft | None]


# The official proportions, with more weight on questions that need several hops and sources of both kinds.
# Clues are drawn in the order in which they stand here, which is part of what a seed gives.
TYPES = {
    "TextQ": QuestionType(11, ("text",), lambda a: _named(a, a.of_passage)),
    "TableQ": QuestionType(7, ("table",), about_table),
    "ImageQ": QuestionType(7, ("image",), lambda a: _named(a, a.of_picture)),
    "ImageListQ": QuestionType(5, ("image",), about_pictures),
    "Compose(TextQ,TableQ)": QuestionType(10, ("table", "text"), lambda a: _composed(a.by_row(), a.of_passage)),
    "Compose(TableQ,ImageListQ)": QuestionType(9, ("image", "table"), lambda a: _composed(a.by_picture(), a.of_row)),
    "Compose(ImageQ,TableQ)": QuestionType(8, ("table", "image"), lambda a: _composed(a.by_row(), a.of_picture)),
    "Compose(TableQ,TextQ)": QuestionType(5, ("text", "table"), lambda a: _composed(a.by_fact(), a.of_row)),
    "Compose(TextQ,ImageListQ)": QuestionType(
        9, ("image", "text"), lambda a: _composed(a.by_picture(placed=True), a.of_passage)
    ),
    "Compose(ImageQ,TextQ)": QuestionType(7, ("text", "image"), lambda a: _composed(a.by_fact(), a.of_picture)),
    "Compare(Compose(TableQ,ImageQ),TableQ)": QuestionType(
        6, ("image", "table"), lambda a: _compared(a, a.by_picture(), _by_name(a))
    ),
    "Compare(TableQ,Compose(TableQ,TextQ))": QuestionType(
        4, ("text", "table"), lambda a: _compared(a, a.by_fact(), _by_name(a))
    ),
    "Compare(Compose(TableQ,ImageQ),Compose(TableQ,TextQ))": QuestionType(
        2, ("image", "text"), lambda a: _compared(a, a.by_picture(), a.by_fact())
    ),
    "Intersect(TableQ,TextQ)": QuestionType(
        4, ("text", "table"), lambda a: _intersected(a, a.by_fact(several=True), a.by_group())
    ),
    "Intersect(ImageListQ,TableQ)": QuestionType(
        3, ("image", "table"), lambda a: _intersected(a, a.by_picture(several=True), a.by_group())
    ),
    "Intersect(ImageListQ,TextQ)": QuestionType(
        3, ("text", "image"), lambda a: _intersected(a, a.by_fact(several=True), a.by_picture(several=True))
    ),
}
