"""A run's scores by method and question, and the scores of several trials as a matrix."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from experiments.records.recorder import RunFolder
from experiments.records.records import Scored, by_question
from experiments.records.usage import EVALUATING, USAGE, Spent, by_phase
from topologies.wiring import Floats


def by_method(run: RunFolder) -> dict[str, dict[str, Scored]]:
    """Every method's answers by question id, in the ids' order; a group's questions count as one (`by_question`)."""
    answers: dict[str, dict[str, Scored]] = {}
    for scored in by_question(run.scores()):
        answers.setdefault(scored.method, {})[scored.question] = scored
    # Records come in the order of completion, which no sum may depend on.
    return {method: dict(sorted(of_method.items())) for method, of_method in answers.items()}


def seconds_per_question(run: RunFolder, answered: Mapping[str, Mapping[str, Scored]]) -> dict[str, float]:
    """By method, of the wall clock, from a run and its answers (`by_method`); NaN where the run did not record it."""
    phases = by_phase(run) if (run.path / USAGE).exists() else {}
    unknown = Spent("", math.nan)
    return {
        method: phases.get(f"{EVALUATING}{method}", unknown).seconds / len(answers)
        for method, answers in answered.items()
    }


def as_matrix(trials: Sequence[Mapping[str, float]], questions: Sequence[str] = ()) -> Floats:
    """Scores by question id as [trials, questions], NaN where a trial lacks a question.

    Columns are the `questions` given, else all that any trial has, in the ids' order.
    """
    # Sorted ids give every trial the same columns, so that matrices can be paired and stacked.
    questions = questions or sorted({question for trial in trials for question in trial})
    return np.array([[trial.get(question, math.nan) for question in questions] for trial in trials])
