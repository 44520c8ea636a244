"""`dry_run=true` of a sweep: counts for each combination of values, and for all trials together."""

from collections.abc import Sequence

from experiments.analysis.result_table import ResultTable, plain, short_keys
from experiments.dry_run.counting import count_run
from experiments.dry_run.counts import PhaseCounts, RunCounts, total
from experiments.dry_run.counts_table import computed_tokens
from experiments.dry_run.power_notes import power_notes
from experiments.records.progress import Progress
from experiments.sweeps.expansion import Sweep

COLUMNS = ("trials", "turns", "calls", "prompt tokens", "completion tokens")


def dry_run_sweep(sweep: Sweep) -> None:
    """Counts and prints. Starts no process and makes no run folder. Raises UserError for what would end the sweep.

    Seeds draw different questions of the same kind, so the first seed's trial is counted for all.
    """
    trials = sweep.combinations
    seeds = sweep.config.sweep.seeds
    run_counts = []
    with Progress() as progress:
        bar = progress.phase("counting", total=len(trials))
        for trial in trials:
            run_counts.append(count_run(trial.plan))
            bar.advance()

    keys = list(dict.fromkeys(key for trial in trials for key in trial.values))
    rows = []
    counts_of_seeds = []
    for trial, counts in zip(trials, run_counts, strict=True):
        of_seeds = counts.total.scaled("", counts.total.discussions * seeds)
        counts_of_seeds.append(of_seeds)
        values = [plain(trial.values[key]) if key in trial.values else "-" for key in keys]
        rows.append([*values, *_cells(of_seeds, seeds)])
    sums = total(counts_of_seeds)
    names = ["all", *[""] * len(keys)][: len(keys)]
    rows.append([*names, *_cells(sums, seeds * len(trials))])

    short_names = short_keys(keys)
    columns = [*(short_names[key] for key in keys), *COLUMNS]
    ResultTable(columns, rows, _notes(sweep, run_counts, sums), names=len(keys), total=len(trials)).print()


def _cells(counts: PhaseCounts, trials: int) -> list[str]:
    return [f"{number:,.0f}" for number in (trials, counts.turns, counts.calls, counts.prompt, counts.completion)]


def _notes(sweep: Sweep, run_counts: Sequence[RunCounts], sums: PhaseCounts) -> list[str]:
    config = sweep.config
    seeds = config.sweep.seeds
    notes = ["All trials in a row, without any cache; dry_run=true of one trial prints more."]
    if any(counts.judge for counts in run_counts):
        notes.append("The judge is not counted.")
    notes.append(
        f"With caches of each trial alone: {sums.computed:,.0f} calls computed, with {computed_tokens(sums)}. "
        "Trials with equal requests share completions, so these are upper bounds."
    )
    for name in ("price", "hours"):
        amounts = [getattr(counts, name) for counts in run_counts]
        # A sum without some of the combinations would look like that of all.
        if all(amounts):
            notes.append(f"{name.capitalize()} at the given rates: {seeds * sum(amounts):,.2f} expected.")
    if config.sweep.stop == "asha":
        notes.append("With sweep.stop=asha trials end early: all of these are upper bounds.")
    if config.sweep.planted:
        notes.append("The worlds of sweep.planted ask no model.")
    pairs = sweep.rivals(trial.values for trial in sweep.combinations)
    notes += power_notes(config.compare, run_counts[0].clusters, pairs, seeds)
    return notes
