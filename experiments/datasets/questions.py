"""What the questions of every data set must be, whoever wrote its loader; checked before anything starts."""

from __future__ import annotations

from collections.abc import Iterable

from actors.errors import UserError
from experiments.datasets.item import Dataset, Item
from experiments.datasets.unique import once


def check_questions(dataset: Dataset, name: str, *, trains: bool) -> None:
    """Reads the evaluated questions, and with `trains` those to learn from, once.

    Raises UserError where there are none, where two have one id, where one is in both splits and where one has no text
    or no gold answer: everything is recorded and compared by id, and what was learned from must not be evaluated.
    """
    evaluated = _checked(dataset.evaluate(), name, "evaluated")
    if not evaluated:
        raise UserError(f"{name}: there is no question to evaluate; copy its files again")
    if not trains:
        return
    learned = _checked(dataset.train(), name, "training")
    if both := sorted(evaluated & learned):
        raise UserError(
            f"{name}: {len(both):,} questions are both learned from and evaluated, {both[0]} among them; take them out "
            "of the training questions"
        )


def _checked(items: Iterable[Item], name: str, split: str) -> set[str]:
    """The ids of a split's questions."""
    ids: set[str] = set()
    for item in items:
        id = item.question.id
        where = f"{name}: {split} question {id}"
        once(id, ids, f"{name}: {split} question")
        if not item.question.text.strip():
            raise UserError(f"{where} has no text: remove it")
        if not item.gold or not all(gold.strip() for gold in item.gold):
            raise UserError(f"{where} has an empty gold answer: put one in, or remove the question")
    return ids
