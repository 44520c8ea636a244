"""Measures the cells of a paper's table. A block has the rows of one setting."""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import pandas as pd

from actors.messages import derive_seed
from experiments.analysis.compare import Arm, compare_pairs, frozen, merge, trial_arm
from experiments.analysis.grouping import grouped
from experiments.analysis.intervals import Interval, ScoreGroup, mean_interval
from experiments.analysis.result_table import plain
from experiments.analysis.run_facts import Metrics, Settings
from experiments.analysis.run_notes import broken
from experiments.analysis.scores import FinishedRun
from experiments.analysis.tables.paper_table import COSTS, GENERATED, PaperColumn, PaperRow, PaperTable
from experiments.metrics.answer_metrics import strict_exact_match

FEWEST = 5  # questions; a mean of fewer is not shown


def methods_of(run: FinishedRun) -> list[str]:
    """Lists the methods of a run about which anything is concluded."""
    return [method for method in run.answers if method not in broken(run.metrics)]


def has_setting(run: FinishedRun, values: Settings) -> bool:
    """True if the run had a setting. Its varied values come before its configuration."""
    settings = run.values if values.keys() <= run.values.keys() else run.config.by_key
    return values.items() <= settings.items()


def is_of(run: FinishedRun, data: Collection[str]) -> bool:
    """True if the run evaluated one of these data sets, or a generated one in its place."""
    evaluated = run.metrics["dataset"]
    return evaluated in data or GENERATED.get(evaluated) in data


def counts(run: FinishedRun, table: PaperTable, column: PaperColumn) -> bool:
    """True if its questions may count in a column: it is of the column's data set and split."""
    data = (column.data,) if column.data else table.data
    return is_of(run, data) and column.split in ("", run.config.data.split)


def scores_of(
    run: FinishedRun,
    method: str,
    columns: Sequence[PaperColumn],
    measure: str,
) -> pd.Series:
    """Scores by question, for the questions that any of the columns counts and that have the measure.

    measure: a column of `read_scores`. `strict_em` is the exact match of MultimodalQA's official script, computed from
        the answer where it was not recorded; that data set's `utility` is the lenient one.
    """
    answers = run.answers[method]

    def is_counted(tags: Iterable[tuple[str, str]]) -> bool:
        return any(column.takes(dict(tags)) for column in columns)

    answers = answers[[is_counted(tags) for tags in answers["tags"]]]
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
    ci95: Interval | None
    questions: int


@dataclass(frozen=True, slots=True)
class MeasuredRow:
    """Row with the runs that it is measured in, and its cells by the name of the column."""

    paper_row: PaperRow
    runs: Sequence[FinishedRun]
    cells: Mapping[str, MeasuredCell]


@dataclass(frozen=True, slots=True)
class MeasuredBlock:
    """Measurements with one model and setting.

    compared: the row `ours` against each other one, by data set.
    """

    label: str
    rows: Sequence[MeasuredRow]
    compared: Mapping[str, Mapping[str, Metrics]]


def measure(
    table: PaperTable, runs: Sequence[FinishedRun], seed: int, elsewhere: Collection[str] = ()
) -> list[MeasuredBlock]:
    """Measures the blocks of a table, in the order of the runs.

    Methods that the table does not name come last, under their own names, without the ones that another table of
    the experiment names (`elsewhere`). seed: of the draws of intervals and tests.
    """
    # A setting in a row's key tells rows apart and a data set tells columns apart; all others make blocks.
    row_settings = set().union(*(row.values for row in table.rows))

    def block_of(run: FinishedRun) -> str:
        keys = [key for key in run.values if key not in row_settings and not key.startswith("data.")]
        return frozen([run.metrics["model"], {key: run.values[key] for key in keys}])

    blocks = grouped(runs, key=block_of)
    models = [json.loads(key)[0] for key in blocks]
    table_methods = {*elsewhere, *(row.method for row in table.rows)}
    measured_blocks = []
    for key, block_runs in blocks.items():
        # The model's name, with all varied settings where several blocks share a model.
        label, settings = json.loads(key)
        if models.count(label) > 1:
            label = ", ".join([label, *(f"{name}={plain(value)}" for name, value in settings.items())])
        block_seed = derive_seed(seed, "table", table.name, key)
        methods = dict.fromkeys(chain.from_iterable(map(methods_of, block_runs)))
        own_rows = [PaperRow(method, method) for method in methods if method not in table_methods]
        rows = []
        for row in (*table.rows, *own_rows):
            row_runs = [run for run in block_runs if row.method in methods_of(run) and has_setting(run, row.values)]
            # Rows without a run are left out; the notes list them.
            if row_runs:
                rows.append(
                    MeasuredRow(
                        row,
                        row_runs,
                        _cells(
                            table,
                            row,
                            row_runs,
                            seed=block_seed,
                        ),
                    )
                )
        measured_blocks.append(MeasuredBlock(label, rows, _compare(table, rows, block_seed)))
    return measured_blocks


