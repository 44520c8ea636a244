"""`dry_run=true` of a sweep: what each combination of values would take, and all trials together."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from rich.table import Table

from actors.errors import UserError
from experiments.analysis.setting_names import plain, short_keys
from experiments.analysis.summary import plain_console
from experiments.config.config import Config
from experiments.estimate.dry_run import plan_of
from experiments.estimate.plan import Plan
from experiments.records.progress import Progress
from experiments.sweeps.trials import Trial, expand


@dataclass(frozen=True)
class Estimated:
    """One combination of values: the plan of its first seed's trial, and how many trials it has."""

    trial: Trial
    plan: Plan
    trials: int


def dry_run_sweep(config: Config) -> list[Estimated]:
    """Estimates and prints. Starts no process and makes no run folder.

    Seeds draw other questions of the same kind, so one of them stands for all.

    Raises:
        UserError: what would end the sweep as well.
    """
    if config.job != "prune":
        raise UserError(f"job={config.job} cannot be swept; leave sweep out")
    by_values: dict[str, list[Trial]] = {}
    for trial in expand(config):
        by_values.setdefault(json.dumps(trial.values), []).append(trial)
    estimated = []
    with Progress() as progress:
        bar = progress.phase("estimating", total=len(by_values))
        for trials in by_values.values():
            estimated.append(Estimated(trials[0], plan_of(trials[0].config), len(trials)))
            bar.advance()
    _show(estimated)
    return estimated


def _show(estimated: Sequence[Estimated]) -> None:
    keys = list(dict.fromkeys(key for one in estimated for key in one.trial.values))
    short = short_keys(keys)
    shown = Table(box=None, pad_edge=False, padding=(0, 2), header_style="bold")
    for key in keys:
        shown.add_column(short[key])
    for name in ("trials", "turns", "calls", "prompt tokens", "completion tokens"):
        shown.add_column(name, justify="right")
    totals = [0.0] * 5
    for one in estimated:
        whole, n = one.plan.whole, one.trials
        counted = (n, n * whole.turns, n * whole.calls, n * whole.prompt.expected, n * whole.completion)
        totals = [total + count for total, count in zip(totals, counted, strict=True)]
        values = (plain(one.trial.values[key]) if key in one.trial.values else "-" for key in keys)
        shown.add_row(*values, *(f"{count:,.0f}" for count in counted))
    shown.add_row(*["all"][: len(keys)], *[""] * (len(keys) - 1), *(f"{total:,.0f}" for total in totals), style="bold")
    console = plain_console()
    console.print(shown)
    console.print()
    notes = ["Of all trials in a row together, without any cache; of a run alone, dry_run=true tells more."]
    if any(one.plan.judged for one in estimated):
        notes.append("The judge is not counted.")
    if all(one.plan.price for one in estimated):
        price = sum(one.trials * one.plan.price.expected for one in estimated if one.plan.price)
        notes.append(f"Price at the given rates: {price:,.2f} expected.")
    if all(one.plan.hours for one in estimated):
        hours = sum(one.trials * one.plan.hours.expected for one in estimated if one.plan.hours)
        notes.append(f"Hours at the given rates: {hours:,.2f} expected.")
    for note in notes:
        console.print(note, markup=False, highlight=False)
