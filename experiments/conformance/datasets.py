"""The checks of a data set: the rules that every loader keeps."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from actors.messages import Question
from experiments.conformance.require import require
from experiments.datasets.item import Dataset, Item

LOOKED_AT = 200  # items of each split; reading a whole benchmark would take minutes


def check_dataset(dataset: Dataset) -> None:
    """Splits, sources and scores of an opened data set. Raises NotConforming with the first that is wrong."""
    name = dataset.name
    require(bool(name and dataset.metric), "a data set has a name, and a name for its metric")
    train, evaluated = _items(dataset.train()), _items(dataset.evaluate())
    require(bool(evaluated), f"{name}: there is no question to evaluate")
    # Resumed runs skip questions by id, and subsets are drawn by it: both need the same items again.
    require(evaluated == _items(dataset.evaluate()), f"{name}: evaluate() gives other items, or another order, again")
    ids = [item.question.id for item in (*train, *evaluated)]
    require(len(set(ids)) == len(ids), f"{name}: two questions have one id, or one is in both splits")
    sources = [source.id for source in dataset.corpus()]
    require(len(set(sources)) == len(sources), f"{name}: the corpus gives a source twice")
    documents = {source.doc for source in dataset.corpus()}
    for item in evaluated:
        _check_item(dataset, item, documents)


def _check_item(dataset: Dataset, item: Item, documents: set[str]) -> None:
    where = f"{dataset.name}, question {item.question.id}"
    require(isinstance(item.question, Question) and bool(item.question.text), f"{where}: it has no text")
    require(bool(item.gold) and all(item.gold), f"{where}: it has no gold answer")
    require(not item.question.evidence, f"{where}: evidence is retrieved for it, a loader gives none")
    choices = item.question.choices
    require(not choices or set(item.gold) <= set(choices), f"{where}: its gold answer is none of its choices")
    require(set(item.supporting) <= set(item.pool), f"{where}: a supporting document is not in its pool")
    require(set(item.own) <= set(item.pool), f"{where}: a document of its own is not in its pool")
    require(set(item.pool) <= documents, f"{where}: a document of its pool is not in the corpus")
    # A list of gold answers is given as a sentence would give it, since answers are text.
    nothing, right = dataset.score(item, None), dataset.score(item, ", ".join(item.gold))
    require((nothing.utility, nothing.f1) == (0, 0), f"{where}: no answer scores above 0")
    require(0 <= right.utility <= 1 and 0 <= right.f1 <= 1, f"{where}: a score is not in [0, 1]")
    if right.strict_em is not None or nothing.strict_em is not None:
        require(nothing.strict_em == 0, f"{where}: no answer has another strict_em than 0")
        require(right.strict_em is not None and 0 <= right.strict_em <= 1, f"{where}: its strict_em is not in [0, 1]")
    require(right.utility > 0, f"{where}: its own gold answer scores 0")


def _items(split: Iterable[Item]) -> list[Item]:
    return list(islice(split, LOOKED_AT))
