"""Runs' measurements in the form of a paper's table: a cell for each block of settings, row and column."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from actors.messages import derive_seed
from experiments.analysis.compare import Arm, Comparison, compare_pairs
from experiments.analysis.scores import as_matrix
from experiments.analysis.setting_names import plain
from experiments.analysis.statistics import Part, mean_interval
from experiments.analysis.tables.definition import COSTS, STAND_IN, Column, Definition, Row
from experiments.analysis.tables.evaluated import Evaluated
from experiments.config.loading import read

FEWEST = 5  # questions; a mean of fewer is not shown


@dataclass(frozen=True, slots=True)
class Cell:
    """One measured figure.

    `mean` and `ci95` are fractions, or counts for costs; None where `questions` (those of one trial, the most) are
    fewer than `FEWEST`. A mean of columns counts the questions that are in any of them.
    """

    mean: float | None
    ci95: tuple[float, float] | None
    questions: int


EMPTY = Cell(None, None, 0)


@dataclass(frozen=True, slots=True)
class Block:
    """Measurements with one model and setting: rows with a cell for every column, and the row `ours` against each
    other one, by data set."""

    label: str
    rows: tuple[tuple[Row, tuple[Cell, ...]], ...]
    compared: Mapping[str, tuple[Comparison, ...]]


def measure(table: Definition, runs: Sequence[Evaluated], seed: int, elsewhere: Collection[str] = ()) -> list[Block]:
    """Blocks of a table, in the order of the runs. `seed` is for the draws of intervals and tests.

    Methods that the table does not name come last, under their own names, except for those that another table of the
    experiment names (`elsewhere`).
    """
    # A setting in a row's key tells rows apart and a data set tells columns apart; all others make blocks.
    fixed = {key for row in table.rows for key in row.values}
    blocks: dict[str, list[Evaluated]] = {}
    for run in runs:
        rest = {k: v for k, v in run.values.items() if k not in fixed and k.partition(".")[0] != "data"}
        blocks.setdefault(json.dumps([run.model, rest], sort_keys=True), []).append(run)
    labels = _labels(list(blocks))
    named = {*elsewhere, *(row.method for row in table.rows)}
    return [
        _block(table, named, labels[key], own, derive_seed(seed, "table", table.name, key))
        for key, own in blocks.items()
    ]


def _labels(keys: Sequence[str]) -> dict[str, str]:
    """Labels of blocks: the model's name, with all varied settings where several blocks share a model."""
    models = [json.loads(key)[0] for key in keys]
    return {
        key: model if models.count(model) == 1 else ", ".join([model, *_settings(json.loads(key)[1])])
        for key, model in zip(keys, models, strict=True)
    }


def _settings(values: Mapping[str, Any]) -> Iterator[str]:
    return (f"{key}={plain(value)}" for key, value in values.items())


def _block(table: Definition, named: Collection[str], label: str, runs: Sequence[Evaluated], seed: int) -> Block:
    others = dict.fromkeys(method for run in runs for method in run.answers if method not in named)
    # Rows without a run are left out; the notes list them.
    rows, runs_of = [], {}
    for row in (*table.rows, *(Row(method, method, "not in the paper's table") for method in others)):
        own = [run for run in runs if row.method in run.answers and _under(run, row.values)]
        if own:
            parts = {column.name: _part(table, column, row, own) for column in table.columns}
            cells = tuple(_cell(column, parts, derive_seed(seed, row.key, column.name)) for column in table.columns)
            rows.append((row, cells))
            runs_of[row.key] = own
    return Block(label, tuple(rows), dict(_compared(table, [row for row, _ in rows], runs_of, seed)))


def _under(run: Evaluated, values: Mapping[str, Any]) -> bool:
    """True if a run had a row's setting, among its varied values or else in its configuration."""
    if all(key in run.values for key in values):
        return all(run.values[key] == value for key, value in values.items())
    # Reads a file, so only where the varied values cannot tell.
    config = read(run.folder.config)
    return all(_setting(config, key) == value for key, value in values.items())


def _setting(config: Any, key: str) -> Any:
    for part in key.split("."):
        # None where the configuration lacks the key.
        config = getattr(config, part, None)
    return config


