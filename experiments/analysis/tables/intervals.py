"""Means over some questions of several trials, means of such means, and their 95% intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from experiments.analysis.statistics import crossed_interval

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Part:
    """What a column is the mean of: `values` [trials, questions], NaN where a question is not the column's. Parts
    with the same `origin` have the same trials and questions in the same places, other parts share none."""

    origin: str
    values: Floats

    @property
    def mean(self) -> float:
        return float(np.nanmean(self.values))


def mean_interval(parts: Sequence[Part], seed: int, draws: int = 2000) -> tuple[float, float]:
    """95% interval of the unweighted mean of the parts' means, each a mean of all that it holds.

    One part: `crossed_interval`. Several: its pigeonhole bootstrap with the questions and trials of each origin drawn
    together, so that a question that counts in several parts (a hop and a modality) is drawn in all or in none.
    Draws in which a part is left without questions are put aside.
    """
    if len(parts) == 1:
        return crossed_interval(parts[0].values, seed)
    generator = np.random.default_rng(seed)
    total, usable = np.zeros(draws), np.ones(draws, dtype=bool)
    for origin in dict.fromkeys(part.origin for part in parts):
        of_origin = [part.values for part in parts if part.origin == origin]
        trials, questions = of_origin[0].shape
        of_trials = generator.multinomial(trials, np.full(trials, 1 / trials), size=draws)
        of_questions = generator.multinomial(questions, np.full(questions, 1 / questions), size=draws)
        for values in of_origin:
            asked = np.isfinite(values)
            counts = np.einsum("dq,dq->d", of_trials @ asked.astype(np.float64), of_questions)
            sums = np.einsum("dq,dq->d", of_trials @ np.where(asked, values, 0.0), of_questions)
            usable &= counts > 0
            total += sums / np.maximum(counts, 1)
    if not usable.any():
        raise ValueError("a mean of columns needs draws in which each of them has a question")
    low, high = np.quantile(total[usable] / len(parts), [0.025, 0.975])
    return float(low), float(high)
