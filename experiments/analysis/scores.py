"""Recorded scores by method and question: as matrices of trials, and by parts of a benchmark."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from actors.messages import Message, Status
from experiments.datasets.item import Item, Score
from experiments.records.recorder import RunFolder
from experiments.records.records import Scored, by_question
from topologies.wiring import Floats

MOST_VALUES = 20  # values per tag; a tag with more, such as an id or a page title, would fill a report with tiny groups


def by_method(run: RunFolder, failed: bool = False) -> dict[str, dict[str, Scored]]:
    """Reads every method's answers by question id, in order. A group's questions count as one.

    failed: with those in whose discussion a turn failed, which count in no mean and no comparison.
    """
    answers: dict[str, dict[str, Scored]] = {}
    for scored in by_question(run.scores()):
        if failed or not scored.failed_calls:
            answers.setdefault(scored.method, {})[scored.question] = scored
    # Records come in the order of completion, which no sum may depend on.
    return {method: dict(sorted(of_method.items())) for method, of_method in answers.items()}


def sound(answers: Mapping[str, Mapping[str, Scored]], failures: float) -> dict[str, dict[str, Scored]]:
    """Leaves out failed questions. A method of which more than the share `failures` failed loses all.

    answers: by method and question, with failed ones.
    """
    kept = {method: {id: one for id, one in of.items() if not one.failed_calls} for method, of in answers.items()}
    return {
        method: {} if len(answers[method]) - len(of) > failures * len(answers[method]) else of
        for method, of in kept.items()
    }


def answers(turn: Message) -> bool:
    """True for a turn with an answer, or with reasons for having none. A step of a system has fields instead."""
    return turn.status is Status.OK and (turn.answer is not None or bool(turn.content and not turn.fields))


def scorer(items: Mapping[str, Item], score: Callable[[Item, str | None], Score]) -> Callable[[str, str | None], float]:
    """Makes a function that scores an answer to a question by its id.

    It scores equal answers once: agents repeat each other's, and scoring lists takes long. score: the data set's.
    """
    return cache(lambda question, answer: score(items[question], answer).utility)


def clusters_of(answers: Iterable[Mapping[str, Scored]]) -> dict[str, str]:
    """Returns the cluster of every question, in the ids' order. A question without one is its own."""
    return dict(sorted((id, scored.cluster or id) for of in answers for id, scored in of.items()))


def as_matrix(trials: Sequence[Mapping[str, float]], questions: Sequence[str] = ()) -> Floats:
    """Arranges scores as [trials, questions]. NaN where a trial lacks a question.

    Columns are `questions`, or by default all that any trial has, in the ids' order.
    """
    # Sorted ids give every trial the same columns, so that matrices can be paired and stacked.
    questions = questions or sorted({question for trial in trials for question in trial})
    return np.array([[trial.get(question, math.nan) for question in questions] for trial in trials])


def by_tag(
    utilities: Mapping[str, Mapping[str, float]], tags: Mapping[str, Mapping[str, str]]
) -> dict[str, dict[str, dict[str, Any]]]:
    """Averages over parts of a benchmark: by subject, hop, task or any other tag.

    utilities: by method and question. tags: by question; a value of several, such as `IMG+TXT`, counts as each.
    Returns the number of `questions` and each method's mean `utility`, by tag and value in alphabetical order, without
    tags that have one value only. A mean is over the questions that the method has; there is none without any.
    """
    parts: dict[str, dict[str, list[str]]] = {}
    # Sorted, because records come in the order of completion, which differs between runs.
    for question in sorted(tags):
        for tag, values in tags[question].items():
            # An empty tag value splits into one empty text, which is no group.
            for value in filter(None, values.split("+")):
                parts.setdefault(tag, {}).setdefault(value, []).append(question)
    return {
        tag: {
            value: {
                "questions": len(questions),
                # `fsum` is exact, so that the sum does not depend on the order of its terms.
                "utility": {
                    method: math.fsum(own) / len(own)
                    for method, scores in utilities.items()
                    if (own := [scores[question] for question in questions if question in scores])
                },
            }
            for value, questions in sorted(values.items())
        }
        for tag, values in sorted(parts.items())
        if 1 < len(values) <= MOST_VALUES
    }
