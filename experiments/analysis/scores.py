"""Recorded scores by method and question: of finished runs, as matrices of trials, and by parts of a benchmark."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np

from actors.errors import UserError
from actors.messages import Message, Status
from experiments.config.config import Config
from experiments.config.saved import read
from experiments.datasets.item import Item, Score
from experiments.judging.judgements import judged, similarities
from experiments.records.recorder import RunFolder
from experiments.records.records import Scored, by_question
from experiments.records.trials import TRIALS, TrialResult
from topologies.wiring import Floats

Answers = Mapping[str, Mapping[str, Scored]]  # by method and question

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


@dataclass(frozen=True)
class FinishedRun:
    """Finished run, alone or of a sweep. Its records are read when they are first asked for.

    values: the settings that the sweep varied. metrics: the content of metrics.json.
    """

    folder: RunFolder
    values: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    metrics: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def answers(self) -> dict[str, dict[str, Scored]]:
        """Answers `by_method`, without failed ones."""
        return by_method(self.folder)

    @cached_property
    def clusters(self) -> dict[str, str]:
        """Cluster of every question. A question without one is its own."""
        return {id: one.cluster or id for of in self.answers.values() for id, one in of.items()}

    @cached_property
    def config(self) -> Config:
        """Saved configuration. Raises UserError where it is damaged."""
        return read(self.folder.config)

    @cached_property
    def judged(self) -> dict[str, dict[tuple[str, str], float]]:
        """A judge's findings, by measure, then by method and question.

        `acc_star` is 1 for an accepted answer, else 0; of a group the least of its questions, as `by_question` does
        with utility. `caption_similarity` is the share of descriptions that show the same as people's.
        """
        correct = {(line.method, line.question): float(line.judgement.correct) for line in judged(self.folder)}
        grades: dict[tuple[str, str], float] = {}
        # Judgements do not name groups, scores do; without judgements the file need not be read.
        for scored in self.folder.scores() if correct else ():
            if (grade := correct.get((scored.method, scored.question))) is not None:
                key = scored.method, scored.group or scored.question
                grades[key] = min(grades.get(key, 1.0), grade)
        return {"acc_star": grades, "caption_similarity": similarities(self.folder)}


def read_trials(folder: Path, results: Sequence[TrialResult]) -> list[FinishedRun]:
    """Reads the scores of a sweep's finished trials. One that was stopped before its evaluation has none.

    Raises UserError when the records of a trial are missing or damaged.
    """
    trials = [
        FinishedRun(RunFolder(folder / TRIALS / each.name), each.values, each.seed, each.metrics)
        for each in results
        if not each.stopped
    ]
    for trial in trials:
        if lacking := [method for method in trial.metrics.get("methods", ()) if not trial.answers.get(method)]:
            raise UserError(
                f"{trial.folder.path} has no scores of {lacking[0]}: restore its scores.jsonl, or delete its line from "
                "trials.jsonl and resume the sweep"
            )
    return trials


def sound(answers: Answers, failures: float) -> dict[str, dict[str, Scored]]:
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


def as_matrix(trials: Sequence[Mapping[str, float]], questions: Sequence[str]) -> Floats:
    """Arranges scores as [trials, questions]. NaN where a trial lacks a question."""
    return np.array([[trial.get(question, math.nan) for question in questions] for trial in trials])


def by_tag(answers: Answers, tags: Mapping[str, Mapping[str, str]]) -> dict[str, dict[str, dict[str, Any]]]:
    """Averages over parts of a benchmark: by subject, hop, task or any other tag.

    tags: by question; a value of several, such as `IMG+TXT`, counts as each.
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
                    for method, of in answers.items()
                    if (own := [of[question].utility for question in questions if question in of])
                },
            }
            for value, questions in sorted(values.items())
        }
        for tag, values in sorted(parts.items())
        if 1 < len(values) <= MOST_VALUES
    }
