"""Evaluations that stop early (`compare.stop`). A run's answers are looked at, with a test that always holds.

The test is a confidence sequence of paired differences, by betting against each mean.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from experiments.analysis.intervals import Clusters, cluster_totals
from experiments.analysis.paired import UNKNOWN, adjusted_tests, verdict
from experiments.analysis.rounding import rounded
from experiments.analysis.run_facts import Metrics
from experiments.analysis.scores import by_method
from experiments.analysis.statistics import PairedTest
from experiments.datasets.clusters import clusters_at_random
from experiments.datasets.item import Dataset, Item, Subset
from experiments.records.recorder import RunFolder
from topologies.betting import capitals

QUESTIONS = 10  # new ones at a look, at least
ALPHA = 0.05
MEANS = np.linspace(-1, 1, 2001)  # against which bets are made: an interval is as exact as their distance


def looks(dataset: Dataset, seed: int) -> list[Subset]:
    """Makes the data set up to each look. Whole clusters of questions come in a random order, by seed."""
    subsets = []
    items: list[Item] = []
    new_questions = 0  # since the last look
    for cluster in clusters_at_random(dataset.evaluate(), seed):
        items += cluster
        new_questions += len(cluster)
        if new_questions >= QUESTIONS:
            subsets.append(Subset(dataset, tuple(items)))
            new_questions = 0
    if new_questions or not subsets:
        subsets.append(Subset(dataset, tuple(items)))
    return subsets


def test_so_far(
    run: RunFolder,
    pair: Sequence[str],
    look: Dataset,
    margin: float,
) -> Metrics | None:
    """Tests two methods on the recorded questions of a look. None without a shared one."""
    answers = by_method(run)
    if not set(pair) <= answers.keys():
        return None
    method, rival = pair
    rival_utility = answers[rival]["utility"].rename("utility_rival")
    scores = answers[method].join(rival_utility, how="inner")
    questions = dict.fromkeys(item.group or item.question.id for item in look.evaluate())
    scores = scores.loc[[question for question in questions if question in scores.index]]
    if scores.empty:
        return None
    differences = scores["utility"] - scores["utility_rival"]
    [test] = adjusted_tests([anytime_test(differences, scores["cluster"], margin)], margin)
    return dict(rounded({**test, "verdict": verdict(test)}))


def reached(run: RunFolder, pair: Sequence[str], look: Dataset, margin: float) -> bool:
    """True if the records up to a look show a verdict."""
    test = test_so_far(run, pair, look, margin=margin)
    return test is not None and bool(test["verdict"] != UNKNOWN)


def summarise(
    run: RunFolder,
    pair: Sequence[str],
    dataset: Dataset,
    seed: int,
    margin: float,
) -> Metrics:
    """Returns the looks for metrics.json: the pair, questions asked and planned, and the test."""
    answers = len([scored for scored in run.scores() if scored.method == pair[0]])
    all_looks = looks(dataset, seed)
    last_look = next((look for look in all_looks if len(look.items) >= answers), all_looks[-1])
    return {
        "pair": list(pair),
        "questions": len(last_look.items),
        "planned": len(all_looks[-1].items),
        "test": test_so_far(run, pair, last_look, margin=margin),
    }


def anytime_test(differences: npt.ArrayLike, clusters: Clusters = None, margin: float = 0.0) -> PairedTest:
    """Tests differences from -1 to 1 (n,). They may be looked at after every cluster.

    Bets are on the mean of each cluster, in their order, so the test is of the mean over clusters, each of which counts
    alike. Half of the capital is on a larger mean and half on a smaller one. `ci95` has the means against which it
    never reached 1 / 0.05; p-values are 1 / the largest capital, that of the margin of the bet on a larger mean alone.
    """
    values = np.asarray(differences, dtype=np.float64)
    # Clusters in the order of their first values.
    numbers = None if clusters is None else pd.factorize(np.asarray(clusters))[0]
    sums, sizes = cluster_totals(values, numbers)
    means = sums / sizes
    above, below = capitals(means, np.append(MEANS, -margin))
    highest = ((above + below) / 2).max(axis=0)
    possible = MEANS[highest[:-1] < 1 / ALPHA]
    mean = float(means.mean())
    # Every mean may have been excluded at some time; then the last mean alone is left.
    means_left = [mean, *possible]
    return PairedTest(
        difference=mean,
        ci95=(min(means_left), max(means_left)),
        p_value=float(min(1.0, 1 / highest[len(MEANS) // 2])),
        p_margin=float(min(1.0, 2 / above[:, -1].max())),
        n=len(values),
        wins=int((values > 0).sum()),
        losses=int((values < 0).sum()),
        clusters=len(means),
    )
