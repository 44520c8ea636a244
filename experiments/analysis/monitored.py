"""Monitor after learning: who answers worse in the evaluation than in training, from the records of both.

A score is compared with those of the agent's peers in the same discussion: x = own - b (mean of peers), b being the
least-squares slope in training (a control variate). A harder question, or a graph that serves all, changes x little.

For each mean m that x may have had in training, one bet has it that the mean was above m, and others, from several
questions on, that in the evaluation it is below m - `TOLERANCE`. Where these are false, the product of the first one's
capital and the others' mean is a test supermartingale at the true m. So the least product over all m reaches 1 / alpha
at any time with a probability of at most alpha (Ville's inequality; betting.py).
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from experiments.analysis.phase_tables import PhaseTables
from experiments.analysis.run_facts import Metrics
from topologies.betting import capitals
from topologies.learning.spec import LearnerSpec
from topologies.wiring import Bools, Floats

TOLERANCE = 0.1  # a smaller fall is no change: the graph that is left is not that of training
FIRST = 16  # bets begin with the first question, after this number, twice as many, and so on
MEANS = np.linspace(-1, 1, 81)
FINAL = "the final answer"


def summarise(
    learners: Mapping[str, LearnerSpec],
    shared_from: Mapping[str, str],
    trained: Mapping[str, Sequence[pd.DataFrame]],
    evaluated: Mapping[str, pd.DataFrame],
) -> dict[str, Metrics]:
    """Finds who answers worse in the evaluation, by learned method. An agent has [since which question, after which it
    showed].

    A method without records of both, as in a replayed run, has none.

    trained: `agent_scores` of the stages of each graph. evaluated: of each method.
    """
    monitors: dict[str, Metrics] = {}
    for method, spec in learners.items():
        # Several methods may have learned from the discussions of one.
        graphs = dict.fromkeys((shared_from.get(method, method), method))
        all_stages = chain.from_iterable(trained.get(graph, ()) for graph in graphs)
        stages = [stage for stage in all_stages if len(stage)]
        if stages and len(evaluated[method]):
            worse = fallen(
                pd.concat(stages),
                evaluated[method],
                spec.modalities,
                error_rate=spec.settings.error_rate,
            )
            monitors[method] = {"monitor": {agent: list(questions) for agent, questions in worse.items()}}
    return monitors


def agent_scores(tables: PhaseTables) -> pd.DataFrame:
    """Averages each agent's utility in each discussion, by what was asked. The last column is the final answer's.

    Failed turns are left out; so are discussions with a turn whose model or agent failed, and of unknown questions.
    """
    discussions = tables.discussions[tables.discussions["utility"].notna() & ~tables.failed].set_index("line")
    answered = tables.turns[tables.turns["answered"]]
    means = answered.groupby(["line", "agent"])["utility"].mean().unstack()
    agents = discussions["agents"].explode().dropna().unique()
    scores = means.reindex(index=discussions.index, columns=agents)
    scores[FINAL] = discussions["utility"]
    return scores.set_axis(discussions["asked"])


def fallen(
    trained: pd.DataFrame,
    evaluated: pd.DataFrame,
    modalities: Iterable[str],
    error_rate: float,
) -> dict[Any, tuple[int, int]]:
    """Finds columns that have become worse. Each has the evaluated question since which, and the one that showed it.

    trained, evaluated: scores from 0 to 1 of agents' own answers and, in the last column, of final ones, a row for each
    discussion, indexed by its question; NaN where there is none. modalities: of the agents.
    Returned questions count from 1, in the order of the rows. Without a change, any column is ever found in
    `error_rate` of all evaluations at most. A column must also have fallen by itself: where its peers improve, by a
    better graph, it has not changed.
    """
    kinds = np.array([*map(str, modalities), "none"])
    peers_trained = _peer_means(trained, kinds)
    peers_evaluated = _peer_means(evaluated, kinds)
    # Least squares, of all agents together.
    x = peers_trained.where(trained.notna())
    y = trained.where(peers_trained.notna())
    x = x - x.mean()
    y = y - y.mean()
    slope = np.clip((x * y).sum().sum() / max((x * x).sum().sum(), 1e-9), 0, 1)

    mean_trained = _by_question(trained).mean()
    own_scores = _by_question(evaluated)
    training_differences = _by_question(trained - slope * peers_trained)
    differences = _by_question(evaluated - slope * peers_evaluated)
    worse = {}
    for column in trained:
        reference = training_differences[column].dropna().to_numpy()
        values = differences[column].dropna()
        if not len(reference) or not len(values):
            continue
        certain, since = _evidence(reference, values.to_numpy(), error_rate / len(kinds))
        # Its own scores since then are below those of training as well.
        totals = np.concatenate([[0.0], own_scores[column][values.index].cumsum()])
        end = np.arange(1, len(values) + 1)
        means = (totals[end] - totals[since]) / np.maximum(end - since, 1)
        certain &= means < mean_trained[column] - TOLERANCE
        if certain.any():
            place = int(certain.argmax())
            worse[column] = int(values.index[since[place]]) + 1, int(values.index[place]) + 1
    return worse


def _peer_means(scores: pd.DataFrame, kinds: np.ndarray) -> pd.DataFrame:
    """Averages each agent's peers in each discussion. 0 for an agent without any, NaN where none of them answered."""
    peers = (kinds[:, None] == kinds) & ~np.eye(len(kinds), dtype=bool)
    answers = scores.notna().to_numpy() @ peers.astype(int)
    sums = scores.fillna(0).to_numpy() @ peers
    means = np.divide(sums, answers, out=np.full(sums.shape, np.nan), where=answers > 0)
    means[:, ~peers.any(axis=0)] = 0.0
    return pd.DataFrame(means, index=scores.index, columns=scores.columns)


def _by_question(scores: pd.DataFrame) -> pd.DataFrame:
    return scores.groupby(level=0, sort=False).mean().reset_index(drop=True)


def _evidence(training: Floats, evaluation: Floats, error_rate: float) -> tuple[Bools, npt.NDArray[np.int64]]:
    """Tells after each question (n,) if it is certain that the mean fell, and the question since which it did."""
    # Bets from several questions on, with shares of the money that sum to less than 1.
    later = FIRST * 2 ** np.arange(len(evaluation).bit_length())
    starts = np.array([0, *later[later < len(evaluation)]])
    numbers = np.arange(1.0, len(starts) + 1)
    shares = 1 / numbers / (numbers + 1)
    # The part of the money that is not bet stays, as does that of bets that have not begun.
    money = np.ones((len(starts), len(evaluation), len(MEANS))) * shares[:, None, None]
    for start, bet in zip(starts, money, strict=True):
        _, below = capitals(evaluation[start:], np.maximum(MEANS - TOLERANCE, -1))
        bet[start:] *= below
    total = money.sum(0) + 1 - shares.sum()

    above, _ = capitals(training, MEANS)
    certain = (above[-1] * total).min(1) >= 1 / error_rate
    # The bet that has won most began about when the mean fell.
    nearest = np.abs(MEANS - training.mean()).argmin()
    return certain, starts[money[:, :, nearest].argmax(0)]
