"""Statistics of means: bootstrap intervals, paired tests, and corrections for many comparisons."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypedDict

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq
from scipy.stats import norm
from scipy.stats import t as student

from topologies.wiring import Floats

Clusters = Sequence[str] | Sequence[int] | npt.NDArray[np.int64]  # by value; values of one cluster share a document

TAIL = (1 - 0.95) / 2  # outside of an interval, at each side
Z = float(norm.ppf(1 - TAIL))
FEWEST = 10  # values that differ from the commonest one, for a bootstrap
# The assumed correlation of rare values within a cluster, which they are too few to show. TAT-QA's is .142, and rare
# values correlate less: of an outcome with probability .02, whose latent scores correlate by .5, it is .16.
RARE = 0.15


def numbered(clusters: Clusters, n: int) -> npt.NDArray[np.int64]:
    """Numbers the clusters of n values (n,) from 0, in their order. Without `clusters` each value is its own."""
    return np.unique(np.asarray(clusters if len(clusters) else range(n)), return_inverse=True)[1]


def cluster_totals(values: Floats, clusters: Clusters = ()) -> tuple[Floats, Floats]:
    """Sums `values` (n,) by cluster (k,), and counts them. Without `clusters` (n,) each value is its own."""
    places = numbered(clusters, len(values))
    return np.bincount(places, weights=values).astype(np.float64), np.bincount(places).astype(np.float64)


def bootstrap_interval(
    values: npt.ArrayLike, seed: int, draws: int = 2000, clusters: Clusters = ()
) -> tuple[float, float]:
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
    drawn = np.random.default_rng(seed).multinomial(len(sums), counts / len(sums), size=draws)
    tail = _tail(len(sums), len(scores))
    low, high = np.quantile(drawn @ distinct.real / (drawn @ distinct.imag), [tail, 1 - tail])
    return float(low), float(high)


def score_interval(values: npt.ArrayLike, seed: int, clusters: Clusters = ()) -> tuple[float, float]:
    """95% interval of the mean of scores from 0 to 1 (n,), few or many. It is `bootstrap_interval`, or Wilson's.

    Wilson's score interval (1927), of the effective number of values, takes its place where fewer than `FEWEST` values
    differ from the commonest one: the bootstrap then sees too little of the distribution. Of scores between 0 and 1 it
    is too wide.
    """
    scores = np.asarray(values, dtype=np.float64)
    if not len(scores) or not _few(scores):
        return bootstrap_interval(scores, seed, clusters=clusters)
    n, mean = _effective(scores, clusters), float(scores.mean())
    centre, half = mean + Z**2 / (2 * n), Z * math.sqrt(mean * (1 - mean) / n + (Z / (2 * n)) ** 2)
    low, high = (centre - half) / (1 + Z**2 / n), (centre + half) / (1 + Z**2 / n)
    # The bounds of 0 and of 1 are exact.
    return (0.0 if mean == 0 else low), (1.0 if mean == 1 else high)


def difference_interval(values: npt.ArrayLike, seed: int, clusters: Clusters = ()) -> tuple[float, float]:
    """95% interval of the mean of paired differences from -1 to 1 (n,). It is `bootstrap_interval`, or Tango's.

    Tango's score interval (1998) takes its place where fewer than `FEWEST` values differ from the commonest one, as for
    `score_interval`: that a hundred differences are 0 shows no more than that the mean is within
    0.037.
    """
    differences = np.asarray(values, dtype=np.float64)
    if not len(differences) or not _few(differences):
        return bootstrap_interval(differences, seed, clusters=clusters)

    def bound(z: float, side: float) -> float:
        # The statistic falls as the mean rises. It has no crossing where even the outermost mean is in the interval.
        outermost = side * (1 - 1e-9)
        if abs(tango_z(differences, outermost, clusters)) <= Z:
            return side
        return float(brentq(lambda mean: tango_z(differences, mean, clusters) - z, -1 + 1e-9, 1 - 1e-9))

    return bound(Z, -1.0), bound(-Z, 1.0)


def tango_z(differences: Floats, mean: float, clusters: Clusters = ()) -> float:
    """Tango's score statistic (1998) of paired differences from -1 to 1 (n,). Under the null their mean is `mean`.

    Differences between -1 and 1 count in parts as wins or losses; n is the effective number of `score_interval`.
    """
    n = _effective(differences, clusters)
    wins, losses = (n * float(np.maximum(sign * differences, 0).mean()) for sign in (1, -1))
    # The most likely probability of a loss under the null, the larger root of a quadratic equation.
    b, c = -wins - losses + (2 * n - wins + losses) * mean, -losses * mean * (1 - mean)
    loss = (math.sqrt(max(0.0, b * b - 8 * n * c)) - b) / (4 * n)
    variance = n * (2 * loss + mean * (1 - mean))
    return (wins - losses - n * mean) / math.sqrt(max(variance, 1e-12))


def _few(values: Floats) -> bool:
    # Rounded: values that differ in floating-point error alone are one.
    return len(values) - int(np.unique(values.round(12), return_counts=True)[1].max()) < FEWEST


def _effective(values: Floats, clusters: Clusters) -> float:
    """Effective number of values (n,): n over the design effect of Kish (1965). The correlation is `RARE`."""
    _, sizes = cluster_totals(values, clusters)
    return float(len(values) / (1 + ((sizes**2).sum() / len(values) - 1) * RARE))


def _tail(clusters: int, values: int) -> float:
    """Share of draws that an interval leaves out at each side."""
    if clusters in (1, values):
        return TAIL
    return float(norm.cdf(-math.sqrt(clusters / (clusters - 1)) * student.ppf(1 - TAIL, clusters - 1)))


def crossed_interval(
    values: npt.ArrayLike, seed: int, draws: int = 2000, clusters: Clusters = ()
) -> tuple[float, float]:
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
    if scores.ndim != 2 or not np.isfinite(scores).any():
        raise ValueError(f"an interval needs at least one value in [trials, questions], not shape {scores.shape}")
    # A question that no trial asked has no part in the draws.
    asked = np.isfinite(scores).any(axis=0)
    own = np.asarray(clusters)[asked] if len(clusters) else ()
    return mean_interval([ScoreGroup("", scores[:, asked], own, bounded=True)], seed, draws)


@dataclass(frozen=True, slots=True)
class ScoreGroup:
    """Scores `values` [trials, questions] that are averaged first. NaN where a question does not count.

    Groups with the same `origin` have the same trials, questions and `clusters` of questions in the same places, other
    groups share none. `bounded`: they lie between 0 and 1.
    """

    origin: str
    values: Floats
    clusters: Clusters = ()
    bounded: bool = False


def resampled(
    trials: int, questions: int, clusters: Clusters, generator: np.random.Generator, draws: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], int]:
    """Draws how often each trial [draws, trials] and question [draws, questions] counts. The third value is the number
    of clusters.

    A question is drawn as often as its cluster.
    """
    of_trials = generator.multinomial(trials, np.full(trials, 1 / trials), size=draws)
    places = numbered(clusters, questions)
    drawn = generator.multinomial(k := places.max() + 1, np.full(k, 1 / k), size=draws)
    return of_trials, drawn[:, places], int(k)


def mean_interval(groups: Sequence[ScoreGroup], seed: int, draws: int = 2000) -> tuple[float, float]:
    """`crossed_interval` of the unweighted mean of the groups' means.

    Questions and trials of one origin are drawn together, so that a question that counts in several groups (a hop and a
    modality) is drawn in all or in none. Raises ValueError when a group is left without questions in every draw.
    """
    generator = np.random.default_rng(seed)
    total, usable, tail = np.zeros(draws), np.ones(draws, dtype=bool), TAIL
    for origin in dict.fromkeys(group.origin for group in groups):
        same = [group for group in groups if group.origin == origin]
        # Counts per draw stand for resampled rows and columns: weights on the same matrix instead of copies of it.
        trials, questions = same[0].values.shape
        of_trials, of_questions, k = resampled(trials, questions, same[0].clusters, generator, draws)
        tail = min(tail, _tail(k, questions))
        for values in (group.values for group in same):
            asked = np.isfinite(values)
            counts = np.einsum("dq,dq->d", of_trials @ asked.astype(np.float64), of_questions)
            # Zero for NaN: a cell that was not asked adds nothing, and `counts` leaves it out below.
            sums = np.einsum("dq,dq->d", of_trials @ np.where(asked, values, 0.0), of_questions)
            # A draw can hold no pair that was asked, where trials share few questions; it is left out.
            usable &= counts > 0
            # The maximum only avoids a division by zero in such draws.
            total += sums / np.maximum(counts, 1)
    if not usable.any():
        raise ValueError("a mean of columns needs draws in which each of them has a question")
    # The percentile method: an interval never leaves the range of the scores.
    low, high = map(float, np.quantile(total[usable] / len(groups), [tail, 1 - tail]))
    if len(groups) == 1 and groups[0].bounded:
        means, clusters = _asked(groups[0].values, groups[0].clusters)
        if ((means >= 0) & (means <= 1)).all() and _few(means):
            wilson = score_interval(means, seed, clusters)
            low, high = min(low, wilson[0]), max(high, wilson[1])
    return low, high


def known_mean(values: Iterable[float | None]) -> float | None:
    """Mean of the values that are known. None without any."""
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


def column_means(values: Floats) -> Floats:
    """Mean of every column over its values that are not NaN. NaN where there are none."""
    # Not `nanmean`: it warns about columns without a value.
    means: Floats = np.ma.masked_invalid(values).mean(axis=0).filled(np.nan)
    return means


def _asked(values: Floats, clusters: Clusters) -> tuple[Floats, Clusters]:
    """Means of the questions [trials, questions] that any trial asked, and their clusters."""
    means = column_means(values)
    asked = np.isfinite(means)
    return means[asked], np.asarray(clusters if len(clusters) else range(len(means)))[asked]


class PairedTest(TypedDict):
    """Result of `paired_test`. `difference` is the mean of a - b, with its interval.

    p_value: of the null that the mean difference is 0.
    p_margin: of the null that a is worse than b by the margin or more; twice the one-sided value, so that it is held
        against the same bound as `p_value`.
    wins, losses: numbers of questions where a scores more, or less; ties count as neither.
    clusters: the number of independent clusters of the n questions.
    """

    difference: float
    ci95: tuple[float, float]
    p_value: float
    p_margin: float
    n: int
    wins: int
    losses: int
    clusters: int


def paired_test(
    a: npt.ArrayLike, b: npt.ArrayLike, seed: int, draws: int = 10_000, clusters: Clusters = (), margin: float = 0.0
) -> PairedTest:
    """Two-sided sign-flip test of two methods' scores (n,) on the same questions.

    Under the null the difference of each cluster is as likely to have either sign. p = (1 + draws at least as extreme)
    / (1 + draws), which is valid at any number of draws and never 0. The test against the `margin` is Student's of
    cluster totals, and Tango's where the interval is. Raises ValueError for vectors that do not pair.
    """
    first, second = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if first.shape != second.shape:
        raise ValueError(
            f"a paired test needs the same questions for both methods, not {first.shape} and {second.shape}"
        )
    difference = first - second
    interval = difference_interval(difference, seed, clusters)
    sums, _ = cluster_totals(difference, clusters)
    # Flipping the signs of `count` differences of one size sums to size * (2 Binomial(count, 1/2) - count).
    generator = np.random.default_rng(seed)
    # Differences are grouped by size, so the cost grows with distinct sizes and not with questions, as it does in
    # scipy.stats.permutation_test.
    flipped = np.zeros(draws)
    # Rounded: sizes that differ only in floating-point error are one size. Zeros keep their sum under any sign.
    for size, count in zip(*np.unique(np.abs(sums[sums != 0]).round(12), return_counts=True), strict=True):
        flipped += size * (2 * generator.binomial(count, 0.5, size=draws) - count)
    # Sums that differ in their last bit alone are equally extreme.
    extreme = int(np.sum(np.abs(flipped) >= abs(difference.sum()) - 1e-9))
    if _few(difference):
        worse = float(norm.sf(tango_z(difference, -margin, clusters)))
    else:
        error, freedom = crossed_error(difference[None], clusters)
        worse = float(student.sf((difference.mean() + margin) / error, freedom))
    return PairedTest(
        difference=float(difference.mean()),
        ci95=interval,
        # The observed signs count as one draw, which keeps p above 0.
        p_value=(1 + extreme) / (1 + draws),
        p_margin=min(1.0, 2 * worse),
        n=len(difference),
        wins=int(np.sum(difference > 0)),
        losses=int(np.sum(difference < 0)),
        clusters=len(sums),
    )


def crossed_test(differences: npt.ArrayLike, seed: int, clusters: Clusters = (), margin: float = 0.0) -> PairedTest:
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
    means, own = _asked(values, clusters)
    test = paired_test(means, np.zeros_like(means), seed, clusters=own, margin=margin)
    if len(values) == 1:
        return test
    mean = float(np.nanmean(values))
    error, freedom = crossed_error(values, clusters)
    p_value, p_margin = (
        2 * float(student.sf(distance / error, freedom)) if error else float(distance <= 0)
        for distance in (abs(mean), mean + margin)
    )
    half = float(student.ppf(1 - TAIL, freedom)) * error
    low, high = max(-1.0, mean - half), min(1.0, mean + half)
    if _few(means):
        p_value, p_margin = max(p_value, test["p_value"]), max(p_margin, test["p_margin"])
        low, high = min(low, test["ci95"][0]), max(high, test["ci95"][1])
    test |= {"difference": mean, "ci95": (low, high), "p_value": p_value, "p_margin": min(1.0, p_margin)}
    return test


def crossed_error(values: Floats, clusters: Clusters = ()) -> tuple[float, float]:
    """Standard error of the mean of `values` [trials, questions], and its degrees of freedom. NaN was not asked.

    Trials and clusters of questions vary independently: the variance is that by clusters, plus that by trials, minus
    that by cells, which both count (Cameron, Gelbach and Miller 2011, equation 2.11). Degrees of freedom are
    Satterthwaite's (1946). One trial gives the error over clusters alone, for the graph that it learned.
    """
    asked = np.isfinite(values)
    # Zero for what was not asked: it is in no sum.
    residuals = np.where(asked, values - values[asked].mean(), 0.0)
    places = numbered(clusters, values.shape[1])
    cells = np.array([np.bincount(places, weights=row) for row in residuals])
    trials, count = cells.shape

    def variance(totals: Floats) -> float:
        k = len(totals)
        return float((totals**2).sum() / asked.sum() ** 2 * k / max(1, k - 1))

    by_cluster = variance(cells.sum(axis=0))
    if trials == 1:
        return math.sqrt(by_cluster), max(1, count - 1)
    by_trial = variance(cells.sum(axis=1))
    # Not below either: a difference of estimates can be negative.
    total = max(by_cluster, by_trial, by_cluster + by_trial - variance(cells.ravel()))
    parts = by_cluster**2 / max(1, count - 1) + by_trial**2 / (trials - 1)
    return math.sqrt(total), total**2 / parts if parts else 1.0


@dataclass(frozen=True, slots=True)
class Spread:
    """Standard deviations of paired differences, of questions and of the means of learned graphs.

    correlation: of the questions of a cluster.
    """

    questions: float
    correlation: float = 0.0
    graphs: float = 0.0


def spread_of(trials: Sequence[tuple[Floats, Clusters]]) -> Spread:
    """Measures the spread of differences (n,) with their clusters. Each trial has a learned graph.

    The correlation is Fisher's (1925): mean product of two deviations within a cluster, over their mean square. What
    varies between the means of trials beyond their own errors is put down to the graphs.
    """
    products = pairs = squares = count = 0.0
    errors = []
    for values, clusters in trials:
        sums, sizes = cluster_totals(values - values.mean(), clusters)
        own = float(((values - values.mean()) ** 2).sum())
        products, pairs = products + float((sums**2).sum()) - own, pairs + float((sizes * (sizes - 1)).sum())
        squares, count = squares + own, count + len(values)
        errors.append(crossed_error(values[None], clusters)[0] ** 2)
    means = [float(values.mean()) for values, _ in trials]
    between = float(np.var(means, ddof=1) - np.mean(errors)) if len(trials) > 1 else 0.0
    correlation = products / pairs / (squares / count) if pairs and squares else 0.0
    return Spread(math.sqrt(squares / count), max(0.0, correlation), math.sqrt(max(0.0, between)))


def smallest_difference(spread: Spread, sizes: Sequence[int], seeds: int = 1) -> float:
    """Difference that a two-sided test shows with a power of .8, with clusters of these `sizes` and so many seeds.

    (t(.975) + t(.8)) times the standard error, whose variance is that of the questions times Kish's design
    effect, which more seeds do not reduce, and that of the graphs over the seeds. Satterthwaite's degrees of freedom.
    """
    total, count = float(sum(sizes)), len(sizes)
    effect = 1 + (sum(size**2 for size in sizes) / total - 1) * spread.correlation
    by_cluster, by_seed = spread.questions**2 * effect / total, spread.graphs**2 / seeds
    parts = by_cluster**2 / max(1, count - 1) + by_seed**2 / max(1, seeds - 1)
    freedom = (by_cluster + by_seed) ** 2 / parts if parts else 1.0
    return float(student.ppf([1 - TAIL, 0.8], freedom).sum()) * math.sqrt(by_cluster + by_seed)


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
