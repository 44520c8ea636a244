"""Agreement of two methods: how often both, one or neither is right. With the paired test."""

from collections.abc import Collection
from itertools import combinations

import pandas as pd

from experiments.analysis.paired import paired_tests, verdicts
from experiments.analysis.run_facts import Metrics
from experiments.analysis.scores import Answers, by_method, sound
from experiments.records.recorder import RunFolder

RIGHT = 1.0  # a lower utility is partly right at most


def concluded(run: RunFolder, failures: float) -> dict[str, pd.DataFrame]:
    """Reads a run's answers without failed questions, and without methods of which more than `failures` failed."""
    answers = sound(by_method(run, failed=True), failures)
    return {method: method_answers for method, method_answers in answers.items() if len(method_answers)}


def agreement(
    answers: Answers,
    seed: int,
    metric: str,
    margin: float,
    tested: Collection[str] = (),
) -> list[Metrics]:
    """Compares every two methods that share questions. Returns their names `a` and `b`, counts, and the `test` in
    words.

    The counts are questions of which `both`, `only_a`, `only_b` or `neither` is right. P-values are adjusted for the
    number of pairs.

    metric: the name of the utility.
    margin: that of `paired_tests`.
    tested: pairs of metrics.json, as its `a vs b`; they keep their order, and so their p-values.
    """
    pairs = []
    for a, b in combinations(answers, 2):
        pairs.append((b, a) if f"{b} vs {a}" in tested else (a, b))
    tests = paired_tests(answers, pairs, seed, purpose="paired", margin=margin)
    rows = []
    # `verdicts` ends with a line on the correction, where there are several tests.
    for pair, line in zip(tests, verdicts(tests, metric), strict=False):
        a, b = pair.split(" vs ")
        right_a, right_b = (answers[a]["utility"] >= RIGHT).align(answers[b]["utility"] >= RIGHT, join="inner")
        row = {
            "a": a,
            "b": b,
            "both": int((right_a & right_b).sum()),
            "only_a": int((right_a & ~right_b).sum()),
            "only_b": int((~right_a & right_b).sum()),
            "neither": int((~right_a & ~right_b).sum()),
            "test": line,
        }
        rows.append(row)
    return rows
