"""Runs' measurements, cut as a paper's table cuts them: a cell for each block of settings, row and column."""

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
    """In the order of the runs. `seed` is of the intervals' and tests' draws. Methods that the table does not name
    come last, under their own names, but for those that another of the experiment's tables has (`elsewhere`)."""
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
    """The model's name; with all that was varied where several blocks have the same."""
    models = [json.loads(key)[0] for key in keys]
    return {
        key: model if models.count(model) == 1 else ", ".join([model, *_settings(json.loads(key)[1])])
        for key, model in zip(keys, models, strict=True)
    }


def _settings(values: Mapping[str, Any]) -> Iterator[str]:
    return (f"{key}={plain(value)}" for key, value in values.items())


def _block(table: Definition, named: Collection[str], label: str, runs: Sequence[Evaluated], seed: int) -> Block:
    others = dict.fromkeys(method for run in runs for method in run.answers if method not in named)
    rows, parts_of = [], {}
    for row in (*table.rows, *(Row(method, method, "not in the paper's table") for method in others)):
        own = [run for run in runs if row.method in run.answers and _under(run, row.values)]
        if own:
            parts = {column.name: _part(table, column, row, own) for column in table.columns}
            cells = tuple(_cell(column, parts, derive_seed(seed, row.key, column.name)) for column in table.columns)
            rows.append((row, cells))
            parts_of[row.key] = own
    return Block(label, tuple(rows), dict(_compared(table, [row for row, _ in rows], parts_of, seed)))


def _under(run: Evaluated, values: Mapping[str, Any]) -> bool:
    """True for a run that had a row's setting: in what was varied, or else in its configuration."""
    if all(key in run.values for key in values):
        return all(run.values[key] == value for key, value in values.items())
    config = read(run.folder.config)
    return all(_setting(config, key) == value for key, value in values.items())


def _setting(config: Any, key: str) -> Any:
    for part in key.split("."):
        config = getattr(config, part, None)
    return config


def _counts(table: Definition, column: Column, run: Evaluated) -> bool:
    data = (column.data,) if column.data else table.data
    of_it = run.data in data or STAND_IN.get(run.data) in data
    return of_it and column.split in ("", run.split)


def _part(table: Definition, column: Column, row: Row, runs: Sequence[Evaluated]) -> Part | None:
    """Of the column's questions in the runs that evaluated its data set; None for means and where there is nothing."""
    of_it = [run for run in runs if not column.mean_of and _counts(table, column, run)]
    questions = sorted({question for run in of_it for question in run.answers[row.method]})
    values = as_matrix([_scores(run, row.method, [column], column.measure) for run in of_it], questions)
    return Part(f"{column.data} {column.split}", values) if values.size and np.isfinite(values).any() else None


def _cell(column: Column, parts: Mapping[str, Part | None], seed: int) -> Cell:
    names = column.mean_of or (column.name,)
    measured = [part for name in names if (part := parts[name]) is not None]
    if len(measured) < len(names):
        return EMPTY
    questions = _together(measured)
    if any(_most(part) < FEWEST for part in measured):
        return Cell(None, None, questions)
    return Cell(sum(part.mean for part in measured) / len(measured), mean_interval(measured, seed), questions)


def _most(part: Part) -> int:
    """Questions of one trial, the most."""
    return int(np.isfinite(part.values).sum(axis=1).max())


def _together(parts: Sequence[Part]) -> int:
    """Questions of one trial that are in any of the parts, over all data sets."""
    total = 0
    for origin in dict.fromkeys(part.origin for part in parts):
        asked = np.array([np.isfinite(part.values) for part in parts if part.origin == origin]).any(axis=0)
        total += int(asked.sum(axis=1).max())
    return total


def _compared(
    table: Definition, rows: Sequence[Row], runs: Mapping[str, Sequence[Evaluated]], seed: int
) -> Iterator[tuple[str, tuple[Comparison, ...]]]:
    """The row `ours` (or else the last that ran) minus each other one over all questions that the table takes of a
    data set, Holm-adjusted within the data set."""
    for data in table.data:
        columns = [column for column in table.columns if column.data == data and column.measure not in COSTS]
        measures = [column.measure for column in columns]
        chosen = "utility" if "utility" in measures else measures[0] if measures else ""
        counted = [column for column in columns if column.measure == chosen]
        trials: list[tuple[Row, list[tuple[int, dict[str, float]]]]] = []
        for row in rows:
            of_data = [run for run in runs[row.key] if any(_counts(table, column, run) for column in counted)]
            scored = [(run.seed, _scores(run, row.method, counted, chosen)) for run in of_data]
            if scored := [(seed, scores) for seed, scores in scored if scores]:
                trials.append((row, scored))
        asked = sorted({question for _, scored in trials for _, scores in scored for question in scores})
        arms = {
            row.key: Arm(
                row.label, {}, tuple(seed for seed, _ in scored), (), as_matrix([of for _, of in scored], asked)
            )
            for row, scored in trials
        }
        if len(arms) > 1:
            ours = table.ours if table.ours in arms else list(arms)[-1]
            pairs = [(arms[ours], arm) for key, arm in arms.items() if key != ours]
            if compared := compare_pairs(pairs, derive_seed(seed, "compared", data)):
                yield data, tuple(compared)


def _scores(run: Evaluated, method: str, columns: Sequence[Column], measure: str) -> dict[str, float]:
    """By question, of those that any of the columns takes."""
    return {
        question: measures[measure]
        for question, (tags, measures) in run.answers[method].items()
        if measure in measures and any(column.takes(tags) for column in columns)
    }
