"""A sweep's table, sweep.json, sweep.csv and page. A combination of values has a row for each method."""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path
from statistics import fmean
from typing import Any
from urllib.parse import quote

import pandas as pd
from markupsafe import Markup

from actors.messages import derive_seed
from experiments.analysis.compare import (
    KIND,
    UNATTACKED,
    Arm,
    arms_by_method,
    arms_of_trials,
    frozen,
    merge,
    varied,
    without,
)
from experiments.analysis.grouping import grouped
from experiments.analysis.intervals import Interval
from experiments.analysis.page import LABELS, REPORT, Section, figures_section, page
from experiments.analysis.result_table import ResultTable, interval_form, plain, row_cells, short_keys, shown
from experiments.analysis.rounding import rounded
from experiments.analysis.run_facts import EMBEDDED_NOTE, Metrics, Settings, model_notes
from experiments.analysis.scores import read_trials
from experiments.analysis.worst_case import worst_cases
from experiments.records import start
from experiments.records.run_files import write_atomically
from experiments.records.trials import TRIALS, TrialResult

AVERAGED = ["utility", "strict_em", "f1", "prompt_tokens", "completion_tokens", "calls", "edges", "training_tokens"]
# Measured under attack only, so a mean is over the trials that have the value; of the others, over all or none.
ATTACKED = ["attack_success", "attack_retrieved", "auc_attacker", "honest_edges_cut"]
UTILITY = interval_form("utility", "ci95")
ALWAYS = ("tokens", "edges")  # columns that there are without any row that has them
CELLS = {
    "strict EM": ("strict_em", "{strict_em:.3f}|-"),
    "tokens": ("tokens", "{tokens:,.0f}"),
    "training tokens": ("training_tokens", "{training_tokens:,.0f}"),
    "edges": ("edges", "{edges:tenths}"),
    **{name.replace("_", " "): (name, f"{{{name}:.3f}}|-") for name in ATTACKED},
}
TRIAL_COSTS = {"tokens": "{tokens:,.0f}", "edges": "{edges:tenths}", "failed turns": "{failed_turns:,}"}
REACHED = "Worst case: the lowest of all attacks; all its 95% intervals hold at once, over questions and seeds."


@dataclass(frozen=True)
class SweepRow:
    """One method under one combination of values: means over `seeds` trials. Each has its seed.

    ci95: of the utility, over questions and seeds.
    stopped: trials that ended early, which have no evaluation and are in no mean. Where all did, there is no method and
        `means` holds their training utility alone.
    """

    values: Settings
    method: str
    seeds: int
    stopped: int
    ci95: Interval | None
    means: Mapping[str, float]

    @property
    def measures(self) -> Metrics:
        """Returns the means, with the interval and the sum of tokens."""
        tokens = self.means.get("prompt_tokens", 0) + self.means.get("completion_tokens", 0)
        return {**self.means, "ci95": self.ci95, "tokens": tokens}


def sweep_rows(
    trials: Sequence[Arm],
    results: Sequence[TrialResult],
    seed: int,
    over: Collection[str] = (),
) -> list[SweepRow]:
    """Returns the rows of a sweep, in the order of trials and methods.

    Trials that differ only in the keys `over` and in their seed become one row. `seed` is for the intervals' draws.
    trials: the arms of each (`arms_of_trials`).
    """
    arms = grouped(merge(trials, over), key=lambda arm: frozen(arm.values))
    groups = grouped(results, key=lambda result: frozen(without(result.values, over)))
    rows = []
    for key, group in groups.items():
        values = json.loads(key)
        stopped = [result for result in group if result.stopped]
        # Trials that were stopped early have no evaluation, so only their training utility can be shown.
        if len(stopped) == len(group):
            utility = rounded(fmean(result.utility or 0.0 for result in group))
            rows.append(
                SweepRow(
                    values,
                    "",
                    0,
                    stopped=len(stopped),
                    ci95=None,
                    means={"training_utility": utility},
                )
            )
        for arm in arms.get(key, ()):
            low, high = rounded(arm.interval(derive_seed(seed, "sweep", key, arm.method)))
            means = rounded(_means(arm.measures))
            rows.append(
                SweepRow(
                    values,
                    arm.method,
                    len(arm.measures),
                    stopped=len(stopped),
                    ci95=(low, high),
                    means=means,
                )
            )
    return rows


def _means(trials: Sequence[Metrics]) -> dict[str, float]:
    """Averages the measures of trials that all of them have, and those under attack that any has."""
    measures = pd.DataFrame(trials).reindex(columns=AVERAGED + ATTACKED).astype(float)
    means = pd.concat([measures[AVERAGED].mean(skipna=False), measures[ATTACKED].mean()])
    return dict(means.dropna())


