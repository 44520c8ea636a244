"""95% intervals of means: bootstrap intervals, of clusters and of several trials; score intervals of rare values."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri, stdtrit  # not scipy.stats, whose import takes a fifth of the program's start

from experiments.analysis.grouping import grouped
from topologies.wiring import Floats

Interval = tuple[float, float]
Integers = npt.NDArray[np.int64]
Clusters = npt.ArrayLike | None  # of each value; values of one cluster share a document. None: each value is its own

TAIL = (1 - 0.95) / 2  # outside of an interval, at each side
Z = float(ndtri(1 - TAIL))
FEWEST = 10  # values that differ from the commonest one, for a bootstrap
DRAWS = 2000
# The assumed correlation of rare values within a cluster, which they are too few to show. TAT-QA's is .142, and rare
# values correlate less: of an outcome with probability .02, whose latent scores correlate by .5, it is .16.
RARE = 0.15


def numbered(clusters: Clusters, n: int) -> Integers:
    """Numbers the clusters of n values (n,) from 0, in their order."""
    names = np.arange(n) if clusters is None else np.asarray(clusters)
    return np.unique(names, return_inverse=True)[1]


def cluster_totals(values: Floats, clusters: Clusters = None) -> tuple[Floats, Floats]:
    """Sums `values` (n,) by cluster (k,), and counts them."""
    places = numbered(clusters, len(values))
    return np.bincount(places, weights=values).astype(np.float64), np.bincount(places).astype(np.float64)


def bootstrap_interval(
    values: npt.ArrayLike,
    seed: int,
    draws: int = DRAWS,
    clusters: Clusters = None,
) -> Interval:
    """95% percentile bootstrap interval of the mean of `values` (n,).

    The order of `values` does not matter, and values that are all equal give an interval of no width. From few values
    the interval is too narrow: of nine normal ones it covers the mean in .90 of all cases, of five in .85.

    clusters: the cluster of each value. Whole clusters are drawn, and the percentiles are as far out as Student's t is
        from the normal distribution (Hesterberg 2015, section 4.1): clusters are few where values are many.

    Raises ValueError for no values.
    """
    scores = np.asarray(values, dtype=np.float64)
    if scores.ndim != 1 or not len(scores):
        raise ValueError(f"an interval needs a vector of at least one value, not shape {scores.shape}")
    sums, sizes = cluster_totals(scores, clusters)
    # Resampling with replacement is a multinomial draw over the distinct values, so scores of 0 and 1 cost two counts
    # per draw. scipy.stats.bootstrap draws value by value: 400 times slower at 3,000 questions.
    # `unique` also sorts, so that the draws do not depend on the order of the values: by sum, then by size.
    distinct, counts = np.unique(sums + 1j * sizes, return_counts=True)
    weights = np.random.default_rng(seed).multinomial(len(sums), counts / len(sums), size=draws)
    means = weights @ distinct.real / (weights @ distinct.imag)
    return _percentiles(means, tail(len(sums), len(scores)))


def _percentiles(means: Floats, outside: float) -> Interval:
    """Ends of the interval that leaves out a share of the drawn means at each side."""
    low, high = np.quantile(means, [outside, 1 - outside])
    return float(low), float(high)


def tail(clusters: int, values: int) -> float:
    """Share of draws that an interval leaves out at each side."""
    if clusters in (1, values):
        return TAIL
    return float(ndtr(-math.sqrt(clusters / (clusters - 1)) * stdtrit(clusters - 1, 1 - TAIL)))


def are_few(values: Floats) -> bool:
    """True for values that are nearly all the same, of which the bootstrap sees too little of the distribution."""
    # Rounded: values that differ in floating-point error alone are one.
    commonest = int(np.unique(values.round(12), return_counts=True)[1].max())
    return len(values) - commonest < FEWEST


def _effective_number(values: Floats, clusters: Clusters) -> float:
    """Effective number of values (n,): n over the design effect of Kish (1965). The correlation is `RARE`."""
    _, sizes = cluster_totals(values, clusters)
    return float(len(values) / (1 + ((sizes**2).sum() / len(values) - 1) * RARE))


def score_interval(values: npt.ArrayLike, seed: int, clusters: Clusters = None) -> Interval:
    """95% interval of the mean of scores from 0 to 1 (n,), few or many. It is `bootstrap_interval`, or Wilson's.

    Wilson's score interval (1927), of the effective number of values, takes its place where fewer than `FEWEST` values
    differ from the commonest one: the bootstrap then sees too little of the distribution. Of scores between 0 and 1 it
    is too wide.
    """
    scores = np.asarray(values, dtype=np.float64)
    if not len(scores) or not are_few(scores):
        return bootstrap_interval(scores, seed, clusters=clusters)
    n = _effective_number(scores, clusters)
    mean = float(scores.mean())
    centre = mean + Z**2 / (2 * n)
    half = Z * math.sqrt(mean * (1 - mean) / n + (Z / (2 * n)) ** 2)
    low = (centre - half) / (1 + Z**2 / n)
    high = (centre + half) / (1 + Z**2 / n)
    # The bounds of 0 and of 1 are exact.
    if mean == 0:
        low = 0.0
    if mean == 1:
        high = 1.0
    return low, high


def difference_interval(
    values: npt.ArrayLike,
    seed: int,
    clusters: Clusters = None,
    draws: int = DRAWS,
) -> Interval:
    """95% interval of the mean of paired differences from -1 to 1 (n,). It is `bootstrap_interval`, or Tango's.

    Tango's score interval (1998) takes its place where fewer than `FEWEST` values differ from the commonest one, as for
    `score_interval`: that a hundred differences are 0 shows no more than that the mean is within
    0.037.
    """
    differences = np.asarray(values, dtype=np.float64)
    if not len(differences) or not are_few(differences):
        return bootstrap_interval(differences, seed, draws=draws, clusters=clusters)

    def bound(z: float, side: float) -> float:
        # The statistic falls as the mean rises. It has no crossing where even the outermost mean is in the interval.
        if abs(tango_z(differences, side * (1 - 1e-9), clusters)) <= Z:
            return side
        return float(brentq(lambda mean: tango_z(differences, mean, clusters) - z, -1 + 1e-9, 1 - 1e-9))

    return bound(Z, -1.0), bound(-Z, 1.0)


def tango_z(differences: Floats, mean: float, clusters: Clusters = None) -> float:
    """Tango's score statistic (1998) of paired differences from -1 to 1 (n,). Under the null their mean is `mean`.

    Differences between -1 and 1 count in parts as wins or losses; n is the effective number of `score_interval`.
    """
    n = _effective_number(differences, clusters)
    wins = n * float(np.maximum(differences, 0).mean())
    losses = n * float(np.maximum(-differences, 0).mean())
    # The most likely probability of a loss under the null, the larger root of a quadratic equation.
    b = -wins - losses + (2 * n - wins + losses) * mean
    c = -losses * mean * (1 - mean)
    loss = (math.sqrt(max(0.0, b * b - 8 * n * c)) - b) / (4 * n)
    variance = n * (2 * loss + mean * (1 - mean))
    return (wins - losses - n * mean) / math.sqrt(max(variance, 1e-12))


def crossed_interval(
    values: npt.ArrayLike,
    seed: int,
    draws: int = DRAWS,
    clusters: Clusters = None,
) -> Interval:
    """95% bootstrap interval of the mean of scores from 0 to 1. `values` are [trials, questions].

    A value is NaN where a trial did not ask a question. Questions and trials (seeds, an attacker's positions) are
    resampled independently of each other (the pigeonhole bootstrap, Owen 2007): what a trial learned is shared by all
    its questions, so resampling seeds within each question would average it away. It counts noise of one trial and
    question more than once, so it errs to the wide side. From few trials it underestimates the differences between them
    by the factor sqrt(1 - 1 / trials); one trial gives an interval over questions alone. Questions of a cluster are
    drawn together. Where the scores hardly vary, the interval also covers that of `score_interval`.
    Raises ValueError when nothing was asked.
    """
    scores = np.atleast_2d(np.asarray(values, dtype=np.float64))
    # A question that no trial asked has no part in the draws.
    counts = np.isfinite(scores).any(axis=0)
    if scores.ndim != 2 or not counts.any():
        raise ValueError(f"an interval needs at least one value in [trials, questions], not shape {scores.shape}")
    places = numbered(clusters, scores.shape[1])[counts]
    return mean_interval(
        [
            ScoreGroup(
                "",
                scores[:, counts],
                places,
                bounded=True,
            )
        ],
        seed,
        draws,
    )


@dataclass(frozen=True, slots=True)
class ScoreGroup:
    """Scores `values` [trials, questions] that are averaged first. NaN where a question does not count.

    Groups with the same `origin` have the same trials, questions and `clusters` of questions in the same places, other
    groups share none. `bounded`: they lie between 0 and 1.
    """

    origin: str
    values: Floats
    clusters: Clusters = None
    bounded: bool = False


def resampled(
    trials: int, questions: int, clusters: Clusters, generator: np.random.Generator, draws: int
) -> tuple[Integers, Integers, int]:
    """Draws how often each trial [draws, trials] and question [draws, questions] counts. The third value is the number
    of clusters.

    A question is drawn as often as its cluster.
    """
    trial_counts = generator.multinomial(trials, np.full(trials, 1 / trials), size=draws)
    places = numbered(clusters, questions)
    count = int(places.max()) + 1
    cluster_counts = generator.multinomial(count, np.full(count, 1 / count), size=draws)
    return trial_counts, cluster_counts[:, places], count


def mean_interval(groups: Sequence[ScoreGroup], seed: int, draws: int = DRAWS) -> Interval:
    """`crossed_interval` of the unweighted mean of the groups' means.

    Questions and trials of one origin are drawn together, so that a question that counts in several groups (a hop and a
    modality) is drawn in all or in none. Raises ValueError when a group is left without questions in every draw.
    """
    generator = np.random.default_rng(seed)
    total = np.zeros(draws)
    usable = np.ones(draws, dtype=bool)
    outside = TAIL
    for alike in grouped(groups, key=lambda group: group.origin).values():
        # Counts per draw stand for resampled rows and columns: weights on the same matrix instead of copies of it.
        trials, questions = alike[0].values.shape
        trial_counts, question_counts, clusters = resampled(
            trials,
            questions,
            alike[0].clusters,
            generator=generator,
            draws=draws,
        )
        outside = min(outside, tail(clusters, questions))
        for group in alike:
            sums, counts = drawn_sums(group.values, trial_counts, question_counts)
            # A draw can hold no pair that was asked, where trials share few questions; it is left out.
            usable &= counts > 0
            # The maximum only avoids a division by zero in such draws.
            total += sums / np.maximum(counts, 1)
    if not usable.any():
        raise ValueError("a mean of columns needs draws in which each of them has a question")

    # The percentile method: an interval never leaves the range of the scores.
    low, high = _percentiles(total[usable] / len(groups), outside)
    if len(groups) == 1 and groups[0].bounded:
        means, clusters_asked = question_means(groups[0].values, groups[0].clusters)
        if ((means >= 0) & (means <= 1)).all() and are_few(means):
            wilson_low, wilson_high = score_interval(means, seed, clusters_asked)
            low = min(low, wilson_low)
            high = max(high, wilson_high)
    return low, high


def drawn_sums(values: Floats, trial_counts: Integers, question_counts: Integers) -> tuple[Floats, Floats]:
    """Sums and counts the values [trials, questions] in each draw (draws,), without NaN, which was not asked."""
    finite = np.isfinite(values)
    sums = np.einsum("dq,dq->d", trial_counts @ np.where(finite, values, 0.0), question_counts)
    counts = np.einsum("dq,dq->d", trial_counts @ finite.astype(np.float64), question_counts)
    return sums, counts


def question_means(values: Floats, clusters: Clusters) -> tuple[Floats, Integers]:
    """Means of the questions [trials, questions] that any trial asked, and their clusters."""
    # Not `nanmean`: it warns about columns without a value.
    means = np.ma.masked_invalid(values).mean(axis=0).filled(np.nan)
    finite = np.isfinite(means)
    return means[finite], numbered(clusters, len(means))[finite]
