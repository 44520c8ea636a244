"""Statistics of many edges' effects measured on few questions: intervals, corrections, reliability.

An effect is the score with the edge minus the score without it, of one question: positive where the edge helps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, log2
from typing import Any

import numpy as np
import numpy.typing as npt

from actors.messages import derive_seed
from experiments.analysis.statistics import holm, paired_test
from topologies.wiring import Bools, Floats

SPLITS = 400  # random halvings
LEVEL = 0.05  # of tests, after correction
ROUNDING = 1e-9  # a mean of scores that is zero but for its last bits counts as zero


@dataclass(frozen=True, slots=True)
class Effect:
    """An edge's mean effect over the questions, with its paired bootstrap interval and sign-flip test.

    adjusted_p: the p-value after Holm's correction for the number of edges.
    """

    mean: float
    ci95: tuple[float, float]
    p_value: float
    adjusted_p: float

    @property
    def shown(self) -> bool:
        return self.adjusted_p < LEVEL


def mean_effects(effects: Floats) -> list[Effect]:
    """Effects per edge of `effects` [edges, questions]. Results do not depend on the order of edges or questions."""
    # A sign-flip test of d draws gives no p below 1 / (d + 1), which must still be far below LEVEL after correction.
    draws = max(10_000, 200 * len(effects))
    # One seed for all edges: equal rows must give equal results, wherever they stand.
    tests = [paired_test(row, np.zeros_like(row), derive_seed("effect"), draws) for row in effects]
    adjusted = holm([test["p_value"] for test in tests])
    return [
        Effect(test["difference"], test["ci95"], test["p_value"], p) for test, p in zip(tests, adjusted, strict=True)
    ]


def redundant(effects: Floats) -> Bools:
    """Redundant edges by Definition 1 (Eq. 2), bool [edges]: without the edge the graph scores as much or more."""
    no_less: Bools = effects.mean(1) <= ROUNDING
    return no_less


def least_questions(edges: int) -> int:
    """The fewest questions in which an edge must make the same difference, and none the opposite, to be shown.

    For p < LEVEL after correction for this many edges, by a two-sided sign test: p = 2 / 2^n.
    """
    # Solved for n: 2 / 2^n < LEVEL / edges.
    return ceil(1 + log2(max(edges, 1) / LEVEL))


@dataclass(frozen=True, slots=True)
class Reliability:
    """Agreement of one half of the questions with the other, a mean over random halvings.

    rank_correlation: Spearman's, of the edges' effects in both halves; `whole` is what it would be between two sets of
    all the questions (Spearman and Brown). None where all edges have one effect. redundant_again and useful_again: the
    share of one half's redundant (useful) edges that are so in the other; `redundant` and `useful`: the share of all.
    """

    rank_correlation: float | None
    whole: float | None
    redundant_again: float | None
    redundant: float
    useful_again: float | None
    useful: float


def split_half(effects: Floats, seed: int) -> Reliability:
    """The reliability of `effects` [edges, questions]. Raises ValueError for fewer than two questions."""
    questions = effects.shape[1]
    if questions < 2:
        raise ValueError("one question cannot be halved: set redundancy.questions to 2 at least")
    draw = np.random.default_rng(seed)
    rows: dict[str, list[float]] = {name: [] for name in Reliability.__slots__ if name != "whole"}
    for _ in range(SPLITS):
        order = draw.permutation(questions)
        halves = effects[:, order[: questions // 2]], effects[:, order[questions // 2 :]]
        correlation = rank_correlation(*(half.mean(1) for half in halves))
        first, second = (redundant(half) for half in halves)
        halving = {
            "rank_correlation": correlation,
            "redundant_again": _mean(second[first]),
            "redundant": _mean(second),
            "useful_again": _mean(~second[~first]),
            "useful": _mean(~second),
        }
        for name, value in halving.items():
            # A half without redundant edges, say, has no share that is redundant again.
            if value is not None:
                rows[name].append(value)
    means = {name: _mean(values) for name, values in rows.items()}
    half = means["rank_correlation"]
    return Reliability(
        rank_correlation=half,
        # Spearman and Brown's formula for twice the length, which is for halves that measure the same.
        whole=None if half is None or half < 0 else 2 * half / (1 + half),
        redundant_again=means["redundant_again"],
        redundant=means["redundant"] or 0.0,
        useful_again=means["useful_again"],
        useful=means["useful"] or 0.0,
    )


@dataclass(frozen=True, slots=True)
class Agreement:
    """Agreement of the cut edges with the redundant ones, among those that could be cut.

    precision: the share of the cut edges that are redundant, None if none was cut; recall: the share of the redundant
    ones that were cut, None if none is. chance: the precision of cutting as many edges of each kind at random, which is
    the base rate, and chance95 the range in which 95% of such random cuts fall.
    """

    edges: int
    cut: int
    redundant: int
    precision: float | None
    recall: float | None
    chance: float | None
    chance95: tuple[float, float] | None


def agreement(cut: Bools, is_redundant: Bools, kinds: Sequence[str], seed: int) -> Agreement:
    """The agreement of two selections of the same edges [n]; `kinds` are for the comparison with chance."""
    hits = int((cut & is_redundant).sum())
    chance, chance95 = None, None
    if cut.any():
        drawn = _random_hits(cut, is_redundant, kinds, seed) / int(cut.sum())
        low, high = np.quantile(drawn, [0.025, 0.975])
        each = {kind: np.array([k == kind for k in kinds]) for kind in kinds}
        # By kind: a learner that cuts mostly temporal edges must not gain from there being more redundant ones.
        expected = sum(int(cut[members].sum()) * float(is_redundant[members].mean()) for members in each.values())
        chance, chance95 = expected / int(cut.sum()), (float(low), float(high))
    return Agreement(
        edges=len(cut),
        cut=int(cut.sum()),
        redundant=int(is_redundant.sum()),
        precision=hits / int(cut.sum()) if cut.any() else None,
        recall=hits / int(is_redundant.sum()) if is_redundant.any() else None,
        chance=chance,
        chance95=chance95,
    )


def _random_hits(cut: Bools, is_redundant: Bools, kinds: Sequence[str], seed: int, draws: int = 10_000) -> Floats:
    """Numbers of redundant edges [draws] when as many edges of each kind are cut at random."""
    draw, hits = np.random.default_rng(seed), np.zeros(draws)
    for kind in dict.fromkeys(kinds):
        members = np.array([k == kind for k in kinds])
        good, cuts = int(is_redundant[members].sum()), int(cut[members].sum())
        # The number of redundant ones among `cuts` drawn without replacement.
        hits += draw.hypergeometric(good, int(members.sum()) - good, cuts, size=draws)
    return hits


def rank_correlation(a: npt.ArrayLike, b: npt.ArrayLike) -> float | None:
    """Spearman's, with mean ranks for ties; None where either is constant or has fewer than two values."""
    first, second = _ranks(np.asarray(a, dtype=np.float64)), _ranks(np.asarray(b, dtype=np.float64))
    if len(first) < 2 or not np.ptp(first) or not np.ptp(second):
        return None
    return float(np.corrcoef(first, second)[0, 1])


def _ranks(values: Floats) -> Floats:
    # Rounded, or sums that differ in their last bit would not tie.
    _, place, counts = np.unique(values.round(9), return_inverse=True, return_counts=True)
    ranks: Floats = (np.cumsum(counts) - (counts - 1) / 2)[place]
    return ranks


def _mean(values: Sequence[float] | npt.NDArray[Any]) -> float | None:
    return float(np.mean(values)) if len(values) else None
