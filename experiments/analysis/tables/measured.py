"""Measures the cells of a paper's table. A block has the rows of one setting."""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from actors.messages import derive_seed
from experiments.analysis.compare import Arm, compare_pairs
from experiments.analysis.result_table import plain
from experiments.analysis.scores import as_matrix, by_method, clusters_of
from experiments.analysis.statistics import ScoreGroup, mean_interval
from experiments.analysis.summary import Metrics, broken
from experiments.analysis.tables.paper_table import COSTS, GENERATED, JUDGED, PaperColumn, PaperRow, PaperTable
from experiments.config.config import Config
from experiments.config.saved import read
from experiments.judging.judgements import judged, similarities
from experiments.metrics.answer_metrics import PATH_METRICS, strict_exact_match
from experiments.records.recorder import RunFolder
from experiments.records.records import Scored
from experiments.records.trials import TRIALS, TrialResult

FEWEST = 5  # questions; a mean of fewer is not shown


@dataclass(frozen=True)
class Evaluated:
    """A finished run: its folder, what a sweep varied, and its metrics.json."""

    folder: RunFolder
    values: Mapping[str, Any]
    metrics: Mapping[str, Any]

    @staticmethod
    def of_trials(folder: Path, results: Sequence[TrialResult]) -> "list[Evaluated]":
        return [Evaluated(RunFolder(folder / TRIALS / each.name), each.values, each.metrics) for each in results]

    @cached_property
    def config(self) -> Config:
        """The saved configuration. Raises UserError where it is damaged."""
        return read(self.folder.config)

    @cached_property
    def answers(self) -> dict[str, dict[str, tuple[Mapping[str, str], Mapping[str, float]]]]:
        """Tags and measures of each answer, by method and question. A group's questions count as one."""
        # Cached, because every column of every table reads these.
        correct = {(line.method, line.question): float(line.judgement.correct) for line in judged(self.folder)}
        grades: dict[tuple[str, str], float] = {}
        # Judgements do not name groups, scores do; without judgements the file need not be read.
        for scored in self.folder.scores() if correct else ():
            if (scored.method, scored.question) in correct:
                key = scored.method, scored.group or scored.question
                # The least of a group, as `by_question` does with utility.
                grades[key] = min(grades.get(key, 1.0), correct[scored.method, scored.question])
        similar = similarities(self.folder)
        return {
            method: {
                id: (scored.tags, measures_of(scored, grades.get((method, id)), similar.get((method, id))))
                for id, scored in answers.items()
            }
            for method, answers in by_method(self.folder).items()
            if method not in broken(self.metrics)
        }

    @cached_property
    def clusters(self) -> dict[str, str]:
        """The cluster of every question."""
        return clusters_of(by_method(self.folder).values())

    def had(self, values: Mapping[str, Any]) -> bool:
        """True if the run had a setting. Its varied values come before its configuration."""
        varied = all(key in self.values for key in values)
        own = self.values if varied else self.config.by_key
        return all(own.get(key) == value for key, value in values.items())

    def counts(self, table: PaperTable, column: PaperColumn) -> bool:
        """True if its questions may count in a column: it is of the column's data set and split."""
        data = (column.data,) if column.data else table.data
        return self.is_of(data) and column.split in ("", self.config.data.split)

    def scores(self, method: str, columns: Sequence[PaperColumn], measure: str) -> dict[str, float]:
        """Scores by question, for the questions that any of the columns counts."""
        return {
            question: measures[measure]
            for question, (tags, measures) in self.answers[method].items()
            if measure in measures and any(column.takes(tags) for column in columns)
        }

    def is_of(self, data: Collection[str]) -> bool:
        """True if the run evaluated one of these data sets, or a generated one in its place."""
        return not {self.metrics["dataset"], GENERATED.get(self.metrics["dataset"])}.isdisjoint(data)


def measures_of(scored: Scored, grade: float | None, similarity: float | None = None) -> dict[str, float]:
    """Returns the measures of an answer by the names that columns use.

    - Path metrics and the number of paths are there only where paths were followed, `acc_star` only where a judge gave
      a grade, and `caption_similarity` only where descriptions were compared with people's.
    - `strict_em` is the exact match of MultimodalQA's official script, computed from the answer where it was not
      recorded; that data set's `utility` is the lenient one.
    """
    measures = {name: float(getattr(scored, name)) for name in ("utility", "f1", *COSTS)}
    strict = scored.strict_em
    if strict is None:
        # No answer is a wrong answer.
        strict = 0.0 if scored.answer is None else strict_exact_match(scored.answer, scored.gold)
    paths = {name: getattr(scored, name) for name in (*PATH_METRICS, "path_count")}
    optional = {**paths, JUDGED: grade, "caption_similarity": similarity}
    return {**measures, "strict_em": strict, **{name: value for name, value in optional.items() if value is not None}}


@dataclass(frozen=True, slots=True)
class MeasuredCell:
    """One measured figure.

    `mean` and `ci95` are fractions, or counts for costs; None where `questions` (of the trial with the most) are fewer
    than `FEWEST`. A mean of columns counts the questions that are in any of them.
    """

    mean: float | None
    ci95: tuple[float, float] | None
    questions: int


@dataclass(frozen=True, slots=True)
class MeasuredBlock:
    """Measurements with one model and setting: rows with a cell for every column.

    compared: the row `ours` against each other one, by data set.
    """

    label: str
    rows: tuple[tuple[PaperRow, tuple[MeasuredCell, ...]], ...]
    compared: Mapping[str, Mapping[str, Metrics]]


