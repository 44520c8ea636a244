"""A sweep's table, sweep.json, sweep.csv and page. A combination of values has a row for each method."""

import json
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pandas as pd
from markupsafe import Markup

from actors.messages import derive_seed
from experiments.analysis.compare import KIND, UNATTACKED, Arm, arms_of_trials, merge, methods_in, varied
from experiments.analysis.page import LABELS, REPORT, Section, page, pictures
from experiments.analysis.result_table import Cell, ResultTable, number, plain, short_keys, shown, tenths, with_interval
from experiments.analysis.scores import read_trials
from experiments.analysis.summary import EMBEDDED_NOTE, model_notes, rounded
from experiments.analysis.worst_case import worst_cases
from experiments.records import start
from experiments.records.run_files import write_atomically
from experiments.records.trials import TRIALS, TrialResult, read_results

AVERAGED = ("strict_em", "f1", "prompt_tokens", "completion_tokens", "calls", "edges", "training_tokens")
# Measured under attack only, so a mean is over the trials that have the value; of the others, over all or none.
ATTACKED = ("attack_success", "attack_retrieved", "auc_attacker", "honest_edges_cut")


@dataclass(frozen=True)
class SweepRow:
    """One method under one combination of values: means over `seeds` trials. Each has its seed.

    ci95: of the utility, over questions and seeds.
    stopped: trials that ended early, which have no evaluation and are in no mean. Where all did, there is no method and
        `means` holds their training utility alone.
    """

    values: Mapping[str, Any]
    method: str
    seeds: int
    stopped: int
    ci95: tuple[float, float] | None
    means: Mapping[str, float]


def sweep_rows(
    trials: Sequence[Arm], results: Sequence[TrialResult], seed: int, over: Collection[str] = ()
) -> list[SweepRow]:
    """Returns the rows of a sweep, in the order of trials and methods.

    Trials that differ only in the keys `over` and in their seed become one row. `seed` is for the intervals' draws.
    trials: the arms of each (`arms_of_trials`).
    """
    arms = {(json.dumps(dict(arm.values), sort_keys=True), arm.method): arm for arm in merge(trials, over)}
    groups: dict[str, tuple[dict[str, Any], list[TrialResult]]] = {}
    for result in results:
        # Sorted, because the order of keys has no meaning. Values can be lists, which cannot be keys.
        values = {key: result.values[key] for key in sorted(result.values) if key not in over}
        groups.setdefault(json.dumps(values, sort_keys=True), (values, []))[1].append(result)
    rows = []
    for key, (values, group) in groups.items():
        finished = [trial for trial in group if not trial.stopped]
        stopped = len(group) - len(finished)
        # Trials that were stopped early have no evaluation, so only their training utility can be shown.
        if not finished:
            utility = rounded(math.fsum(trial.utility or 0.0 for trial in group) / len(group))
            rows.append(SweepRow(values, "", 0, stopped, None, {"training_utility": utility}))
        # In order of first appearance: trials of one row may have evaluated different methods.
        for method in dict.fromkeys(method for trial in finished for method in trial.metrics["methods"]):
            of_method = [trial.metrics["methods"][method] for trial in finished if method in trial.metrics["methods"]]
            low, high = rounded(arms[key, method].interval(derive_seed(seed, "sweep", key, method)))
            means = {}
            for name in ("utility", *AVERAGED, *ATTACKED):
                known = [row[name] for row in of_method if row.get(name) is not None]
                if len(known) == len(of_method) or (known and name in ATTACKED):
                    means[name] = rounded(math.fsum(known) / len(known))
            rows.append(SweepRow(values, method, len(of_method), stopped, (low, high), means))
    return rows


def recorded_rows(folder: Path, seed: int) -> list[SweepRow]:
    """Reads the rows of a sweep, as far as its trials have ended."""
    results = read_results(folder, stopped=True)
    return sweep_rows(arms_of_trials(read_trials(folder, results)), results, seed)


