"""Recorded scores as frames: by method and question, as matrices of trials, and by parts of a benchmark."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import attrgetter
from pathlib import Path
from typing import Any

import pandas as pd

from actors.errors import UserError
from experiments.analysis.arrow_tables import run_tables
from experiments.analysis.intervals import Interval, score_interval
from experiments.analysis.rounding import rounded
from experiments.analysis.run_facts import Metrics, Settings
from experiments.config.config import Config
from experiments.config.saved import read
from experiments.judging.judgements import judgement_records, similarities
from experiments.judging.rubric import CORRECT
from experiments.records.recorder import RunFolder
from experiments.records.trials import RESULTS, TRIALS, TrialResult

Answers = Mapping[str, pd.DataFrame]  # by method: the columns of the users' table `scores`, by question

MOST_VALUES = 20  # values per tag; a tag with more, such as an id or a page title, would fill a report with tiny groups

# Columns of a group that are the least, or the sum, of its questions.
LOWEST = ["utility", "f1", "strict_em", "certified", "acc_star"]
COSTS = ("prompt_tokens", "completion_tokens", "calls", "edges")  # means per question in metrics.json
SUMMED = ["prompt_tokens", "completion_tokens", "calls", "edges", "failed_turns", "cut_turns", "failed_calls", "tokens"]


def read_scores(run: RunFolder) -> pd.DataFrame:
    """Reads the users' table `scores` with further columns. The cluster of a question without one is the question.

    tokens: prompt and completion. asked: the question's group, or the question itself.
    acc_star: 1 for an answer that a judge accepted, else 0.
    caption_similarity: share of the descriptions of pictures that the judge finds the same as people's.
    """
    scores = run_tables(run)["scores"].to_pandas()
    scores["tokens"] = scores["prompt_tokens"] + scores["completion_tokens"]
    scores["asked"] = scores["group"].where(scores["group"] != "", scores["question"])
    scores["cluster"] = scores["cluster"].where(scores["cluster"] != "", scores["asked"])
    answered = list(zip(scores["method"], scores["question"], strict=True))
    shares = similarities(run)
    scores["caption_similarity"] = [shares.get(answer, math.nan) for answer in answered]
    # No merge of frames, which takes longer than all else of a short run.
    accepted = {}
    for record in judgement_records(run):
        grade = record.judgement.grade
        accepted[record.method, record.question] = float(grade is not None and grade >= CORRECT)
    scores["acc_star"] = pd.Series([accepted.get(answer, math.nan) for answer in answered], dtype=float)
    return scores


def read_judgements(run: RunFolder) -> pd.DataFrame:
    """Reads judgements.jsonl: a grade and its costs for each method and question, and `acc_star`, 1 where accepted.

    judge: its digest. The grade of a judgement that failed is NaN.
    """
    names = ("method", "question", "judge", "grade", "calls", "prompt_tokens", "completion_tokens")
    values = attrgetter(*names[:3], *(f"judgement.{name}" for name in names[3:]))
    judgements = pd.DataFrame(map(values, judgement_records(run)), columns=names).astype({"grade": float})
    judgements["acc_star"] = (judgements["grade"] >= CORRECT).astype(float)
    return judgements


def by_method(run: RunFolder, failed: bool = False) -> dict[str, pd.DataFrame]:
    """Reads every method's answers by question, in order. A group's questions count as one.

    That has the lowest score and the summed cost of the questions, and the first one's other columns.

    failed: with those in whose discussion a turn failed, which count in no mean and no comparison.
    """
    scores = read_scores(run).fillna(dict.fromkeys(SUMMED, 0))
    answers = scores.drop_duplicates(["method", "asked"]).set_index(["method", "asked"])
    # Most benchmarks have no groups, and these steps take most of the time.
    if len(answers) < len(scores):
        groups = scores.fillna(dict.fromkeys(LOWEST, -1.0)).groupby(["method", "asked"])
        # The least of some of a group's values may not be the least of all: where one is missing, so is the group's.
        answers[LOWEST] = groups[LOWEST].min().replace(-1.0, math.nan)
        answers[SUMMED] = groups[SUMMED].sum()
    if not failed:
        answers = answers[answers["failed_calls"] == 0]
    # Records come in the order of completion, which no sum may depend on.
    by_name = answers.groupby(level="method", sort=False)
    return {method: rows.droplevel("method").sort_index() for method, rows in by_name}


def sound(answers: Answers, failures: float) -> dict[str, pd.DataFrame]:
    """Leaves out failed questions. A method of which more than the share `failures` failed loses all.

    answers: by method and question, with failed ones.
    """
    sound_answers = {}
    for method, method_answers in answers.items():
        failed = method_answers["failed_calls"] > 0
        conclusive = failed.sum() <= failures * len(failed)
        sound_answers[method] = method_answers[~failed] if conclusive else method_answers[:0]
    return sound_answers


@dataclass(frozen=True)
class FinishedRun:
    """Finished run, alone or of a sweep. Its records are read when they are first asked for.

    values: the settings that the sweep varied. metrics: the content of metrics.json.
    """

    folder: RunFolder
    values: Settings = field(default_factory=dict)
    seed: int = 0
    metrics: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def answers(self) -> dict[str, pd.DataFrame]:
        """Answers `by_method`, without failed ones."""
        return by_method(self.folder)

    @cached_property
    def config(self) -> Config:
        """Saved configuration. Raises UserError where it is damaged."""
        return read(self.folder.config)


def read_trials(folder: Path, results: Sequence[TrialResult]) -> list[FinishedRun]:
    """Reads the scores of a sweep's finished trials. One that was stopped before its evaluation has none.

    Raises UserError when the records of a trial are missing or damaged, or its metrics are not those of its scores.
    """
    trials = []
    for result in results:
        if result.stopped:
            continue
        trial = FinishedRun(
            RunFolder(folder / TRIALS / result.name),
            result.values,
            result.seed,
            metrics=result.metrics,
        )
        for method, row in result.metrics.get("methods", {}).items():
            remedy = "restore its scores.jsonl, or delete its line from trials.jsonl and resume the sweep"
            if method not in trial.answers:
                raise UserError(f"{trial.folder.path} has no scores of {method}: {remedy}")
            for name in ("utility", "f1", *COSTS):
                mean = rounded(trial.answers[method][name].mean())
                if row.get(name, mean) != mean:
                    raise UserError(
                        f"{folder / RESULTS}: {name} of {method} in {result.name} is {row[name]}, and its scores "
                        f"give {mean}; {remedy}"
                    )
        trials.append(trial)
    return trials


def mean_and_interval(answers: pd.DataFrame, seed: int, measure: str = "utility") -> tuple[float, Interval]:
    """Averages a measure of answers. Returns the mean and its 95% interval by clusters of questions. None counts 0."""
    values = answers[measure].fillna(0.0)
    return float(values.mean()), score_interval(values, seed, answers["cluster"])


def by_tag(answers: Answers, tags: Mapping[str, Mapping[str, str]]) -> dict[str, dict[str, Metrics]]:
    """Averages over parts of a benchmark: by subject, hop, task or any other tag.

    tags: by question; a value of several, such as `IMG+TXT`, counts as each.
    Returns the number of `questions` and each method's mean `utility`, by tag and value in alphabetical order, without
    tags that have one value only. A mean is over the questions that the method has; there is none without any.
    """
    parts: dict[str, dict[str, list[str]]] = {}
    for question, question_tags in tags.items():
        for tag, values in question_tags.items():
            # An empty value splits into one empty text, which is no group.
            for value in filter(None, values.split("+")):
                parts.setdefault(tag, {}).setdefault(value, []).append(question)
    # Columns are methods; a question that one of them lacks is NaN there.
    utilities = pd.DataFrame({method: method_answers["utility"] for method, method_answers in answers.items()})
    means: dict[str, dict[str, Metrics]] = {}
    for tag, groups in sorted(parts.items()):
        if 1 < len(groups) <= MOST_VALUES:
            means[tag] = {}
            for value, questions in sorted(groups.items()):
                utility = utilities.reindex(questions).mean().dropna()
                means[tag][value] = {"questions": len(questions), "utility": utility.to_dict()}
    return means
