"""Finished runs as tables read them: everything comes from their records, scores.jsonl and judgements.jsonl."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from experiments.analysis.scores import by_method
from experiments.analysis.tables.definition import COSTS, JUDGED
from experiments.config.loading import read
from experiments.judging.judgements import judged
from experiments.metrics.paths import PATH_METRICS
from experiments.metrics.text import strict_exact_match
from experiments.records.recorder import RunFolder
from experiments.records.records import Scored
from experiments.records.trials import TRIALS, TrialResult


@dataclass(frozen=True)
class Evaluated:
    """One finished run: where it lies, what was varied, and what it was of. `judge` is "" where nobody judged."""

    folder: RunFolder
    values: Mapping[str, Any]
    seed: int
    model: str
    data: str
    split: str
    judge: str = ""

    @staticmethod
    def of(folder: RunFolder, values: Mapping[str, Any], metrics: Mapping[str, Any]) -> Evaluated:
        config, judge = read(folder.config), metrics.get("judged", {}).get("judge", "")
        return Evaluated(folder, values, config.seed, metrics["model"], metrics["dataset"], config.data.split, judge)

    @cached_property
    def answers(self) -> dict[str, dict[str, tuple[Mapping[str, str], Mapping[str, float]]]]:
        """By method and question (a group of askings is one): its tags, and all that was measured of the answer."""
        grades = self._grades()
        return {
            method: {id: (scored.tags, measures_of(scored, grades.get((method, id)))) for id, scored in answers.items()}
            for method, answers in by_method(self.folder).items()
        }

    def _grades(self) -> dict[tuple[str, str], float]:
        """By method and question, 1 where the judge called the answer correct; of a group, where all are."""
        correct = {(line.method, line.question): float(line.judgement.correct) for line in judged(self.folder)}
        grades: dict[tuple[str, str], float] = {}
        for scored in self.folder.scores() if correct else ():
            if (scored.method, scored.question) in correct:
                key = scored.method, scored.group or scored.question
                grades[key] = min(grades.get(key, 1.0), correct[scored.method, scored.question])
        return grades


def measures_of(scored: Scored, grade: float | None) -> dict[str, float]:
    """By the names that columns use; paths only where they were followed, a judge's `grade` only where there is one.

    `strict_em` is that of MultimodalQA's official script, which its data set's own metric is not.
    """
    measures = {name: float(getattr(scored, name)) for name in ("utility", "f1", *COSTS) if name != "tokens"}
    followed = {name: value for name in PATH_METRICS if (value := getattr(scored, name)) is not None}
    return {
        **measures,
        **followed,
        **({} if grade is None else {JUDGED: grade}),
        "tokens": measures["prompt_tokens"] + measures["completion_tokens"],
        "strict_em": 0.0 if scored.answer is None else strict_exact_match(scored.answer, scored.gold),
    }


def of_sweep(folder: Path, results: Sequence[TrialResult]) -> list[Evaluated]:
    """Its finished trials."""
    return [
        Evaluated.of(RunFolder(folder / TRIALS / result.name), result.values, result.metrics)
        for result in results
        if not result.stopped
    ]
