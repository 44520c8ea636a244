"""Power of paired tests: the differences, and the margins, that planned questions and seeds can show.

The normal approximation promises more than few clusters hold: a verdict takes both a sign-flip test and an interval,
and neither is normal then. With few clusters, studies are therefore simulated and judged like a run's.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy.special import stdtrit

from experiments.analysis.intervals import TAIL, Clusters, cluster_totals
from experiments.analysis.looks import anytime_test
from experiments.analysis.paired import BETTER, NOT_WORSE, Test, verdict
from experiments.analysis.statistics import crossed_error, crossed_test, freedom_of
from topologies.wiring import Floats

POWER = 0.8  # share of studies that have to show a difference
STUDIES = 200  # simulated ones: a share of .8 has a standard error of .03
TEST_DRAWS = 400  # of a simulated study's test and interval
MANY = 60  # clusters from which the normal approximation is taken
STEPS = 4  # of a bisection


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
    products = 0.0
    pairs = 0.0
    squares = 0.0
    count = 0
    errors = []
    means = []
    for values, clusters in trials:
        mean = float(values.mean())
        sums, sizes = cluster_totals(values - mean, clusters)
        trial_squares = float(((values - mean) ** 2).sum())
        products += float((sums**2).sum()) - trial_squares
        pairs += float((sizes * (sizes - 1)).sum())
        squares += trial_squares
        count += len(values)
        error, _ = crossed_error(values[None], clusters)
        errors.append(error**2)
        means.append(mean)

    between = 0.0
    if len(trials) > 1:
        between = float(np.var(means, ddof=1) - np.mean(errors))
    correlation = 0.0
    if pairs and squares:
        correlation = products / pairs / (squares / count)
    return Spread(math.sqrt(squares / count), max(0.0, correlation), math.sqrt(max(0.0, between)))


@dataclass(frozen=True, slots=True)
class Design:
    """Planned questions and seeds: the variance of their differences, sizes of clusters, number of seeds."""

    spread: Spread
    sizes: tuple[int, ...]
    seeds: int = 1

    def smallest_difference(self) -> float:
        """Returns the difference that studies show with a power of .8, by one test at .05. Infinite where none is."""

        def shows(difference: float) -> bool:
            return self._share(BETTER, difference, margin=0.0) >= POWER

        normal = self._normal()
        return normal if len(self.sizes) >= MANY else _smallest(shows, normal)

    def smallest_margin(self) -> float:
        """Returns the margin by which studies without a difference show `not worse` with a power of .8."""

        def shows(margin: float) -> bool:
            return self.not_worse(margin) >= POWER

        normal = self._normal()
        return normal if len(self.sizes) >= MANY else _smallest(shows, normal)

    def not_worse(self, margin: float) -> float:
        """Returns the share of studies without a difference that show `not worse` by a margin, or better."""
        return self._share(NOT_WORSE, difference=0.0, margin=margin) + self._share(BETTER, 0.0, margin)

    def shown_early(self, difference: float) -> float:
        """Returns the share of studies with a difference in which a test at every look shows it at the end."""
        clusters = np.repeat(np.arange(len(self.sizes)), self.sizes)
        tests = [anytime_test(values.mean(axis=0), clusters) for values in _studies(self, difference)]
        return sum(test["ci95"][0] > 0 for test in tests) / len(tests)

    def _normal(self) -> float:
        """(t(.975) + t(.8)) times the standard error.

        Its variance is that of the questions times Kish's design effect, which more seeds do not reduce, and that of
        the graphs over the seeds. Satterthwaite's degrees of freedom.
        """
        total = float(sum(self.sizes))
        effect = 1 + (sum(size**2 for size in self.sizes) / total - 1) * self.spread.correlation
        by_cluster = self.spread.questions**2 * effect / total
        by_seed = self.spread.graphs**2 / self.seeds
        variance = by_cluster + by_seed
        freedom = freedom_of(variance, by_cluster, len(self.sizes), by_trial=by_seed, trials=self.seeds)
        return float(stdtrit(freedom, [1 - TAIL, POWER]).sum()) * math.sqrt(variance)

    def _share(self, expected_verdict: str, difference: float, margin: float) -> float:
        verdicts = _verdicts(self, difference, margin)
        return verdicts.count(expected_verdict) / len(verdicts)


@cache
def _verdicts(design: Design, difference: float, margin: float) -> tuple[str, ...]:
    """The verdicts of simulated studies with this true difference. The same random numbers for every difference."""
    clusters = np.repeat(np.arange(len(design.sizes)), design.sizes)
    verdicts = []
    for values in _studies(design, difference):
        test = crossed_test(values, seed=0, clusters=clusters, margin=margin, draws=TEST_DRAWS)
        single: Test = {**test, "p_holm": test["p_value"], "p_margin_holm": test["p_margin"], "margin": margin}
        verdicts.append(verdict(single))
    return tuple(verdicts)


def _studies(design: Design, difference: float) -> Iterator[Floats]:
    """Yields differences [seeds, questions] of studies: 1, 0 or -1 for a question, and a shift for each graph.

    With probability sqrt(correlation), a question has its cluster's difference in place of one alone, which makes the
    correlation of two questions of a cluster.
    """
    spread = design.spread
    deviating = min(1.0, spread.questions**2 + difference**2)
    wins = (deviating + min(difference, deviating)) / 2
    clusters = np.repeat(np.arange(len(design.sizes)), design.sizes)

    def outcomes(uniform: Floats) -> Floats:
        return np.where(uniform < wins, 1.0, np.where(uniform < deviating, -1.0, 0.0))

    generator = np.random.default_rng(0)
    for _ in range(STUDIES):
        of_clusters = outcomes(generator.random(len(design.sizes)))[clusters]
        of_questions = outcomes(generator.random(len(clusters)))
        is_shared = generator.random(len(clusters)) < math.sqrt(spread.correlation)
        shifts = generator.normal(0, spread.graphs, (design.seeds, 1))
        yield np.where(is_shared, of_clusters, of_questions) + shifts


def _smallest(shows: Callable[[float], bool], guess: float) -> float:
    """Finds the smallest value that shows, near a guess, by bisection; infinite where none below 1 does."""
    high = guess
    while not shows(min(high, 1.0)):
        if high >= 1:
            return math.inf
        high *= 1.5
    low = high / 2
    for _ in range(STEPS):
        middle = (low + high) / 2
        if shows(middle):
            high = middle
        else:
            low = middle
    return high