def _cells(
    table: PaperTable,
    row: PaperRow,
    runs: Sequence[FinishedRun],
    seed: int,
) -> dict[str, MeasuredCell]:
    groups = {}
    for column in table.columns:
        group = _group(table, column, row, runs=runs)
        if group is not None:
            groups[column.name] = group
    cells = {}
    for column in table.columns:
        names = column.mean_of or (column.name,)
        cell_groups = [groups[name] for name in names if name in groups]
        # A mean of fewer columns than the paper's would be another measure.
        if len(cell_groups) < len(names):
            cell_groups = []
        cells[column.name] = _cell(cell_groups, derive_seed(seed, row.key, column.name))
    return cells


def _group(
    table: PaperTable,
    column: PaperColumn,
    row: PaperRow,
    runs: Sequence[FinishedRun],
) -> ScoreGroup | None:
    """Scores of a column's questions in the runs of its data set. None for means and without scores."""
    trials = [run for run in runs if not column.mean_of and counts(run, table, column)]
    scores = [scores_of(run, row.method, [column], measure=column.measure) for run in trials]
    if not any(map(len, scores)):
        return None
    # All questions of the data set, not the column's alone: groups of one origin need the same columns.
    clusters = pd.concat([run.answers[row.method]["cluster"] for run in trials]).groupby(level=0).first()
    return ScoreGroup(
        origin=f"{column.data} {column.split}",
        values=pd.DataFrame(scores).reindex(columns=clusters.index).to_numpy(),
        clusters=clusters.to_numpy(),
        bounded=column.measure not in COSTS,
    )


def _cell(groups: Sequence[ScoreGroup], seed: int) -> MeasuredCell:
    """Averages the means of groups. Empty without any, and where one has too few questions."""
    questions = 0
    for alike in grouped(groups, key=lambda group: group.origin).values():
        # A question that counts in several columns (a hop and a modality) is counted once.
        is_asked = np.any([np.isfinite(group.values) for group in alike], axis=0)
        questions += int(is_asked.sum(axis=1).max())
    sizes = [np.isfinite(group.values).sum(axis=1).max() for group in groups]
    if min(sizes, default=0) < FEWEST:
        return MeasuredCell(None, None, questions)
    mean = sum(float(np.nanmean(group.values)) for group in groups) / len(groups)
    return MeasuredCell(mean, mean_interval(groups, seed), questions)


def _compare(table: PaperTable, rows: Sequence[MeasuredRow], seed: int) -> dict[str, dict[str, Metrics]]:
    """Compares the row `ours` with each other one, by data set. The last that ran takes its place.

    Over all questions of the data set that any column counts, Holm-adjusted within the data set.
    """
    compared = {}
    for data in table.data:
        arms = _arms(table, rows, data)
        if len(arms) > 1:
            labels = [row.paper_row.label for row in rows if row.paper_row.key == table.ours]
            ours = next((arm for arm in arms if arm.method in labels), arms[-1])
            all_runs = chain.from_iterable(row.runs for row in rows)
            margin = min(run.config.compare.margin for run in all_runs)
            pairs = [(ours, arm) for arm in arms if arm is not ours]
            tests = compare_pairs(pairs, derive_seed(seed, "compared", data), margin)
            if tests:
                compared[data] = tests
    return compared


def _arms(table: PaperTable, rows: Sequence[MeasuredRow], data: str) -> list[Arm]:
    """Makes an arm for each row with scores on a data set, named after the row."""
    columns = []
    for column in table.columns:
        if column.data in ("", data) and column.measure not in COSTS and not column.mean_of:
            columns.append(column)
    # One measure per data set: more of them would be more tests, and less power for each.
    measures = [column.measure for column in columns]
    compared_measure = "utility" if "utility" in measures else next(iter(measures), "")
    columns = [column for column in columns if column.measure == compared_measure]
    arms = []
    for row in rows:
        for run in row.runs:
            scores = scores_of(run, row.paper_row.method, columns, measure=compared_measure)
            if len(scores) and any(counts(run, table, column) for column in columns):
                clusters = run.answers[row.paper_row.method]["cluster"][scores.index]
                arms.append(trial_arm(row.paper_row.label, {}, run.seed, scores=scores, clusters=clusters))
    return merge(arms)
