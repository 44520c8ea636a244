"""Agreement of a run's methods, two by two: how often both, one or neither is right, and the paired test."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

from experiments.analysis.scores import by_method
from experiments.analysis.summary import Metrics, broken, paired_tests, verdicts
from experiments.records.recorder import RunFolder

RIGHT = 1.0  # a lower utility is partly right at most


def agreements(run: RunFolder, metrics: Metrics, seed: int, metric: str) -> list[dict[str, Any]]:
    """Compares all pairs of a run's methods, except those about which nothing is concluded (see `agreement`)."""
    answers = by_method(run)
    concluded = [method for method in metrics["methods"] if method in answers and method not in broken(metrics)]
    utilities = {method: {id: one.utility for id, one in answers[method].items()} for method in concluded}
    # In the order of metrics.json, so that its tests come out the same.
    tested = {tuple(pair.split(" vs ")) for pair in metrics["paired"]}
    pairs = [(b, a) if (b, a) in tested else (a, b) for a, b in combinations(utilities, 2)]
    return agreement(utilities, pairs, seed, metric)


def agreement(
    utilities: Mapping[str, Mapping[str, float]], pairs: Sequence[tuple[str, str]], seed: int, metric: str
) -> list[dict[str, Any]]:
    """Returns for each pair that shares questions its names `a` and `b`, counts of questions, and the `test` in words.

    The counts are `both`, `only_a`, `only_b` and `neither` right. P-values are adjusted for the number of pairs.

    Args:
        utilities: by method and question. metric: the name of the utility.
    """
    tests = paired_tests(utilities, pairs, seed, "paired")
    found = []
    # `verdicts` ends with a line on the correction, where there are several tests.
    for pair, line in zip(tests, verdicts(tests, metric), strict=False):
        a, b = pair.split(" vs ")
        shared = utilities[a].keys() & utilities[b].keys()
        cells = Counter((utilities[a][one] >= RIGHT, utilities[b][one] >= RIGHT) for one in shared)
        counts = {"both": cells[True, True], "only_a": cells[True, False], "only_b": cells[False, True]}
        found.append({"a": a, "b": b, **counts, "neither": cells[False, False], "test": line})
    return found