def rows_of(folder: Path, results: Sequence[TrialResult], seed: int) -> list[SweepRow]:
    """Reads the rows of some trials of a sweep. Raises UserError as `read_trials`."""
    return sweep_rows(arms_of_trials(read_trials(folder, results)), results, seed)


def write(
    folder: Path,
    rows: Sequence[SweepRow],
    failed: Mapping[str, str],
    experiment: str,
) -> None:
    """Writes sweep.json and sweep.csv."""
    content = {"experiment": experiment, "rows": [asdict(row) for row in rows], "failed": dict(failed)}
    write_atomically(folder / "sweep.json", (json.dumps(content, indent=2) + "\n").encode())

    # Points of a sweep may set different keys. As objects, so that counts stay integers.
    values = []
    for row in rows:
        values.append({key: plain(value) for key, value in row.values.items()})
    settings = pd.DataFrame(values, dtype=object)
    counts = pd.DataFrame(rows, dtype=object)[["method", "seeds", "stopped"]]
    counts[["ci95_low", "ci95_high"]] = [row.ci95 or ("", "") for row in rows]
    means = pd.DataFrame([row.means for row in rows], dtype=object)
    table = pd.concat([settings, counts, means], axis="columns")
    write_atomically(folder / "sweep.csv", table.to_csv(index=False, lineterminator="\n").encode())


def sweep_table(
    rows: Sequence[SweepRow],
    metric: str,
    model: str,
    further: Sequence[str] = (),
) -> ResultTable:
    """Makes the table of the rows. Every key that was varied has a column.

    `further` notes follow its own; the note on the model is printed, and a page has it in its summary.
    """
    keys = list(dict.fromkeys(chain.from_iterable(row.values for row in rows)))
    short = short_keys(keys)
    measures = set().union(*(row.means for row in rows))
    cells = {}
    for header, (measure, form) in CELLS.items():
        if header in ALWAYS or measure in measures:
            cells[header] = form

    body = []
    for row in rows:
        values = [plain(row.values[key]) if key in row.values else "-" for key in keys]
        trials = f"{row.seeds}, {row.stopped} stopped" if row.stopped else f"{row.seeds}"
        if row.ci95 is None:
            # Utility in training is on other questions: it is named as such, and has no interval.
            utility = f"{row.means['training_utility']:.3f} in training"
            body.append((*values, "(all stopped early)", utility, *[""] * len(cells), trials))
        else:
            body.append((*values, row.method, *row_cells([UTILITY, *cells.values()], row.measures), trials))
    return ResultTable(
        columns=(*short.values(), "method", f"{metric} (95% interval)", *cells, "trials"),
        rows=body,
        spare=("strict EM", "training tokens", "trials", "edges"),
        notes=["Tokens are per question; intervals are over questions and seeds, both resampled.", *further],
        brief=model_notes(model),
        names=len(keys) + 1,
    )


def attack_tables(
    arms: Sequence[Arm],
    results: Sequence[TrialResult],
    metric: str,
    seed: int,
) -> list[ResultTable]:
    """Makes a sweep's table of methods by attacks, and of attacks by costs. None unless it varies the attack alone."""
    kinds = list(dict.fromkeys(arm.values.get(KIND) for arm in arms))
    attacks = [kind for kind in kinds if kind not in UNATTACKED]
    trials = {len(arm.utilities) for arm in arms}
    if not attacks or len(arms) != len(arms_by_method(arms)) * len(kinds) or len(trials) > 1:
        return []
    return [_matrix(arms, kinds, metric, seed=seed), _costs(results, attacks)]


def _matrix(arms: Sequence[Arm], kinds: Sequence[Any], metric: str, seed: int) -> ResultTable:
    """Makes a row for each method: its means by attack, and its worst case."""
    by_place = {(arm.method, arm.values.get(KIND)): arm for arm in arms}
    attacks = [kind for kind in kinds if kind not in UNATTACKED]
    questions = pd.concat([arm.utilities for arm in arms]).sort_index(axis="columns").columns
    utilities = []
    for method in arms_by_method(arms):
        utilities.append([by_place[method, kind].utilities.reindex(columns=questions) for kind in attacks])
    worst = worst_cases(utilities, seed, clusters=questions.get_level_values("cluster"))

    rows = {}
    for method, lowest in zip(arms_by_method(arms), worst, strict=True):
        rows[method] = {
            "means": [by_place[method, kind].mean for kind in kinds],
            "worst": lowest.mean,
            "ci95": lowest.ci95,
            "attack": attacks[lowest.attack],
        }
    # By number: a kind may hold any characters.
    cells = {str(kind): f"{{means[{number}]:.3f}}" for number, kind in enumerate(kinds)}
    cells |= {"worst case": interval_form("worst", "ci95"), "by": "{attack}"}
    return ResultTable.of(
        "method",
        rows,
        cells,
        notes=[REACHED],
        title=f"{metric} of methods under attacks",
    )


