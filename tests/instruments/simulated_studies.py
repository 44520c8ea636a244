"""Simulated studies of two methods without a difference, and with one: coverage, type I error, questions needed.

    python -m tests.instruments.simulated_studies [studies]

Questions come in clusters of six, as TAT-QA's, and a question has latent scores of both methods, whose cluster parts
correlate by the intraclass correlation that the first column names. A learned method's graphs differ by `between` in
the latent score, a standard deviation; 0.1 moves a method's mean score by about 0.04.
"""

import sys
from collections.abc import Iterator

import numpy as np
from scipy.stats import t as student

from experiments.analysis.statistics import bootstrap_interval, crossed_error, paired_test
from topologies.betting import capitals
from topologies.wiring import Floats

SIZE = 6  # questions of a cluster
CORRELATIONS = (0.0, 0.1, 0.3, 0.5)
SEEDS = ((1, 0.0), (2, 0.0), (2, 0.1), (2, 0.2), (3, 0.1), (3, 0.2), (5, 0.0), (5, 0.1), (5, 0.2))
NOISE = 0.4  # of the latent variance, between repetitions of one question


def study(
    generator: np.random.Generator, clusters: int, seeds: int, correlation: float, between: float, shift: float = 0.0
) -> Floats:
    """Differences of 0/1 scores [seeds, questions]; the methods differ by `shift` in the latent score."""

    def latent(spread: float) -> Floats:
        part = (1 - NOISE) * correlation
        shared = generator.normal(0, part**0.5, clusters).repeat(SIZE)
        own = generator.normal(0, (1 - NOISE - part) ** 0.5, clusters * SIZE)
        graphs = generator.normal(0, 1, (seeds, 1)) * spread
        return shared + own + graphs + generator.normal(0, NOISE**0.5, (seeds, clusters * SIZE))

    return (latent(between) + shift > 0).astype(float) - (latent(0.0) > 0)


def coverage(studies: int, clusters: int = 50) -> Iterator[str]:
    yield "correlation seeds between | crossed t | naive: questions alone"
    places = np.arange(clusters).repeat(SIZE)
    for correlation in CORRELATIONS:
        for seeds, between in (
            (1, 0.0),
            (2, 0.0),
            (2, 0.1),
            (2, 0.2),
            (3, 0.1),
            (3, 0.2),
            (5, 0.0),
            (5, 0.1),
            (5, 0.2),
        ):
            generator, inside, naive = np.random.default_rng(1), 0, 0
            for _ in range(studies):
                values = study(generator, clusters, seeds, correlation, between)
                error, freedom = crossed_error(values, places)
                inside += abs(values.mean()) <= student.ppf(0.975, freedom) * error
                error, freedom = crossed_error(values.mean(axis=0)[None])
                naive += abs(values.mean()) <= student.ppf(0.975, freedom) * error
            yield f"{correlation:11} {seeds:5} {between:7} | {inside / studies:9.3f} | {naive / studies:.3f}"


def one_run(studies: int, clusters: int = 50) -> Iterator[str]:
    yield "correlation | bootstrap of clusters, of questions | sign flips of clusters, of questions: type I"
    places = np.arange(clusters).repeat(SIZE)
    for correlation in CORRELATIONS:
        generator, inside, shown = np.random.default_rng(2), np.zeros(2), np.zeros(2)
        for seed in range(studies):
            (values,) = study(generator, clusters, 1, correlation, 0.0)
            for i, own in enumerate((places, ())):
                low, high = bootstrap_interval(values, seed, 1000, own)
                inside[i] += low <= 0 <= high
                shown[i] += paired_test(values, np.zeros_like(values), seed, 999, own)["p_value"] < 0.05
        yield f"{correlation:11} | {inside[0] / studies:.3f} {inside[1] / studies:.3f} | {shown / studies}"


def looked_at(studies: int, clusters: int = 50) -> Iterator[str]:
    yield "correlation shift | anytime: shown, questions when stopped | fixed: shown | looked at every 12: fixed shown"
    for correlation in CORRELATIONS:
        for shift in (0.0, 0.3, 0.5):
            generator, shown, fixed, peeked, ends = np.random.default_rng(3), 0, 0, 0, []
            for _ in range(studies):
                (values,) = study(generator, clusters, 1, correlation, 0.0, shift)
                means = values.reshape(clusters, SIZE).mean(axis=1)
                capital = sum(capitals(means, np.zeros(1)))[:, 0] / 2
                stopped = np.flatnonzero(capital[1::2] >= 20)
                shown += len(stopped) > 0
                ends.append(12 * (stopped[0] + 1) if len(stopped) else clusters * SIZE)
                count = np.arange(1, clusters + 1)
                mean = np.cumsum(means) / count
                spread = np.sqrt(np.maximum(np.cumsum(means**2) / count - mean**2, 1e-12) / np.maximum(count - 1, 1))
                beyond = np.abs(mean) > student.ppf(0.975, np.maximum(count - 1, 1)) * spread
                fixed += bool(beyond[-1])
                peeked += bool(beyond[5::2].any())
            rates = [one / studies for one in (shown, fixed, peeked)]
            yield f"{correlation:11} {shift:5} | {rates[0]:.3f} {np.mean(ends):5.0f} | {rates[1]:.3f} | {rates[2]:.3f}"


if __name__ == "__main__":
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    for table in (coverage(number), looked_at(number), one_run(number // 5)):
        for line in table:
            print(line, flush=True)
        print()
