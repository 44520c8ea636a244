"""Paired tests of means, their power, and corrections for many comparisons."""

import math
from collections.abc import Iterable, Sequence
from typing import TypedDict

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, stdtr, stdtrit

from experiments.analysis.intervals import (
    DRAWS,
    TAIL,
    Clusters,
    Interval,
    are_few,
    cluster_totals,
    difference_interval,
    numbered,
    question_means,
    tango_z,
)
from topologies.wiring import Floats

TEST_DRAWS = 10_000


class PairedTest(TypedDict):
    """Result of `paired_test`. `difference` is the mean of a - b, with its interval.

    p_value: of the null that the mean difference is 0.
    p_margin: of the null that a is worse than b by the margin or more; twice the one-sided value, so that it has
        the same bound as `p_value`.
    wins, losses: numbers of questions where a scores more, or less; ties count as neither.
    clusters: the number of independent clusters of the n questions.
    """

    difference: float
    ci95: Interval
    p_value: float
    p_margin: float
    n: int
    wins: int
    losses: int
    clusters: int


def paired_test(
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    seed: int,
    draws: int = TEST_DRAWS,
    clusters: Clusters = None,
    margin: float = 0.0,
) -> PairedTest:
    """Two-sided sign-flip test of two methods' scores (n,) on the same questions.

    Under the null the difference of each cluster is as likely to have either sign. p = (1 + draws at least as extreme)
    / (1 + draws), which is valid at any number of draws and never 0. The test against the `margin` is Student's of
    cluster totals, and Tango's where the interval is. Raises ValueError for vectors that do not pair.
    """
    if np.shape(a) != np.shape(b):
        raise ValueError(
            f"a paired test needs the same questions for both methods, not {np.shape(a)} and {np.shape(b)}"
        )
    differences = np.asarray(a, dtype=np.float64) - np.asarray(b, dtype=np.float64)
    sums, _ = cluster_totals(differences, clusters)
    if are_few(differences):
        p_worse = float(ndtr(-tango_z(differences, -margin, clusters)))
    else:
        error, freedom = crossed_error(differences[None], clusters)
        p_worse = float(stdtr(freedom, -(differences.mean() + margin) / error))
    return PairedTest(
        difference=float(differences.mean()),
        ci95=difference_interval(differences, seed, clusters, draws=min(draws, DRAWS)),
        p_value=_sign_flip(sums, differences.sum(), seed, draws=draws),
        p_margin=min(1.0, 2 * p_worse),
        n=len(differences),
        wins=int((differences > 0).sum()),
        losses=int((differences < 0).sum()),
        clusters=len(sums),
    )


def _sign_flip(sums: Floats, total: float, seed: int, draws: int) -> float:
    """P-value of a total of sums (k,), each of which might as well have the other sign."""
    generator = np.random.default_rng(seed)
    # Sums are grouped by size, so the cost grows with distinct sizes and not with questions, as it does in
    # scipy.stats.permutation_test. Rounded: sizes that differ only in floating-point error are one size.
    sizes, counts = np.unique(np.abs(sums[sums != 0]).round(12), return_counts=True)
    flipped = np.zeros(draws)
    for size, count in zip(sizes, counts, strict=True):
        # Flipping the signs of `count` sums of one size gives size * (2 Binomial(count, 1/2) - count).
        flipped += size * (2 * generator.binomial(count, 0.5, size=draws) - count)
    # Totals that differ in their last bit alone are equally extreme.
    extreme = int((np.abs(flipped) >= abs(total) - 1e-9).sum())
    # The observed signs count as one draw, which keeps p above 0.
    return (1 + extreme) / (1 + draws)


