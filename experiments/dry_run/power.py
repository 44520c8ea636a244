"""Computes the smallest difference between methods that planned questions and seeds can show."""

from collections.abc import Iterator, Sequence
from pathlib import Path

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
    planned = f"{sum(sizes):,} questions in {len(sizes):,} clusters, {seeds} seed{'s' if seeds > 1 else ''}"
    if compare.variance_from is None:
        stated = Spread(compare.deviation, compare.correlation, compare.graph_deviation)
        least = smallest_difference(stated, sizes, seeds)
        yield (
            f"{WORDS}: {least:.3f} ({planned}; the difference has a standard deviation of {stated.questions:g} between "
            f"questions, a correlation of {stated.correlation:g} in a cluster and a standard deviation of "
            f"{stated.graphs:g} between graphs; compare.variance_from=<run> measures them)."
        )
        return
    trials = sorted((Path(compare.variance_from) / TRIALS).glob("*/scores.jsonl"))
    runs = [RunFolder(trial.parent) for trial in trials] or [RunFolder.open(Path(compare.variance_from))]
    recorded, found = [by_method(run) for run in runs], []
    for pair in pairs:
        # Differences and clusters of their questions, by run.
        differences = []
        for answers in recorded:
            if set(pair) <= answers.keys():
                first, second = (answers[method] for method in pair)
                values = (first["utility"] - second["utility"]).dropna()
                if len(values):
                    differences.append((values.to_numpy(), first["cluster"][values.index].to_numpy()))
        spread = spread_of(differences) if differences else None
        if spread and spread.questions:
            found.append(f"{' and '.join(pair)} {smallest_difference(spread, sizes, seeds):.3f}")
    least_by_pair = ", ".join(found) or "unknown, for the earlier run compares none of the methods"
    yield f"{WORDS}: {least_by_pair} ({planned})."