def _counts(table: Definition, column: Column, run: Evaluated) -> bool:
    data = (column.data,) if column.data else table.data
    of_it = run.data in data or STAND_IN.get(run.data) in data
    return of_it and column.split in ("", run.split)


def _part(table: Definition, column: Column, row: Row, runs: Sequence[Evaluated]) -> Part | None:
    """Scores of a column's questions in the runs of its data set; None for means and where there are none."""
    of_it = [run for run in runs if not column.mean_of and _counts(table, column, run)]
    # All questions of the data set, not the column's alone: parts of one origin need the same columns.
    questions = sorted({question for run in of_it for question in run.answers[row.method]})
    values = as_matrix([_scores(run, row.method, [column], column.measure) for run in of_it], questions)
    return Part(f"{column.data} {column.split}", values) if values.size and np.isfinite(values).any() else None


def _cell(column: Column, parts: Mapping[str, Part | None], seed: int) -> Cell:
    names = column.mean_of or (column.name,)
    measured = [part for name in names if (part := parts[name]) is not None]
    # A mean of fewer columns than the paper's would be another measure.
    if len(measured) < len(names):
        return EMPTY
    questions = _together(measured)
    if any(_most(part) < FEWEST for part in measured):
        return Cell(None, None, questions)
    return Cell(sum(part.mean for part in measured) / len(measured), mean_interval(measured, seed), questions)


def _most(part: Part) -> int:
    """The number of questions of the trial with the most."""
    return int(np.isfinite(part.values).sum(axis=1).max())


def _together(parts: Sequence[Part]) -> int:
    """The number of questions of one trial that are in any of the parts, over all data sets."""
    total = 0
    for origin in dict.fromkeys(part.origin for part in parts):
        # A question that counts in several columns (a hop and a modality) is counted once.
        asked = np.array([np.isfinite(part.values) for part in parts if part.origin == origin]).any(axis=0)
        total += int(asked.sum(axis=1).max())
    return total


def _compared(
    table: Definition, rows: Sequence[Row], runs: Mapping[str, Sequence[Evaluated]], seed: int
) -> Iterator[tuple[str, tuple[Comparison, ...]]]:
    """Comparisons of the row `ours` (or else the last that ran) with each other one, by data set.

    Over all questions of the data set that any column counts, Holm-adjusted within the data set.
    """
    for data in table.data:
        columns = [column for column in table.columns if column.data == data and column.measure not in COSTS]
        measures = [column.measure for column in columns]
        # One measure per data set: more of them would be more tests, and less power for each.
        chosen = "utility" if "utility" in measures else measures[0] if measures else ""
        counted = [column for column in columns if column.measure == chosen]
        trials: list[tuple[Row, list[tuple[int, dict[str, float]]]]] = []
        for row in rows:
            of_data = [run for run in runs[row.key] if any(_counts(table, column, run) for column in counted)]
            by_seed = [(run.seed, _scores(run, row.method, counted, chosen)) for run in of_data]
            if by_seed := [(seed, scores) for seed, scores in by_seed if scores]:
                trials.append((row, by_seed))
        # The same columns for all rows, as `compare_pairs` expects.
        asked = sorted({question for _, by_seed in trials for _, scores in by_seed for question in scores})
        arms = {
            row.key: Arm(
                row.label,
                {},
                tuple(seed for seed, _ in by_seed),
                (),
                (),
                as_matrix([scores for _, scores in by_seed], asked),
            )
            for row, by_seed in trials
        }
        if len(arms) > 1:
            ours = table.ours if table.ours in arms else list(arms)[-1]
            pairs = [(arms[ours], arm) for key, arm in arms.items() if key != ours]
            if compared := compare_pairs(pairs, derive_seed(seed, "compared", data)):
                yield data, tuple(compared)


def _scores(run: Evaluated, method: str, columns: Sequence[Column], measure: str) -> dict[str, float]:
    """Scores by question, for the questions that any of the columns counts."""
    return {
        question: measures[measure]
        for question, (tags, measures) in run.answers[method].items()
        if measure in measures and any(column.takes(tags) for column in columns)
    }
