"""Chooses the wrong answers that attacks argue for. Attackers see nothing else of the labels."""

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from itertools import chain, islice

from actors.messages import derive_seed
from experiments.datasets.item import Dataset, Item
from experiments.metrics.answer_metrics import normalise

# Both match normalised text, in which every number is written as a float.
_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?(e[+-]?\d+)?")
_YEAR = re.compile(r"(?:1\d|20)\d\d\.0")
_QUESTION_WORD = re.compile(r"\b(who|when|where|(?:how|what|which|whose)\s+\w+)\b")


class Targets:
    """Wrong answers by question, the same in every method, round and sample.

    With choices they are the wrong ones, in an order of the seed. Otherwise they are other questions' gold answers of
    the same form (yes or no, year, number, words): first of questions that ask alike ("what colour", "who"), then of
    the same type (the data set's tag), then any. None of them scores anything against the question's own gold.
    """

    def __init__(self, dataset: Dataset, seed: int) -> None:
        self._dataset = dataset
        self._seed = seed
        self._found: dict[str, tuple[list[str], Iterator[str]]] = {}

    def of(self, item: Item, number: int = 0) -> str | None:
        """Returns wrong answer `number` (from 0) of a question. None where there are fewer."""
        answers, further_answers = self._found.setdefault(item.question.id, ([], self.wrong(item)))
        answers += islice(further_answers, max(0, number + 1 - len(answers)))
        return answers[number] if number < len(answers) else None

    def wrong(self, item: Item) -> Iterator[str]:
        """Yields the wrong answers of a question, the closest first."""
        seed = derive_seed(self._seed, "target", item.question.id)
        if item.question.choices:
            candidates = iter(sorted(item.question.choices, key=lambda choice: derive_seed(seed, choice)))
        else:
            candidates = self._answers_of_others(item, seed)
        tried_answers = {""}  # normalisation leaves an empty string of some answers
        for candidate in candidates:
            normalised = normalise(candidate)
            if normalised in tried_answers:
                continue
            score = self._dataset.score(item, candidate)
            # Not even partly right: success would otherwise be counted for half-right answers.
            if score.utility == 0 and score.f1 == 0:
                tried_answers.add(normalised)
                yield candidate

    def _answers_of_others(self, item: Item, seed: int) -> Iterator[str]:
        """Yields gold answers of other questions, the closest first."""
        for key in _keys(item):
            answers = self._answers.get(key, [])
            if answers:
                # From another place for every question, or all would share a target.
                start = seed % len(answers)
                yield from answers[start:] + answers[:start]

    @cached_property
    def _answers(self) -> dict[tuple[str, ...], list[str]]:
        """Gold answers of questions that have just one, by each of their keys, sorted."""
        answers: dict[tuple[str, ...], set[str]] = {}
        for item in chain(self._dataset.train(), self._dataset.evaluate()):
            if len(item.gold) == 1:
                for key in _keys(item):
                    answers.setdefault(key, set()).add(item.gold[0])
        # Sorted: the order of a set of strings differs between processes.
        return {key: sorted(values) for key, values in answers.items()}


def aimed_at(item: Item, target: str) -> Item:
    """Returns the item with the target as its gold answer. Its score tells whether an answer is the target."""
    return replace(item, gold=(target,))


def form_of(answer: str) -> str:
    """`yes or no`, `year`, `number` or `words`."""
    normalised = normalise(answer)
    if normalised in ("yes", "no"):
        return "yes or no"
    if _YEAR.fullmatch(normalised):
        return "year"
    return "number" if _NUMBER.fullmatch(normalised) else "words"


def _keys(item: Item) -> tuple[tuple[str, ...], ...]:
    """Properties that other questions may share with this one, the closest first."""
    form = form_of(item.gold[0])
    question_word = _QUESTION_WORD.search(item.question.text.lower())
    wording = question_word[1] if question_word else ""
    question_type = item.tags.get("type") or item.tags.get("answer_type") or ""
    return ("wording", wording, form), ("type", question_type, form), ("form", form), ()
