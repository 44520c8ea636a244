"""Measures the cells of a paper's table. A block has the rows of one setting."""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from actors.messages import derive_seed
from experiments.analysis.compare import compare_pairs, merge, trial_arm
from experiments.analysis.intervals import ScoreGroup, mean_interval
from experiments.analysis.result_table import plain
from experiments.analysis.run_facts import Metrics
from experiments.analysis.run_notes import broken
from experiments.analysis.scores import FinishedRun
from experiments.analysis.tables.paper_table import COSTS, GENERATED, PaperColumn, PaperRow, PaperTable
from experiments.metrics.answer_metrics import strict_exact_match

FEWEST = 5  # questions; a mean of fewer is not shown


def methods_of(run: FinishedRun) -> list[str]:
    """Lists the methods of a run about which anything is concluded."""
    return [method for method in run.answers if method not in broken(run.metrics)]


def had(run: FinishedRun, values: Mapping[str, Any]) -> bool:
    """True if the run had a setting. Its varied values come before its configuration."""
    own = run.values if values.keys() <= run.values.keys() else run.config.by_key
    return values.items() <= own.items()


def is_of(run: FinishedRun, data: Collection[str]) -> bool:
    """True if the run evaluated one of these data sets, or a generated one in its place."""
    return not {run.metrics["dataset"], GENERATED.get(run.metrics["dataset"])}.isdisjoint(data)


def counts(run: FinishedRun, table: PaperTable, column: PaperColumn) -> bool:
    """True if its questions may count in a column: it is of the column's data set and split."""
    return is_of(run, (column.data,) if column.data else table.data) and column.split in ("", run.config.data.split)


def scores_of(run: FinishedRun, method: str, columns: Sequence[PaperColumn], measure: str) -> pd.Series:
    """Scores by question, for the questions that any of the columns counts and that have the measure.

    measure: a column of `read_scores`. `strict_em` is the exact match of MultimodalQA's official script, computed from
        the answer where it was not recorded; that data set's `utility` is the lenient one.
    """
    answers = run.answers[method]
    counted = [any(column.takes(dict(tags)) for column in columns) for tags in answers["tags"]]
    answers = answers[counted]
    scores = answers.get(measure, pd.Series()).astype(float)
    if measure == "strict_em":
        for question, answer in answers[scores.isna()].iterrows():
            # No answer is a wrong answer.
            right = not pd.isna(answer["answer"]) and strict_exact_match(answer["answer"], answer["gold"])
            scores[question] = float(right)
    return scores.dropna()


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
    table: PaperTable, runs: Sequence[FinishedRun], seed: int, elsewhere: Collection[str] = ()
) -> list[MeasuredBlock]:
    """Measures the blocks of a table, in the order of the runs.

    Methods that the table does not name come last, under their own names, without the ones that another table of
    the experiment names (`elsewhere`). seed: of the draws of intervals and tests.
    """
    # A setting in a row's key tells rows apart and a data set tells columns apart; all others make blocks.
    fixed = {key for row in table.rows for key in row.values}
    blocks: dict[str, list[FinishedRun]] = {}
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
        others = dict.fromkeys(method for run in own for method in methods_of(run) if method not in named)
        # Rows without a run are left out; the notes list them.
        rows, runs_of = [], {}
        for row in (*table.rows, *(PaperRow(method, method) for method in others)):
            if of_row := [run for run in own if row.method in methods_of(run) and had(run, row.values)]:
                groups = {column.name: _group(table, column, row, of_row) for column in table.columns}
                cells = (_cell(column, groups, derive_seed(drawn, row.key, column.name)) for column in table.columns)
                rows.append((row, tuple(cells)))
                runs_of[row.key] = of_row
        compared = dict(_compared(table, [row for row, _ in rows], runs_of, drawn))
        measured.append(MeasuredBlock(label, tuple(rows), compared))
    return measured


def _group(table: PaperTable, column: PaperColumn, row: PaperRow, runs: Sequence[FinishedRun]) -> ScoreGroup | None:
    """Scores of a column's questions in the runs of its data set. None for means and without scores."""
    trials = [run for run in runs if not column.mean_of and counts(run, table, column)]
    scores = [scores_of(run, row.method, [column], column.measure) for run in trials]
    if not sum(map(len, scores)):
        return None
    # All questions of the data set, not the column's alone: groups of one origin need the same columns.
    clusters = pd.concat([run.answers[row.method]["cluster"] for run in trials]).groupby(level=0).first()
    return ScoreGroup(
        origin=f"{column.data} {column.split}",
        values=pd.DataFrame(scores).reindex(columns=clusters.index).to_numpy(),
        clusters=clusters.to_numpy(),
        bounded=column.measure not in COSTS,
    )


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
    table: PaperTable, rows: Sequence[PaperRow], runs: Mapping[str, Sequence[FinishedRun]], seed: int
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
        trials = []
        for row in rows:
            for run in runs[row.key]:
                scores = scores_of(run, row.method, counted, chosen)
                if len(scores) and any(counts(run, table, column) for column in counted):
                    clusters = run.answers[row.method]["cluster"][scores.index]
                    trials.append(trial_arm(row.label, {}, run.seed, scores, clusters))
        arms = merge(trials)
        if len(arms) > 1:
            label = next((row.label for row in rows if row.key == table.ours), "")
            ours = next((arm for arm in arms if arm.method == label), arms[-1])
            margin = min(run.config.compare.margin for of_row in runs.values() for run in of_row)
            pairs = [(ours, arm) for arm in arms if arm is not ours]
            compared = compare_pairs(pairs, derive_seed(seed, "compared", data), margin)
            if compared:
                yield data, compared
