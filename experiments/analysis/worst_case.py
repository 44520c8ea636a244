"""Worst case of each defence over attacks, and the solution of the game between both."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import linprog

from experiments.analysis.intervals import DRAWS, Clusters, Interval, drawn_sums, resampled
from topologies.wiring import Floats


@dataclass(frozen=True, slots=True)
class WorstCase:
    """Lowest mean score of a defence, the index of its attack, and its 95% interval."""

    attack: int
    mean: float
    ci95: Interval


def worst_cases(
    scores: npt.ArrayLike,
    seed: int,
    draws: int = DRAWS,
    clusters: Clusters = None,
) -> list[WorstCase]:
    """Finds the worst case of each defence. With a probability of .95 all their intervals are right.

    scores: float [defences, attacks, trials, questions] from 0 to 1, NaN where a trial did not ask a question.
    clusters: those of the questions; by default each is its own.

    Every cell has the interval mean ± q s: s is its bootstrap deviation, q the .95 quantile of the largest
    |mean* - mean| / s of all cells (max-t, Westfall and Young 1993), with trials and clusters drawn for all cells
    together. The lowest true mean of a defence then lies between the lowest lower and the lowest upper end. A cell of
    equal scores gets the deviation of one success in n + 4 questions (Agresti and Coull 1998), for it is no certainty.
    """
    values = np.asarray(scores, dtype=np.float64)
    defences, attacks, trials, questions = values.shape
    cells = values.reshape(-1, trials, questions)
    means = np.nanmean(cells, axis=(1, 2))
    generator = np.random.default_rng(seed)
    trial_counts, question_counts, _ = resampled(
        trials,
        questions,
        clusters,
        generator=generator,
        draws=draws,
    )
    totals = [drawn_sums(cell, trial_counts, question_counts) for cell in cells]
    sums, counts = np.moveaxis(np.array(totals), 1, 0)
    # A draw without an asked question leaves its cell at the mean.
    moved = np.where(counts > 0, sums / np.maximum(counts, 1), means[:, None]) - means[:, None]
    deviations = np.maximum(moved.std(axis=1), 1 / (questions + 4))
    largest = np.quantile((np.abs(moved) / deviations[:, None]).max(axis=0), 0.95)
    # No fewer than a single mean needs: cells of equal scores alone never move.
    reach = max(1.96, float(largest)) * deviations
    lows = (means - reach).clip(0, 1).reshape(defences, attacks).min(axis=1)
    highs = (means + reach).clip(0, 1).reshape(defences, attacks).min(axis=1)
    worst = []
    for attack_means, low, high in zip(
        means.reshape(defences, attacks),
        lows,
        highs,
        strict=True,
    ):
        attack = int(attack_means.argmin())
        worst.append(WorstCase(attack, float(attack_means[attack]), (float(low), float(high))))
    return worst


def solve(payoffs: npt.ArrayLike) -> tuple[float, Floats, Floats]:
    """Solves a game. Returns its value and the probabilities of rows and columns, where rows get `payoffs` [rows,
    columns].

    Rows maximise v subject to p'U >= v for every column (von Neumann 1928), as a linear program; its dual has columns.
    """
    utilities = np.asarray(payoffs, dtype=np.float64)
    rows, columns = utilities.shape
    # The variables are the probabilities of rows, and the value, which is as large as it can be.
    solved = linprog(
        np.append(np.zeros(rows), -1.0),
        A_ub=np.hstack([-utilities.T, np.ones((columns, 1))]),
        b_ub=np.zeros(columns),
        A_eq=np.append(np.ones(rows), 0.0)[None],
        b_eq=[1.0],
        bounds=[(0.0, None)] * rows + [(None, None)],
    )
    # Rounded, or the last bits of the solver would be in every file that has them.
    row_shares = solved.x[:-1].clip(0).round(6)
    column_shares = (-solved.ineqlin.marginals).clip(0).round(6)
    return float(solved.x[-1]), row_shares / row_shares.sum(), column_shares / column_shares.sum()