def crossed_test(
    differences: npt.ArrayLike,
    seed: int,
    clusters: Clusters = None,
    margin: float = 0.0,
    draws: int = TEST_DRAWS,
) -> PairedTest:
    """Tests the mean of `differences` [trials, questions] of two methods. NaN was not asked.

    Of several trials (training seeds), Student's t test and interval by `crossed_error`: they speak of the methods,
    with other questions and other learned graphs. Where questions hardly differ, it is no less cautious than
    `paired_test` of the questions' means. One trial has that test alone, which speaks of the graph that it learned.
    Raises ValueError when nothing was asked.
    """
    values = np.atleast_2d(np.asarray(differences, dtype=np.float64))
    values = values[np.isfinite(values).any(axis=1)]
    if not len(values):
        raise ValueError("a test needs at least one difference in [trials, questions]")
    means, clusters_asked = question_means(values, clusters)
    test = paired_test(
        means,
        np.zeros_like(means),
        seed,
        draws=draws,
        clusters=clusters_asked,
        margin=margin,
    )
    if len(values) == 1:
        return test
    mean = float(np.nanmean(values))
    error, freedom = crossed_error(values, clusters)
    p_value = _p_beyond(abs(mean), error, freedom)
    p_margin = _p_beyond(mean + margin, error, freedom)
    half = float(stdtrit(freedom, 1 - TAIL)) * error
    low = max(-1.0, mean - half)
    high = min(1.0, mean + half)
    if are_few(means):
        p_value = max(p_value, test["p_value"])
        p_margin = max(p_margin, test["p_margin"])
        low = min(low, test["ci95"][0])
        high = max(high, test["ci95"][1])
    test |= {
        "difference": mean,
        "ci95": (low, high),
        "p_value": p_value,
        "p_margin": min(1.0, p_margin),
    }
    return test


def _p_beyond(distance: float, error: float, freedom: float) -> float:
    """Twice the probability that Student's t is beyond a distance from 0."""
    if error:
        return 2 * float(stdtr(freedom, -distance / error))
    return 1.0 if distance <= 0 else 0.0


def crossed_error(values: Floats, clusters: Clusters = None) -> tuple[float, float]:
    """Standard error of the mean of `values` [trials, questions], and its degrees of freedom. NaN was not asked.

    Trials and clusters of questions vary independently: the variance is that by clusters, plus that by trials, minus
    that by cells, which both count (Cameron, Gelbach and Miller 2011, equation 2.11). Degrees of freedom are
    Satterthwaite's (1946). One trial gives the error over clusters alone, for the graph that it learned.
    """
    finite = np.isfinite(values)
    # Zero for what was not asked: it is in no sum.
    residuals = np.where(finite, values - values[finite].mean(), 0.0)
    places = numbered(clusters, values.shape[1])
    cells = np.array([np.bincount(places, weights=row) for row in residuals])
    trials, count = cells.shape

    def variance(totals: Floats) -> float:
        k = len(totals)
        return float((totals**2).sum() / finite.sum() ** 2 * k / max(1, k - 1))

    by_cluster = variance(cells.sum(axis=0))
    if trials == 1:
        return math.sqrt(by_cluster), max(1, count - 1)
    by_trial = variance(cells.sum(axis=1))
    # Not below either: a difference of estimates can be negative.
    total = max(by_cluster, by_trial, by_cluster + by_trial - variance(cells.ravel()))
    return math.sqrt(total), freedom_of(
        total,
        by_cluster,
        count,
        by_trial=by_trial,
        trials=trials,
    )


def freedom_of(
    total: float,
    by_cluster: float,
    clusters: int,
    by_trial: float,
    trials: int,
) -> float:
    """Satterthwaite's degrees of freedom of a variance, from its parts and their numbers of units."""
    parts = by_cluster**2 / max(1, clusters - 1) + by_trial**2 / max(1, trials - 1)
    return total**2 / parts if parts else 1.0


def least_clusters(tests: int) -> int:
    """Counts the clusters that can show a difference. The least p of a sign-flip test is 2 / 2^n, times `tests`."""
    return math.ceil(1 + math.log2(max(tests, 1) / 0.05))


def holm(p_values: Sequence[float]) -> list[float]:
    """P-values adjusted for the number of tests by Holm's step-down method (1979).

    Calling those below 0.05 significant makes one false claim or more with a probability of at most 0.05, whatever the
    dependence between the tests. Raises ValueError for a value outside [0, 1].
    """
    values = np.asarray(p_values, dtype=np.float64)
    if not ((values >= 0) & (values <= 1)).all():
        raise ValueError(f"p-values lie between 0 and 1, got {p_values}")
    order = np.argsort(values, kind="stable")
    # Never below an earlier one: a larger p-value must not become the smaller of two.
    adjusted = np.maximum.accumulate(np.minimum(1, values[order] * np.arange(len(values), 0, -1)))
    return [float(p) for p in adjusted[np.argsort(order, kind="stable")]]


def known_mean(values: Iterable[float | None]) -> float | None:
    """Mean of the values that are not None. None without any."""
    numbers = [value for value in values if value is not None]
    return float(np.mean(numbers)) if numbers else None
