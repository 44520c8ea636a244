"""Monitor after learning: who answers worse in the evaluation than in training. It looks after every question.

A score is compared with those of the agent's peers in the same discussion: x = own - b (mean of peers), b being the
least-squares slope in training (a control variate). A harder question, or a graph that serves all, changes x little.

For each mean m that x may have had in training, one bet has it that the mean was above m, and others, from several
questions on, that in the evaluation it is below m - `TOLERANCE`. Where these are false, the product of the first one's
capital and the others' mean is a test supermartingale at the true m. So the least product over all m reaches 1 / alpha
at any time with a probability of at most alpha (Ville's inequality; betting.py).
"""

from collections.abc import Iterable

import numpy as np
import pandas as pd

from topologies.betting import capitals

TOLERANCE = 0.1  # a smaller fall is no change: the graph that is left is not that of training
FIRST = 16  # bets begin with the first question, after this number, twice as many, and so on
MEANS = np.linspace(-1, 1, 81)


def fallen(
    trained: pd.DataFrame, evaluated: pd.DataFrame, modalities: Iterable[str], error_rate: float
) -> dict[int, tuple[int, int]]:
    """Finds columns that have become worse. Each has the evaluated question since which, and the one that showed it.

    trained, evaluated: scores from 0 to 1 of agents' own answers and, in the last column, of final ones, a row for each
    discussion, indexed by its question; NaN where there is none. modalities: of the agents.
    Returned questions count from 1, in the order of the rows. Without a change, any column is ever found in
    `error_rate` of all evaluations at most. A column must also have fallen by itself: where its peers improve, by a
    better graph, it has not changed.
    """
    kinds = np.array([*map(str, modalities), "none"])
    peers = (kinds[:, None] == kinds) & ~np.eye(len(kinds), dtype=bool)
    # The mean of each agent's peers in a discussion; 0 for one without any.
    alone = dict.fromkeys(np.flatnonzero(~peers.any(0)), 0.0)
    theirs, theirs_now = (
        (of.fillna(0) @ peers / (of.notna() @ peers.astype(int)).replace(0, np.nan)).fillna(alone)
        for of in (trained, evaluated)
    )
    # Least squares, of all agents together.
    x, y = (each - each.mean() for each in (theirs.where(trained.notna()), trained.where(theirs.notna())))
    slope = np.clip((x * y).sum().sum() / max((x * x).sum().sum(), 1e-9), 0, 1)
    own, own_now, before, now = (
        of.groupby(level=0, sort=False).mean().reset_index(drop=True)
        for of in (trained, evaluated, trained - slope * theirs, evaluated - slope * theirs_now)
    )
    found = {}
    for column in before:
        seen, later = before[column].dropna().to_numpy(), now[column].dropna()
        if not len(seen) or not len(later):
            continue
        # Bets from several questions on, with shares of the money that sum to less than 1.
        starts = [0, *(FIRST * 2**i for i in range(len(later).bit_length()) if FIRST * 2**i < len(later))]
        weights = 1 / np.arange(1.0, len(starts) + 1) / np.arange(2.0, len(starts) + 2)
        # The part of the money that is not bet stays, as does that of bets that have not begun.
        won = np.ones((len(starts), len(later), len(MEANS))) * weights[:, None, None]
        for start, part in zip(starts, won, strict=True):
            part[start:] *= capitals(later.to_numpy()[start:], np.maximum(MEANS - TOLERANCE, -1))[1]
        below, end = won.sum(0) + 1 - weights.sum(), np.arange(1, len(later) + 1)
        # The bet that has won most began about when the column became worse.
        since = np.array(starts)[won[:, :, np.abs(MEANS - seen.mean()).argmin()].argmax(0)]
        total = np.concatenate([[0.0], own_now[column][later.index].cumsum()])
        worse = (total[end] - total[since]) / np.maximum(end - since, 1) < own[column].mean() - TOLERANCE
        sure = worse & ((capitals(seen, MEANS)[0][-1] * below).min(1) >= len(kinds) / error_rate)
        if sure.any():
            first = int(sure.argmax())
            found[int(column)] = int(later.index[since[first]]) + 1, int(later.index[first]) + 1
    return found
