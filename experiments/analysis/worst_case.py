"""Worst case of each defence over attacks, and the solution of the game between both."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import linprog

from experiments.analysis.statistics import Clusters, resampled
from topologies.wiring import Floats


@dataclass(frozen=True, slots=True)
class WorstCase:
    """Lowest mean score of a defence, the index of its attack, and its 95% interval."""

    attack: int
    mean: float
    ci95: tuple[float, float]


def worst_cases(scores: npt.ArrayLike, seed: int, draws: int = 2000, clusters: Clusters = ()) -> list[WorstCase]:
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
    cells, generator = values.reshape(-1, trials, questions), np.random.default_rng(seed)
    of_trials, of_questions, _ = resampled(trials, questions, clusters, generator, draws)
    means, asked = np.nanmean(cells, axis=(1, 2)), np.isfinite(cells)
    sums = np.stack([((of_trials @ cell) * of_questions).sum(1) for cell in np.where(asked, cells, 0.0)], axis=1)
    counts = np.stack([((of_trials @ cell) * of_questions).sum(1) for cell in asked.astype(np.float64)], axis=1)
    # A draw without an asked question leaves its cell at the mean.
    moved = np.where(counts > 0, sums / np.maximum(counts, 1), means) - means
    deviations = np.maximum(moved.std(axis=0), 1 / (questions + 4))
    # No fewer than a single mean needs: cells of equal scores alone never move.
    reach = max(1.96, float(np.quantile((np.abs(moved) / deviations).max(axis=1), 0.95))) * deviations
    lowest = means.reshape(defences, attacks).argmin(axis=1)
    ends = np.stack([means - reach, means + reach]).clip(0, 1).reshape(2, defences, attacks).min(axis=2)
    return [
        WorstCase(int(attack), float(means[row * attacks + attack]), (float(ends[0, row]), float(ends[1, row])))
        for row, attack in enumerate(lowest)
    ]


def solve(payoffs: npt.ArrayLike) -> tuple[float, Floats, Floats]:
    """Solves a game. Returns its value and the probabilities of rows and columns, where rows get `payoffs` [rows,
    columns].

    Rows maximise v subject to p'U >= v for every column (von Neumann 1928), as a linear program; its dual has columns.
    """
    utilities = np.asarray(payoffs, dtype=np.float64)
    rows, columns = utilities.shape
    at_least, simplex = np.hstack([-utilities.T, np.ones((columns, 1))]), np.append(np.ones(rows), 0.0)[None]
    bounds = [(0.0, None)] * rows + [(None, None)]
    solved = linprog(np.append(np.zeros(rows), -1.0), at_least, np.zeros(columns), simplex, [1.0], bounds)
    # Rounded, or the last bits of the solver would be in every file that has them.
    p, q = solved.x[:-1].clip(0).round(6), (-solved.ineqlin.marginals).clip(0).round(6)
    return float(solved.x[-1]), p / p.sum(), q / q.sum()
