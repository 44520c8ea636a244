"""Computes what planned questions can show: differences between methods, and agents that answer probes wrong."""

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pandas as pd

from experiments.analysis.power import Design, Spread, spread_of
from experiments.analysis.scores import by_method
from experiments.config.setting_groups import CompareSettings
from experiments.records.recorder import RunFolder
from experiments.records.trials import TRIALS
from topologies.defences.probes import most_right, probability
from topologies.method import DefenceSettings

WORDS = "Smallest difference that 80% of such studies show, by one test at .05"


def power_notes(
    compare: CompareSettings, sizes: Sequence[int], pairs: Sequence[tuple[str, str]], seeds: int = 1
) -> Iterator[str]:
    """Yields a line for a run, or a sweep's setting, of clusters of these sizes and so many seeds.

    The variance is that of an earlier run or sweep (`compare.variance_from`) for each of the pairs that it has, or else
    as stated. Raises UserError for a folder that is no run.
    """
    plural = "s" if seeds > 1 else ""
    size = f"{sum(sizes):,} questions in {len(sizes):,} clusters, {seeds} seed{plural}"
    if compare.variance_from is None:
        spread = Spread(compare.deviation, compare.correlation, compare.graph_deviation)
        planned = Design(spread, tuple(sizes), seeds)
        difference = planned.smallest_difference()
        yield (
            f"{WORDS}: {_written(difference)} ({size}; the difference has a standard deviation of "
            f"{spread.questions:g} between questions, a correlation of {spread.correlation:g} in a cluster and a "
            f"standard deviation of {spread.graphs:g} between graphs; compare.variance_from=<run> measures them)."
        )
        if compare.stop and math.isfinite(difference):
            yield (
                f"compare.stop shows a difference of {difference:.3f} in {planned.shown_early(difference):.0%} of such "
                "studies: its test holds at every look, and needs more clusters than one test at the end."
            )
        share = planned.not_worse(compare.margin)
        yield (
            f"Of such studies without a difference, {share:.0%} show not worse by compare.margin={compare.margin:g}; "
            f"80% would by {_written(planned.smallest_margin())}."
        )
        return

    earlier = Path(compare.variance_from)
    trials = [RunFolder(scores.parent) for scores in sorted((earlier / TRIALS).glob("*/scores.jsonl"))]
    runs = [by_method(run) for run in trials or [RunFolder.open(earlier)]]
    by_pair = []
    for pair in pairs:
        pair_spread = _pair_spread(runs, *pair)
        if pair_spread and pair_spread.questions:
            design = Design(pair_spread, tuple(sizes), seeds)
            share = design.not_worse(compare.margin)
            by_pair.append(f"{' and '.join(pair)} {_written(design.smallest_difference())} ({share:.0%})")
    differences = ", ".join(by_pair) or "unknown, for the earlier run compares none of the methods"
    yield (
        f"{WORDS}, and in brackets the share of studies without a difference that show not worse by "
        f"compare.margin={compare.margin:g}: {differences} ({size})."
    )


def probe_note(defence: DefenceSettings, probes: int, agents: int) -> str:
    """Writes which agents a guard with so many probes isolates, and how often."""
    right = most_right(probes, agents, defence)
    shares = []
    for part in (0.25, 0.5, 1):
        accuracy = part * defence.least_accuracy
        shares.append(f"{accuracy:.3g} in {probability(right, probes, accuracy):.1%}")
    return (
        f"probes: an agent with at most {right} right answers to {probes:,} questions, one of each document, is "
        f"isolated. With an accuracy of {', '.join(shares)} of runs."
    )


def _written(difference: float) -> str:
    return "none below 1" if math.isinf(difference) else f"{difference:.3f}"


def _pair_spread(runs: Sequence[Mapping[str, pd.DataFrame]], method: str, rival: str) -> Spread | None:
    """Measures how the difference of two methods varies in runs. None if no run has both."""
    differences = []
    for answers in runs:
        if method in answers and rival in answers:
            utilities = (answers[method]["utility"] - answers[rival]["utility"]).dropna()
            clusters = answers[method]["cluster"][utilities.index]
            if len(utilities):
                differences.append((utilities.to_numpy(), clusters.to_numpy()))
    return spread_of(differences) if differences else None
