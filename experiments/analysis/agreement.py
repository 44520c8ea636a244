"""Agreement of two methods: how often both, one or neither is right. With the paired test."""

from collections import Counter
from collections.abc import Collection, Mapping
from itertools import combinations
from typing import Any

from experiments.analysis.scores import by_method, clusters_of, sound
from experiments.analysis.summary import paired_tests, verdicts
from experiments.config.setting_groups import CompareSettings
from experiments.records.recorder import RunFolder

RIGHT = 1.0  # a lower utility is partly right at most

Utilities = dict[str, dict[str, float]]  # by method and question


def concluded(run: RunFolder, failures: float) -> tuple[Utilities, dict[str, str]]:
    """Reads a run's utilities, and its questions' clusters.

    Without failed questions, and without methods of which more than the share `failures` failed.
    """
    kept = sound(by_method(run, failed=True), failures)
    utilities = {method: {id: scored.utility for id, scored in of.items()} for method, of in kept.items() if of}
    return utilities, clusters_of(kept.values())


def agreement(
    utilities: Utilities,
    seed: int,
    metric: str,
    tested: Collection[str] = (),
    margin: float = CompareSettings.margin,
    clusters: Mapping[str, str] | None = None,
) -> list[dict[str, Any]]:
    """Compares every two methods that share questions. Returns their names `a` and `b`, counts, and the `test` in
    words.

    The counts are questions of which `both`, `only_a`, `only_b` or `neither` is right. P-values are adjusted for the
    number of pairs.

    metric: the name of the utility.
    margin, clusters: those of `paired_tests`.
    tested: pairs of metrics.json, as its `a vs b`; they keep their order, and so their p-values.
    """
    pairs = [(b, a) if f"{b} vs {a}" in tested else (a, b) for a, b in combinations(utilities, 2)]
    tests = paired_tests(utilities, pairs, seed, "paired", margin, clusters)
    found = []
    # `verdicts` ends with a line on the correction, where there are several tests.
    for pair, line in zip(tests, verdicts(tests, metric), strict=False):
        a, b = pair.split(" vs ")
        shared = utilities[a].keys() & utilities[b].keys()
        cells = Counter((utilities[a][one] >= RIGHT, utilities[b][one] >= RIGHT) for one in shared)
        counts = {"both": cells[True, True], "only_a": cells[True, False], "only_b": cells[False, True]}
        found.append({"a": a, "b": b, **counts, "neither": cells[False, False], "test": line})
    return found