def write(folder: Path, rows: Sequence[SweepRow], failed: Mapping[str, str], experiment: str) -> None:
    """Writes sweep.json and sweep.csv."""
    content = {"experiment": experiment, "rows": [asdict(row) for row in rows], "failed": dict(failed)}
    write_atomically(folder / "sweep.json", (json.dumps(content, indent=2) + "\n").encode())
    keys, means = (dict.fromkeys(chain(*(getattr(row, name) for row in rows))) for name in ("values", "means"))
    header = [*keys, "method", "seeds", "stopped", "ci95_low", "ci95_high", *means]
    lines = []
    for row in rows:
        values, (low, high) = {key: plain(value) for key, value in row.values.items()}, row.ci95 or ("", "")
        counts = {"method": row.method, "seeds": row.seeds, "stopped": row.stopped, "ci95_low": low, "ci95_high": high}
        lines.append({**values, **counts, **row.means})
    # Points of a sweep may set different keys. As objects, so that counts stay integers.
    table = pd.DataFrame(lines, columns=header, dtype=object)
    write_atomically(folder / "sweep.csv", table.to_csv(index=False, lineterminator="\n").encode())


def sweep_table(rows: Sequence[SweepRow], metric: str, model: str, further: Sequence[str] = ()) -> ResultTable:
    """Makes the table of the rows. Every key that was varied has a column.

    `further` notes follow its own; the note on the model is printed, and a page has it in its summary.
    """
    keys = list(dict.fromkeys(key for row in rows for key in row.values))
    short = short_keys(keys)
    known = {name for row in rows for name in row.means}
    measures: dict[str, Cell] = {
        **({"strict EM": number("strict_em", missing="-")} if "strict_em" in known else {}),
        "tokens": lambda means: f"{means['prompt_tokens'] + means['completion_tokens']:,.0f}",
        **({"training tokens": number("training_tokens", ",.0f")} if "training_tokens" in known else {}),
        "edges": lambda means: tenths(means["edges"]),
        **{name.replace("_", " "): number(name, missing="-") for name in ATTACKED if name in known},
    }

    def cells(row: SweepRow) -> Iterator[str]:
        yield from (plain(row.values[key]) if key in row.values else "-" for key in keys)
        if row.ci95 is None:
            # Utility in training is on other questions: it is named as such, and has no interval.
            in_training = f"{row.means['training_utility']:.3f} in training"
            yield from ("(all stopped early)", in_training, *[""] * len(measures))
        else:
            yield from (row.method, with_interval(row.means["utility"], row.ci95))
            yield from (measure(row.means) for measure in measures.values())
        yield f"{row.seeds}" + (f", {row.stopped} stopped" if row.stopped else "")

    notes = ["Tokens are per question; intervals are over questions and seeds, both resampled.", *further]
    return ResultTable(
        columns=(*(short[key] for key in keys), "method", f"{metric} (95% interval)", *measures, "trials"),
        rows=[tuple(cells(row)) for row in rows],
        spare=("strict EM", "training tokens", "trials", "edges"),
        notes=notes,
        brief=model_notes(model),
        names=len(keys) + 1,
    )


