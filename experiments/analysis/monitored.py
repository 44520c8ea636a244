"""Monitor after learning: who answers worse in the evaluation than in training, from the records of both.

A score is compared with those of the agent's peers in the same discussion: x = own - b (mean of peers), b being the
least-squares slope in training (a control variate). A harder question, or a graph that serves all, changes x little.

For each mean m that x may have had in training, one bet has it that the mean was above m, and others, from several
questions on, that in the evaluation it is below m - `TOLERANCE`. Where these are false, the product of the first one's
capital and the others' mean is a test supermartingale at the true m. So the least product over all m reaches 1 / alpha
at any time with a probability of at most alpha (Ville's inequality; betting.py).
"""

from collections.abc import Iterable, Mapping
from functools import cache
from math import nan

import numpy as np
import pandas as pd

from actors.messages import Status, Trace
from experiments.analysis.scores import answers, scorer
from experiments.analysis.summary import Metrics
from experiments.datasets.item import Dataset, Item
from experiments.records.recorder import RunFolder
from topologies.betting import capitals
from topologies.learning.spec import LearnerSpec

TOLERANCE = 0.1  # a smaller fall is no change: the graph that is left is not that of training
FIRST = 16  # bets begin with the first question, after this number, twice as many, and so on
MEANS = np.linspace(-1, 1, 81)


def summarise(
    run: RunFolder,
    learners: Mapping[str, LearnerSpec],
    shared_from: Mapping[str, str],
    train: Iterable[Item],
    dataset: Dataset,
) -> dict[str, Metrics]:
    """Finds who answers worse in the evaluation, by learned method. An agent has [since which question, after which it
    showed].

    A method without records of both, as in a replayed run, has none. train: the items of training.
    """
    items = {item.question.id: item for item in train}
    asked = {item.question.id: item for item in dataset.evaluate()} if learners else {}

    @cache
    def trained(graph: str) -> pd.DataFrame:
        """Reads the scores in a graph's training, from which several methods may have learned."""
        folder = run.learned(graph)
        traces = (trace for path in folder.training_traces() for trace in folder.traces(path.stem))
        return scores_of(traces, items, dataset)

    found: dict[str, Metrics] = {}
    for method, spec in learners.items():
        of_graphs = map(trained, dict.fromkeys((shared_from.get(method, method), method)))
        before = [scores for scores in of_graphs if len(scores)]
        evaluated = scores_of(run.traces(f"evaluate-{method}"), asked, dataset)
        if before and len(evaluated):
            worse = fallen(pd.concat(before), evaluated, spec.modalities, spec.settings.error_rate)
            names = (*next(run.traces(f"evaluate-{method}")).agents, "the final answer")
            found[method] = {"monitor": {names[column]: list(shown) for column, shown in worse.items()}}
    return found


def scores_of(traces: Iterable[Trace], items: Mapping[str, Item], dataset: Dataset) -> pd.DataFrame:
    """Scores discussions, by question: each agent's mean, and last the final answer.

    Failed turns are left out; so are discussions with a turn whose model or agent failed, and of unknown questions.
    """
    utility, rows, questions = scorer(items, dataset.score), [], []
    for trace in traces:
        if trace.question in items and all(turn.status is not Status.FAILED for turn in trace.turns):
            own: dict[str, list[float]] = {name: [] for name in trace.agents}
            for turn in trace.turns:
                if turn.agent in own and answers(turn):
                    own[turn.agent].append(utility(trace.question, turn.answer))
            means = (sum(scores) / len(scores) if scores else nan for scores in own.values())
            rows.append([*means, utility(trace.question, trace.answer)])
            # Variants of a question count as one.
            questions.append(items[trace.question].group or trace.question)
    return pd.DataFrame(rows, questions)


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
