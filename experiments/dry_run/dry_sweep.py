"""`dry_run=true` of a sweep: counts for each combination of values, and for all trials together."""

import json
from collections.abc import Sequence

from experiments.analysis.result_table import ResultTable, plain, short_keys
from experiments.config.config import Config
from experiments.config.loading import Overrides
from experiments.dry_run.counts import PhaseCounts, RunCounts, short
from experiments.dry_run.dry_run import count_run
from experiments.dry_run.power import power_notes
from experiments.records.progress import Progress
from experiments.sweeps.expansion import Trial, expand, print_unused, rivals

COUNTED = {"turns": "turns", "calls": "calls", "prompt tokens": "prompt", "completion tokens": "completion"}


def dry_run_sweep(config: Config, overrides: Overrides | None = None) -> None:
    """Counts and prints. Starts no process and makes no run folder. Raises UserError for what would end the sweep.

    Seeds draw different questions of the same kind, so the first seed's trial stands for all.
    """
    trials = expand(config)
    print_unused(overrides, config, trials)
    # JSON as a key, because values may be lists, which have no hash.
    by_values: dict[str, list[Trial]] = {}
    for trial in trials:
        by_values.setdefault(json.dumps(trial.values), []).append(trial)
    counted = []
    with Progress() as progress:
        bar = progress.phase("counting", total=len(by_values))
        for alike in by_values.values():
            counted.append((alike[0], count_run(alike[0].plan), len(alike)))
            bar.advance()
    _table(counted, config).print()


def _table(counted: Sequence[tuple[Trial, RunCounts, int]], config: Config) -> ResultTable:
    keys = list(dict.fromkeys(key for trial, _, _ in counted for key in trial.values))

    def row(names: Sequence[str], sums: Sequence[tuple[PhaseCounts, int]]) -> list[str]:
        tokens = [sum(n * getattr(whole, key) for whole, n in sums) for key in COUNTED.values()]
        return [*names, *(f"{number:,.0f}" for number in (sum(n for _, n in sums), *tokens))]

    wholes = [(counts.whole, trials) for _, counts, trials in counted]
    rows = [
        row([plain(trial.values[key]) if key in trial.values else "-" for key in keys], [whole])
        for (trial, _, _), whole in zip(counted, wholes, strict=True)
    ]
    calls, prompt, cached, completion = (
        sum(trials * getattr(whole, key) for whole, trials in wholes)
        for key in ("made", "made_prompt", "cached", "made_completion")
    )
    notes = ["All trials in a row, without any cache; dry_run=true of one trial prints more."]
    if any(counts.judged for _, counts, _ in counted):
        notes.append("The judge is not counted.")
    notes.append(
        f"With caches of each trial alone: {calls:,.0f} calls computed, with {short(prompt)} prompt tokens "
        f"({short(cached)} of them from a prefix cache with room for them) and {short(completion)} completion tokens. "
        "Trials with equal requests share completions, so these are upper bounds."
    )
    for name in ("price", "hours"):
        amounts = [(trials, getattr(counts, name)) for _, counts, trials in counted]
        # A sum without some of the combinations would look like that of all.
        if all(amount for _, amount in amounts):
            expected = sum(trials * amount for trials, amount in amounts)
            notes.append(f"{name.capitalize()} at the given rates: {expected:,.2f} expected.")
    if config.sweep.stop == "asha":
        notes.append("With sweep.stop=asha trials end early: all of these are upper bounds.")
    if config.sweep.planted:
        notes.append("The worlds of sweep.planted ask no model.")
    pairs = rivals(config, [trial.values for trial, _, _ in counted])
    notes += power_notes(config.compare, counted[0][1].clusters, pairs, config.sweep.seeds)
    return ResultTable(
        columns=(
            *map(short_keys(keys).__getitem__, keys),
            "trials",
            "turns",
            "calls",
            "prompt tokens",
            "completion tokens",
        ),
        rows=[*rows, row(["all", *[""] * len(keys)][: len(keys)], wholes)],
        notes=notes,
        names=len(keys),
        total=len(rows),
    )
