"""`dry_run=true` of a sweep: counts for each combination of values, and for all trials together."""

from collections.abc import Iterable, Sequence

from experiments.analysis.result_table import ResultTable, plain, short_keys
from experiments.dry_run.counts import PhaseCounts, RunCounts, short
from experiments.dry_run.dry_run import count_run
from experiments.dry_run.power import power_notes
from experiments.records.progress import Progress
from experiments.sweeps.expansion import Sweep

COUNTED = {"turns": "turns", "calls": "calls", "prompt tokens": "prompt", "completion tokens": "completion"}


def dry_run_sweep(sweep: Sweep) -> None:
    """Counts and prints. Starts no process and makes no run folder. Raises UserError for what would end the sweep.

    Seeds draw different questions of the same kind, so the first seed's trial is counted for all.
    """
    trials, config, counted = sweep.combinations, sweep.config, list[RunCounts]()
    with Progress() as progress:
        bar = progress.phase("counting", total=len(trials))
        for trial in trials:
            counted.append(count_run(trial.plan))
            bar.advance()
    keys, seeds = list(dict.fromkeys(key for trial in trials for key in trial.values)), config.sweep.seeds
    wholes = [counts.whole for counts in counted]

    def sums(names: Iterable[str], of: Sequence[PhaseCounts]) -> list[float]:
        return [seeds * sum(getattr(whole, name) for whole in of) for name in names]

    def row(names: Sequence[str], of: Sequence[PhaseCounts]) -> list[str]:
        return [*names, *(f"{number:,.0f}" for number in (seeds * len(of), *sums(COUNTED.values(), of)))]

    rows = [
        row([plain(trial.values[key]) if key in trial.values else "-" for key in keys], [whole])
        for trial, whole in zip(trials, wholes, strict=True)
    ]
    calls, prompt, cached, completion = sums(("made", "made_prompt", "cached", "made_completion"), wholes)
    notes = ["All trials in a row, without any cache; dry_run=true of one trial prints more."]
    if any(counts.judged for counts in counted):
        notes.append("The judge is not counted.")
    notes.append(
        f"With caches of each trial alone: {calls:,.0f} calls computed, with {short(prompt)} prompt tokens "
        f"({short(cached)} of them from a prefix cache with room for them) and {short(completion)} completion tokens. "
        "Trials with equal requests share completions, so these are upper bounds."
    )
    for name in ("price", "hours"):
        amounts = [getattr(counts, name) for counts in counted]
        # A sum without some of the combinations would look like that of all.
        if all(amounts):
            notes.append(f"{name.capitalize()} at the given rates: {seeds * sum(amounts):,.2f} expected.")
    if config.sweep.stop == "asha":
        notes.append("With sweep.stop=asha trials end early: all of these are upper bounds.")
    if config.sweep.planted:
        notes.append("The worlds of sweep.planted ask no model.")
    pairs = sweep.rivals(trial.values for trial in trials)
    notes += power_notes(config.compare, counted[0].clusters, pairs, seeds)
    columns = (*map(short_keys(keys).__getitem__, keys), "trials", *COUNTED)
    rows.append(row(["all", *[""] * len(keys)][: len(keys)], wholes))
    ResultTable(columns, rows, notes, names=len(keys), total=len(rows) - 1).print()
