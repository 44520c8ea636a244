"""Scores of a graph: paths that a method followed through a knowledge graph, and rankings of edges."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from topologies.answers import wording

PATH_METRICS = ("path_precision", "path_recall", "edge_precision", "edge_recall")

Names = tuple[str, ...]


def path_metrics(followed: Sequence[Names] | None, annotated: Sequence[Names]) -> dict[str, float]:
    """`PATH_METRICS` of one answer, each in [0, 1].

    Empty for a method that follows no paths (None) and for a question without annotated ones.

    A whole path counts when all its entities are the same in the same order, as in the script of MH-Benchmark's authors
    (`knowledge consistency`): precision is the share of the followed paths that are annotated, recall the share of the
    annotated ones that were followed, and both are 0 where none was. Edges are counted once each, whatever paths
    they are on; a question with none in its annotated paths is left out of their means.
    """
    # None is a method without paths; an empty list is one that found none, and scores 0.
    if followed is None or not annotated:
        return {}
    gold, named = _named(annotated), _named(followed)
    scores = dict(zip(PATH_METRICS[:2], _precision_recall(named, gold), strict=True))
    # A path of one entity has no edge, and recall would divide by zero.
    if edges := _edges(gold):
        scores |= zip(PATH_METRICS[2:], _precision_recall(_edges(named), edges), strict=True)
    return scores


def _precision_recall(followed: Iterable[Names], gold: Iterable[Names]) -> tuple[float, float]:
    # Sets: a path that was followed twice counts once.
    followed, gold = set(followed), set(gold)
    right = len(followed & gold)
    return (right / len(followed) if followed else 0.0), right / len(gold)


def _named(paths: Iterable[Sequence[str]]) -> set[Names]:
    return {tuple(map(wording, path)) for path in paths}


def _edges(paths: Iterable[Names]) -> set[Names]:
    return {edge for path in paths for edge in pairwise(path)}


def auc(low: npt.ArrayLike, high: npt.ArrayLike) -> float | None:
    """The share of pairs in which a value of `low` (n,) is below one of `high` (m,), ties counting half.

    None where one of them is empty.
    """
    lower, higher = np.asarray(low, dtype=np.float64), np.asarray(high, dtype=np.float64)
    if not lower.size or not higher.size:
        return None
    # All pairs at once, [n, m]: there are as many values as edges, so the matrix stays small.
    return float((lower[:, None] < higher).mean() + (lower[:, None] == higher).mean() / 2)