def attack_tables(arms: Sequence[Arm], results: Sequence[TrialResult], metric: str, seed: int) -> Iterator[ResultTable]:
    """Yields a sweep's methods by attacks, and its attacks by costs. Nothing unless it varies the attack alone."""
    cells, methods = {(arm.method, arm.values.get(KIND)): arm for arm in arms}, methods_in(arms)
    kinds = list(dict.fromkeys(kind for _, kind in cells))
    attacks = [kind for kind in kinds if kind not in UNATTACKED]
    if not attacks or len(arms) != len(methods) * len(kinds) or len({arm.utilities.shape for arm in arms}) > 1:
        return
    utilities = [[cells[method, kind].utilities for kind in attacks] for method in methods]
    worst = worst_cases(utilities, seed, clusters=arms[0].clusters)
    rows: dict[str, dict[str, Any]] = {
        method: {str(kind): cells[method, kind].mean for kind in kinds} | {"lowest": lowest}
        for method, lowest in zip(methods, worst, strict=True)
    }
    columns: dict[str, Cell] = {str(kind): number(str(kind)) for kind in kinds}
    columns["worst case"] = lambda row: with_interval(row["lowest"].mean, row["lowest"].ci95)
    columns["by"] = lambda row: attacks[row["lowest"].attack]
    notes = ["Worst case: the lowest of all attacks; all its 95% intervals hold at once, over questions and seeds."]
    yield ResultTable.of("method", rows, columns, notes, f"{metric} of methods under attacks")
    costs: dict[str, dict[str, float]] = {kind: {} for kind in attacks}
    for result in (result for result in results if result.values.get(KIND) in costs):
        most = costs[result.values[KIND]]
        for name, value in chain(*(row.items() for row in result.metrics["methods"].values())):
            if name.startswith("attack_") and isinstance(value, (int, float)):
                most[name] = max(value, most.get(name, value))
    columns = {
        name.removeprefix("attack_"): number(name, ",.3g", "-") for name in dict.fromkeys(chain(*costs.values()))
    }
    notes = ["The most of all methods and trials; costs are the attacker's, per question."]
    yield ResultTable.of("attack", costs, columns, notes, "What attacks reach and cost")


def write_sweep_report(folder: Path, sections: Iterable[Section]) -> None:
    """Writes the report of a sweep from its `sweep_sections`."""
    write_atomically(folder / REPORT, page(f"sweep: {folder.name}", sections, ("tables.js",)).encode())


def sweep_sections(
    folder: Path,
    results: Sequence[TrialResult],
    metric: str,
    drawn: Sequence[Path],
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
    # Trials may differ in model or data set, and one that was stopped early has no metrics.
    common = {name: sorted({result.metrics[name] for result in results if name in result.metrics}) for name in LABELS}
    stopped = sum(bool(result.stopped) for result in results)
    facts = {label: ", ".join(common[name]) for name, label in LABELS.items() if common[name]}
    facts["Seeds"] = ", ".join(str(seed) for seed in sorted({result.seed for result in results}))
    facts["Trials"] = f"{len(results):,}" + (f", {stopped:,} of them stopped early" if stopped else "")
    facts |= start.facts(folder)
    axes = varied(results)
    settings_varied = [(key, ", ".join(map(shown, values))) for key, values in axes.items()]
    tables = [ResultTable(("setting", "values"), settings_varied, title="What was varied")] if axes else []
    yield Section("Summary", [EMBEDDED_NOTE] if any(map(model_notes, common["model"])) else [], facts, tables)
    yield Section("Results", tables=[replace(settings, title="Settings and methods")] if settings.rows else [])
    yield Section("Attacks", tables=attacks)
    yield Section("Papers", tables=papers)
    yield Section("Figures", pictures=tuple(pictures(drawn)))
    headers = ("trial", *axes, "seed", "method", f"{metric} (95% interval)", "tokens", "edges", "failed turns")
    rows = []
    for result in results:
        name = result.name
        if page_of_trial != REPORT or (folder / TRIALS / name / REPORT).exists():
            # Quoted for the address; `format` escapes for the page. A name holds values of settings.
            name = Markup('<a href="{}/{}/{}">{}</a>').format(TRIALS, quote(name), page_of_trial, name)
        trial = (name, *(shown(result.values.get(key)) for key in axes), str(result.seed))
        methods = result.metrics.get("methods", {})
        for method, row in methods.items():
            tokens = f"{row['prompt_tokens'] + row['completion_tokens']:,.0f}"
            costs = (tokens, tenths(row["edges"]), f"{row['failed_turns']:,}")
            rows.append((*trial, method, with_interval(row["utility"], row["ci95"]), *costs))
        if not methods:
            ended = f"stopped after {result.stopped:,} steps" if result.stopped else ""
            # Blank cells up to the width of the table.
            rows.append((*trial, ended, *[""] * (len(headers) - len(trial) - 1)))
    yield Section("Trials", tables=[ResultTable(headers, rows, title=f"{len(results):,} trials")])
