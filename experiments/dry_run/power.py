"""Computes the smallest difference between methods that planned questions and seeds can show."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pandas as pd

from experiments.analysis.scores import by_method
from experiments.analysis.statistics import Spread, smallest_difference, spread_of
from experiments.config.setting_groups import CompareSettings
from experiments.records.recorder import RunFolder
from experiments.records.trials import TRIALS

WORDS = "Smallest difference that 80% of such studies show, by one test at .05"


def power_notes(
    compare: CompareSettings, sizes: Sequence[int], pairs: Sequence[tuple[str, str]], seeds: int = 1
) -> Iterator[str]:
    """Yields a line for a run, or a sweep's setting, of clusters of these sizes and so many seeds.

    The variance is that of an earlier run or sweep (`compare.variance_from`) for each of the pairs that it has, or else
    as stated. Raises UserError for a folder that is no run.
    """
    plural = "s" if seeds > 1 else ""
    design = f"{sum(sizes):,} questions in {len(sizes):,} clusters, {seeds} seed{plural}"
    if compare.variance_from is None:
        spread = Spread(compare.deviation, compare.correlation, compare.graph_deviation)
        difference = smallest_difference(spread, sizes, seeds)
        yield (
            f"{WORDS}: {difference:.3f} ({design}; the difference has a standard deviation of {spread.questions:g} "
            f"between questions, a correlation of {spread.correlation:g} in a cluster and a standard deviation of "
            f"{spread.graphs:g} between graphs; compare.variance_from=<run> measures them)."
        )
        return

    earlier = Path(compare.variance_from)
    trials = [RunFolder(scores.parent) for scores in sorted((earlier / TRIALS).glob("*/scores.jsonl"))]
    runs = [by_method(run) for run in trials or [RunFolder.open(earlier)]]
    by_pair = []
    for pair in pairs:
        pair_spread = _pair_spread(runs, *pair)
        if pair_spread and pair_spread.questions:
            by_pair.append(f"{' and '.join(pair)} {smallest_difference(pair_spread, sizes, seeds):.3f}")
    differences = ", ".join(by_pair) or "unknown, for the earlier run compares none of the methods"
    yield f"{WORDS}: {differences} ({design})."


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