def measure(
    table: PaperTable, runs: Sequence[Evaluated], seed: int, elsewhere: Collection[str] = ()
) -> list[MeasuredBlock]:
    """Measures the blocks of a table, in the order of the runs.

    Methods that the table does not name come last, under their own names, without those that another table of the
    experiment names (`elsewhere`). seed: of the draws of intervals and tests.
    """
    # A setting in a row's key tells rows apart and a data set tells columns apart; all others make blocks.
    fixed = {key for row in table.rows for key in row.values}
    blocks: dict[str, list[Evaluated]] = {}
    for run in runs:
        rest = {k: v for k, v in run.values.items() if k not in fixed and k.partition(".")[0] != "data"}
        blocks.setdefault(json.dumps([run.metrics["model"], rest], sort_keys=True), []).append(run)
    models = [json.loads(key)[0] for key in blocks]
    named = {*elsewhere, *(row.method for row in table.rows)}
    measured = []
    for (key, own), model in zip(blocks.items(), models, strict=True):
        # The model's name, with all varied settings where several blocks share a model.
        settings = [f"{name}={plain(value)}" for name, value in json.loads(key)[1].items()]
        label = model if models.count(model) == 1 else ", ".join([model, *settings])
        drawn = derive_seed(seed, "table", table.name, key)
        others = dict.fromkeys(method for run in own for method in run.answers if method not in named)
        # Rows without a run are left out; the notes list them.
        rows, runs_of = [], {}
        for row in (*table.rows, *(PaperRow(method, method) for method in others)):
            if of_row := [run for run in own if row.method in run.answers and run.had(row.values)]:
                groups = {column.name: _group(table, column, row, of_row) for column in table.columns}
                cells = (_cell(column, groups, derive_seed(drawn, row.key, column.name)) for column in table.columns)
                rows.append((row, tuple(cells)))
                runs_of[row.key] = of_row
        compared = dict(_compared(table, [row for row, _ in rows], runs_of, drawn))
        measured.append(MeasuredBlock(label, tuple(rows), compared))
    return measured


def _group(table: PaperTable, column: PaperColumn, row: PaperRow, runs: Sequence[Evaluated]) -> ScoreGroup | None:
    """Scores of a column's questions in the runs of its data set. None for means and without scores."""
    of_it = [run for run in runs if not column.mean_of and run.counts(table, column)]
    # All questions of the data set, not the column's alone: groups of one origin need the same columns.
    questions = sorted({question for run in of_it for question in run.answers[row.method]})
    values = as_matrix([run.scores(row.method, [column], column.measure) for run in of_it], questions)
    of_questions = {question: cluster for run in of_it for question, cluster in run.clusters.items()}
    clusters, bounded = [of_questions[question] for question in questions], column.measure not in COSTS
    origin = f"{column.data} {column.split}"
    return ScoreGroup(origin, values, clusters, bounded) if np.isfinite(values).any() else None


def _cell(column: PaperColumn, groups: Mapping[str, ScoreGroup | None], seed: int) -> MeasuredCell:
    names = column.mean_of or (column.name,)
    measured = [group for name in names if (group := groups[name]) is not None]
    # A mean of fewer columns than the paper's would be another measure.
    if len(measured) < len(names):
        return MeasuredCell(None, None, 0)
    questions = 0
    for origin in dict.fromkeys(group.origin for group in measured):
        # A question that counts in several columns (a hop and a modality) is counted once.
        asked = np.array([np.isfinite(group.values) for group in measured if group.origin == origin]).any(axis=0)
        questions += int(asked.sum(axis=1).max())
    if any(np.isfinite(group.values).sum(axis=1).max() < FEWEST for group in measured):
        return MeasuredCell(None, None, questions)
    mean = sum(float(np.nanmean(group.values)) for group in measured) / len(measured)
    return MeasuredCell(mean, mean_interval(measured, seed), questions)


def _compared(
    table: PaperTable, rows: Sequence[PaperRow], runs: Mapping[str, Sequence[Evaluated]], seed: int
) -> Iterator[tuple[str, dict[str, Metrics]]]:
    """Compares the row `ours` with each other one, by data set. The last that ran takes its place.

    Over all questions of the data set that any column counts, Holm-adjusted within the data set.
    """
    for data in table.data:
        columns = [column for column in table.columns if column.data == data and column.measure not in COSTS]
        measures = [column.measure for column in columns]
        # One measure per data set: more of them would be more tests, and less power for each.
        chosen = "utility" if "utility" in measures else measures[0] if measures else ""
        counted = [column for column in columns if column.measure == chosen]
        trials: list[tuple[PaperRow, list[tuple[int, dict[str, float]]]]] = []
        for row in rows:
            of_data = [run for run in runs[row.key] if any(run.counts(table, column) for column in counted)]
            by_seed = [(run.config.seed, run.scores(row.method, counted, chosen)) for run in of_data]
            if by_seed := [(seed, scores) for seed, scores in by_seed if scores]:
                trials.append((row, by_seed))
        # The same columns for all rows, as `compare_pairs` expects.
        asked = sorted({question for _, by_seed in trials for _, scores in by_seed for question in scores})
        arms = {}
        for row, by_seed in trials:
            seeds, matrix = tuple(seed for seed, _ in by_seed), as_matrix([scores for _, scores in by_seed], asked)
            clusters = {question: cluster for run in runs[row.key] for question, cluster in run.clusters.items()}
            own = [clusters.get(question, question) for question in asked]
            arms[row.key] = Arm(row.label, {}, seeds, (), (), matrix, own)
        if len(arms) > 1:
            ours = table.ours if table.ours in arms else list(arms)[-1]
            pairs = [(arms[ours], arm) for key, arm in arms.items() if key != ours]
            margin = min(run.config.compare.margin for of_row in runs.values() for run in of_row)
            if compared := compare_pairs(pairs, derive_seed(seed, "compared", data), margin):
                yield data, compared
