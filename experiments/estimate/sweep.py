"""`dry_run=true` of a sweep: an estimate for each combination of values, and for all trials together."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from actors.errors import UserError
from experiments.analysis.setting_names import plain, short_keys
from experiments.analysis.table import Table
from experiments.config.config import Config
from experiments.config.loading import Said
from experiments.config.settings import SweepSettings
from experiments.estimate.dry_run import plan_of
from experiments.estimate.plan import Plan, short
from experiments.records.progress import Progress
from experiments.sweeps.trials import Trial, expand, tell_unused

COUNTED = ("trials", "turns", "calls", "prompt tokens", "completion tokens")


@dataclass(frozen=True)
class Estimated:
    """One combination of values: the plan of its first seed's trial, and the number of its trials."""

    trial: Trial
    plan: Plan
    trials: int


def dry_run_sweep(config: Config, chosen: Said | None = None) -> list[Estimated]:
    """Estimates and prints. Starts no process and makes no run folder.

    Seeds draw other questions of the same kind, so one of them stands for all.

    Raises:
        UserError: what would end the sweep as well.
    """
    if config.job != "prune":
        raise UserError(f"job={config.job} cannot be swept; leave sweep out")
    trials = expand(config)
    tell_unused(chosen, config, trials)
    by_values: dict[str, list[Trial]] = {}
    # JSON as a key, because values may be lists, which cannot be hashed.
    for trial in trials:
        by_values.setdefault(json.dumps(trial.values), []).append(trial)
    estimated = []
    with Progress() as progress:
        bar = progress.phase("estimating", total=len(by_values))
        for alike in by_values.values():
            estimated.append(Estimated(alike[0], plan_of(alike[0].config), len(alike)))
            bar.advance()
    _table(estimated, config.sweep).print()
    return estimated


def _table(estimated: Sequence[Estimated], sweep: SweepSettings) -> Table:
    keys = list(dict.fromkeys(key for estimate in estimated for key in estimate.trial.values))
    rows = []
    totals = [0.0] * len(COUNTED)
    for estimate in estimated:
        whole, n = estimate.plan.whole, estimate.trials
        counted = (n, n * whole.turns, n * whole.calls, n * whole.prompt.expected, n * whole.completion)
        totals = [total + count for total, count in zip(totals, counted, strict=True)]
        values = (plain(estimate.trial.values[key]) if key in estimate.trial.values else "-" for key in keys)
        rows.append((*values, *(f"{count:,.0f}" for count in counted)))
    sum_label = ["all"][: len(keys)] + [""] * (len(keys) - 1)
    notes = ["Of all trials in a row together, without any cache; of a run alone, dry_run=true tells more."]
    if any(estimate.plan.judged for estimate in estimated):
        notes.append("The judge is not counted.")
    made = [(estimate.trials, estimate.plan.made) for estimate in estimated]
    calls, prompt, cached, completion = (
        sum(trials * getattr(of_trial, name) for trials, of_trial in made)
        for name in ("calls", "prompt", "cached", "completion")
    )
    notes.append(
        f"With each trial's own caches: {calls:,.0f} calls made, with {short(prompt)} prompt tokens ({short(cached)} "
        f"of them from a prefix cache with room for them) and {short(completion)} completion tokens; trials that ask "
        "for the same share completions, which makes these upper bounds."
    )
    for name in ("price", "hours"):
        ranges = [(estimate.trials, getattr(estimate.plan, name)) for estimate in estimated]
        # A sum without some of the combinations would look like that of all.
        if all(range for _, range in ranges):
            expected = sum(trials * range.expected for trials, range in ranges)
            notes.append(f"{name.capitalize()} at the given rates: {expected:,.2f} expected.")
    if sweep.stop == "asha":
        notes.append("With sweep.stop=asha trials end early: all of these are upper bounds.")
    return Table(
        columns=(*map(short_keys(keys).__getitem__, keys), *COUNTED),
        rows=[*rows, (*sum_label, *(f"{total:,.0f}" for total in totals))],
        notes=notes,
        names=len(keys),
        total=len(rows),
    )
