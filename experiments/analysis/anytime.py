"""Tests that hold whenever one looks: a confidence sequence of paired differences, by betting against each mean."""

import numpy as np
import numpy.typing as npt
import pandas as pd

from experiments.analysis.statistics import Clusters, PairedTest, cluster_totals
from topologies.betting import capitals
from topologies.wiring import Floats

ALPHA = 0.05
MEANS = np.linspace(-1, 1, 2001)  # against which bets are made: an interval is as exact as their distance


def anytime_test(differences: npt.ArrayLike, clusters: Clusters = (), margin: float = 0.0) -> PairedTest:
    """Tests differences from -1 to 1 (n,), which may be looked at after every cluster.

    Bets are on the mean of each cluster, in their order, so the test is of the mean over clusters, each of which counts
    alike. Half of the capital is on a larger mean and half on a smaller one. `ci95` has the means against which it
    never reached 1 / 0.05; p-values are 1 / the largest capital, that of the margin of the bet on a larger mean alone.
    """
    values = np.asarray(differences, dtype=np.float64)
    means = in_order(values, clusters)
    above, below = capitals(means, np.append(MEANS, -margin))
    highest = ((above + below) / 2).max(axis=0)
    mean, kept = float(means.mean()), MEANS[highest[:-1] < 1 / ALPHA]
    return PairedTest(
        difference=mean,
        # Every mean may have been excluded at some time; then the last mean alone is left.
        ci95=(min([mean, *kept]), max([mean, *kept])),
        p_value=float(min(1.0, 1 / highest[len(MEANS) // 2])),
        p_margin=float(min(1.0, 2 / above[:, -1].max())),
        n=len(values),
        wins=int(np.sum(values > 0)),
        losses=int(np.sum(values < 0)),
        clusters=len(means),
    )


def in_order(values: Floats, clusters: Clusters) -> Floats:
    """The mean of each cluster (k,), in the order of their first values (n,)."""
    sums, sizes = cluster_totals(values, pd.factorize(np.asarray(clusters))[0] if len(clusters) else ())
    return sums / sizes
