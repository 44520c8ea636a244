"""A sweep's table, sweep.json and sweep.csv: a row for each combination of values and each method, over its seeds."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from actors.messages import derive_seed
from experiments.analysis.setting_names import plain, short_keys
from experiments.analysis.statistics import crossed_interval
from experiments.analysis.summary import EMBEDDED, EMBEDDED_NOTE, plain_console, uncut_width
from experiments.records.atomic import write_atomically
from experiments.records.recorder import RunFolder
from experiments.records.records import by_question
from experiments.records.trials import TRIALS, TrialResult

DIGITS = 6
AVERAGED = ("f1", "prompt_tokens", "completion_tokens", "calls", "edges")
# Of runs under attack; a mean over those of the trials that have it.
ATTACKED = ("attack_success", "auc_attacker", "honest_edges_cut")


@dataclass(frozen=True)
class Row:
    """One method under one combination of values: means over `seeds` trials, of which each has a seed.

    `ci95` is of the utility, over questions and seeds. `stopped` counts the trials that ended early, which have no
    evaluation and are in no mean; where all did, there is no method and `means` holds their training utility alone.
    """

    values: Mapping[str, Any]
    method: str
    seeds: int
    stopped: int
    ci95: tuple[float, float] | None
    means: Mapping[str, float]


def rows(folder: Path, results: Sequence[TrialResult], seed: int, over: Collection[str] = ()) -> list[Row]:
    """In the order of the trials and of their methods; those that differ in the keys `over` alone, and in their seed,
    are one row. `seed` is of the intervals' draws."""
    found: dict[str, list[TrialResult]] = {}
    for result in results:
        values = {key: value for key, value in result.values.items() if key not in over}
        found.setdefault(json.dumps(values, sort_keys=True), []).append(result)
    return [row for key, trials in found.items() for row in _rows_of(folder, key, trials, seed)]


def _rows_of(folder: Path, key: str, trials: Sequence[TrialResult], seed: int) -> Iterator[Row]:
    finished = [trial for trial in trials if not trial.stopped]
    stopped = len(trials) - len(finished)
    values = {name: trials[0].values[name] for name in json.loads(key)}
    if not finished:
        yield Row(values, "", 0, stopped, None, {"training_utility": _mean([trial.utility or 0.0 for trial in trials])})
        return
    scores = [utilities(folder, trial) for trial in finished]
    for method in dict.fromkeys(method for trial in finished for method in trial.metrics["methods"]):
        of_method = [trial.metrics["methods"][method] for trial in finished if method in trial.metrics["methods"]]
        asked = [of[method] for of in scores if method in of]
        questions = sorted({question for of in asked for question in of})
        table = np.array([[of.get(question, math.nan) for question in questions] for of in asked])
        low, high = crossed_interval(table, derive_seed(seed, "sweep", key, method))
        means = {"utility": _mean([row["utility"] for row in of_method])}
        for name in (*AVERAGED, *ATTACKED):
            told = [row[name] for row in of_method if row.get(name) is not None]
            if told:
                means[name] = _mean(told)
        yield Row(values, method, len(of_method), stopped, (round(low, DIGITS), round(high, DIGITS)), means)


def utilities(folder: Path, trial: TrialResult) -> dict[str, dict[str, float]]:
    """Of a finished trial, by method and question."""
    found: dict[str, dict[str, float]] = {}
    for scored in by_question(RunFolder(folder / TRIALS / trial.name).scores()):
        found.setdefault(scored.method, {})[scored.question] = scored.utility
    return found


def _mean(values: Sequence[float]) -> float:
    return round(math.fsum(values) / len(values), DIGITS)


def write(folder: Path, table: Sequence[Row], failed: Mapping[str, str], experiment: str) -> None:
    """sweep.json and sweep.csv."""
    told = {"experiment": experiment, "rows": [asdict(row) for row in table], "failed": dict(failed)}
    write_atomically(folder / "sweep.json", (json.dumps(told, indent=2) + "\n").encode())
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    keys, means = _keys(table), _names(table)
    lines.writerow([*keys, "method", "seeds", "stopped", "ci95_low", "ci95_high", *means])
    for row in table:
        values = [plain(row.values[key]) if key in row.values else "" for key in keys]
        low, high = row.ci95 or ("", "")
        told_means = [row.means.get(name, "") for name in means]
        lines.writerow([*values, row.method, row.seeds, row.stopped, low, high, *told_means])
    write_atomically(folder / "sweep.csv", text.getvalue().encode())


def _keys(table: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(key for row in table for key in row.values))


def _names(table: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(name for row in table for name in row.means))


def headers(table: Sequence[Row], metric: str) -> tuple[str, ...]:
    """Of `cells`."""
    keys = _keys(table)
    short = short_keys(keys)
    further = [name.replace("_", " ") for name in ATTACKED if name in _names(table)]
    return (
        *(short[key] for key in keys),
        "method",
        f"{metric} (95% interval)",
        "tokens",
        "edges",
        *further,
        "trials",
    )


def cells(table: Sequence[Row], row: Row) -> tuple[str, ...]:
    values = [plain(row.values[key]) if key in row.values else "-" for key in _keys(table)]
    further = [name for name in ATTACKED if name in _names(table)]
    if row.ci95 is None:
        utility = row.means["training_utility"]
        return (*values, "(all stopped early)", f"{utility:.3f} in training", *[""] * (2 + len(further)), seeds(row))
    low, high = row.ci95
    return (
        *values,
        row.method,
        f"{row.means['utility']:.3f} ({low:.3f}-{high:.3f})",
        f"{row.means['prompt_tokens'] + row.means['completion_tokens']:,.0f}",
        f"{row.means['edges']:,.1f}".removesuffix(".0"),
        *(f"{row.means[name]:.3f}" if name in row.means else "-" for name in further),
        seeds(row),
    )


def seeds(row: Row) -> str:
    return f"{row.seeds}" + (f", {row.stopped} stopped" if row.stopped else "")


def show(table: Sequence[Row], metric: str, model: str, further: Iterable[str] = ()) -> None:
    """Prints the table and what stands below it, with `further` notes."""
    console = plain_console()
    shown = Table(box=None, pad_edge=False, padding=(0, 2), header_style="bold")
    columns = headers(table, metric)
    for name in columns:
        left = name == "method" or columns.index(name) < columns.index("method")
        shown.add_column(name, justify="left" if left else "right", no_wrap=True, vertical="bottom")
    for row in table:
        shown.add_row(*cells(table, row))
    console.width = uncut_width(console, shown)
    console.print()
    console.print(shown)
    console.print()
    notes = ["Tokens are per question; intervals are over questions and seeds, both resampled.", *further]
    if model == EMBEDDED:
        notes.append(EMBEDDED_NOTE)
    for note in notes:
        console.print(note, markup=False, highlight=False)