def _costs(results: Sequence[TrialResult], attacks: Sequence[Any]) -> ResultTable:
    """Makes a row for each attack: what it reaches, and what it costs the attacker."""
    measures = []
    for result in results:
        measures += [{**row, KIND: result.values.get(KIND)} for row in result.metrics["methods"].values()]
    costs = pd.DataFrame(measures).groupby(KIND).max(numeric_only=True).filter(regex="^attack_").reindex(attacks)
    cells = {name.removeprefix("attack_"): f"{{{name}:,.3g}}|-" for name in costs}
    notes = ["The most of all methods and trials; costs are the attacker's, per question."]
    return ResultTable.of(
        "attack",
        costs.to_dict("index"),
        cells,
        notes=notes,
        title="What attacks reach and cost",
    )


def write_sweep_report(folder: Path, sections: Iterable[Section]) -> None:
    """Writes the report of a sweep from its `sweep_sections`."""
    write_atomically(folder / REPORT, page(f"sweep: {folder.name}", sections, ("tables.js",)).encode())


def sweep_sections(
    folder: Path,
    results: Sequence[TrialResult],
    metric: str,
    figures: Sequence[Path],
    settings: ResultTable,
    papers: Sequence[ResultTable] = (),
    attacks: Sequence[ResultTable] = (),
    page_of_trial: str = REPORT,
) -> Iterator[Section]:
    """Yields the sections of a sweep's page. Each trial has a link to its page.

    metric: the name of the data set's utility.
    settings: the sweep's table, a row per setting and method.
    papers: tables in the form of the papers. attacks: the `attack_tables`.
    page_of_trial: the address of a trial's page below its folder.
    """
    axes = varied(results)
    tables = []
    if axes:
        values_by_key = [(key, ", ".join(map(shown, values))) for key, values in axes.items()]
        tables.append(ResultTable(("setting", "values"), values_by_key, title="What was varied"))
    embedded = any(model_notes(result.metrics.get("model", "")) for result in results)
    yield Section(
        "Summary",
        [EMBEDDED_NOTE] if embedded else [],
        _facts(folder, results),
        tables=tables,
    )
    yield Section("Results", tables=[replace(settings, title="Settings and methods")] if settings.rows else [])
    yield Section("Attacks", tables=attacks)
    yield Section("Papers", tables=papers)
    yield figures_section(figures)

    headers = ("trial", *axes, "seed", "method", f"{metric} (95% interval)", *TRIAL_COSTS)
    rows: list[tuple[str, ...]] = []
    for result in results:
        rows += _trial_rows(
            folder,
            result,
            list(axes),
            page_of_trial=page_of_trial,
            columns=len(headers),
        )
    yield Section("Trials", tables=[ResultTable(headers, rows, title=f"{len(results):,} trials")])


def _facts(folder: Path, results: Sequence[TrialResult]) -> dict[str, str]:
    """Sums up a sweep: its models and data sets, seeds, trials and start."""
    facts = {}
    # Trials may differ in model or data set, and one that was stopped early has no metrics.
    for name, label in LABELS.items():
        values = sorted({result.metrics[name] for result in results if name in result.metrics})
        if values:
            facts[label] = ", ".join(values)
    facts["Seeds"] = ", ".join(map(str, sorted({result.seed for result in results})))
    facts["Trials"] = f"{len(results):,}"
    stopped = [result for result in results if result.stopped]
    if stopped:
        facts["Trials"] += f", {len(stopped):,} of them stopped early"
    return facts | start.facts(folder)


def _trial_rows(
    folder: Path, result: TrialResult, axes: Sequence[str], page_of_trial: str, columns: int
) -> Iterator[tuple[str, ...]]:
    """Yields a row for each method of a trial, or one for a trial that was stopped."""
    name = result.name
    if page_of_trial != REPORT or (folder / TRIALS / name / REPORT).exists():
        # Quoted for the address; `format` escapes for the page. A name holds values of settings.
        name = Markup('<a href="{}/{}/{}">{}</a>').format(
            TRIALS,
            quote(name),
            page_of_trial,
            name,
        )
    trial = (name, *(shown(result.values.get(key)) for key in axes), str(result.seed))
    methods = result.metrics.get("methods", {})
    for method, measures in methods.items():
        row = {**measures, "tokens": measures["prompt_tokens"] + measures["completion_tokens"]}
        yield (*trial, method, *row_cells([UTILITY, *TRIAL_COSTS.values()], row))
    if not methods:
        ended = f"stopped after {result.stopped:,} steps" if result.stopped else ""
        # Blank cells up to the width of the table.
        yield (*trial, ended, *[""] * (columns - len(trial) - 1))
