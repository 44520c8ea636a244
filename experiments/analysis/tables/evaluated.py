"""Finished runs with their measurements, read from scores.jsonl and judgements.jsonl."""

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
from experiments.judging.rubric import GRADED
from experiments.judging.scenes import similarities
from experiments.metrics.paths import PATH_METRICS
from experiments.metrics.text import strict_exact_match
from experiments.records.recorder import RunFolder
from experiments.records.records import Scored
from experiments.records.trials import TRIALS, TrialResult


@dataclass(frozen=True)
class Evaluated:
    """One finished run: its folder, varied values, seed, model and data. `judge` is "" without judgements, and `right`
    is what it says of a right answer."""

    folder: RunFolder
    values: Mapping[str, Any]
    seed: int
    model: str
    data: str
    split: str
    judge: str = ""
    right: str = GRADED.right

    @staticmethod
    def of(folder: RunFolder, values: Mapping[str, Any], metrics: Mapping[str, Any]) -> Evaluated:
        config, verdicts = read(folder.config), metrics.get("judged", {})
        return Evaluated(
            folder,
            values,
            config.seed,
            metrics["model"],
            metrics["dataset"],
            config.data.split,
            verdicts.get("judge", ""),
            verdicts.get("right", GRADED.right),
        )

    @cached_property
    def answers(self) -> dict[str, dict[str, tuple[Mapping[str, str], Mapping[str, float]]]]:
        """Tags and measures of each answer, by method and question (a group's questions count as one)."""
        # Cached, because every column of every table reads these.
        grades, similar = self._grades(), similarities(self.folder)
        return {
            method: {
                id: (scored.tags, measures_of(scored, grades.get((method, id)), similar.get((method, id))))
                for id, scored in answers.items()
            }
            for method, answers in by_method(self.folder).items()
        }

    def _grades(self) -> dict[tuple[str, str], float]:
        """Grades by method and question: 1 where the judge called the answer correct; for a group, where all are."""
        correct = {(line.method, line.question): float(line.judgement.correct) for line in judged(self.folder)}
        grades: dict[tuple[str, str], float] = {}
        # Judgements do not name groups, scores do; without judgements the file need not be read.
        for scored in self.folder.scores() if correct else ():
            if (scored.method, scored.question) in correct:
                key = scored.method, scored.group or scored.question
                # The least of a group, as `by_question` does with utility.
                grades[key] = min(grades.get(key, 1.0), correct[scored.method, scored.question])
        return grades


def measures_of(scored: Scored, grade: float | None, similarity: float | None = None) -> dict[str, float]:
    """Measures of an answer by the names that columns use.

    Path metrics and the number of paths are there only where paths were followed, `grade` only where a judge gave one,
    and `caption_similarity` only where descriptions were compared with people's.

    `strict_em` is the exact match of MultimodalQA's official script, computed from the answer where it was not
    recorded; that data set's `utility` is the lenient one.
    """
    measures = {name: float(getattr(scored, name)) for name in ("utility", "f1", *COSTS) if name != "tokens"}
    followed = {name: value for name in (*PATH_METRICS, "path_count") if (value := getattr(scored, name)) is not None}
    return {
        **measures,
        **followed,
        **({} if grade is None else {JUDGED: grade}),
        **({} if similarity is None else {"caption_similarity": similarity}),
        "tokens": measures["prompt_tokens"] + measures["completion_tokens"],
        "strict_em": _strict_em(scored) if scored.strict_em is None else scored.strict_em,
    }


def _strict_em(scored: Scored) -> float:
    # No answer is a wrong answer.
    return 0.0 if scored.answer is None else strict_exact_match(scored.answer, scored.gold)


def of_sweep(folder: Path, results: Sequence[TrialResult]) -> list[Evaluated]:
    """The finished trials of a sweep; those stopped early have no evaluation."""
    return [
        Evaluated.of(RunFolder(folder / TRIALS / result.name), result.values, result.metrics)
        for result in results
        if not result.stopped
    ]
