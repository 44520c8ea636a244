"""How well the paths that a method followed through a knowledge graph agree with the annotated ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from topologies.answers import wording

PATH_METRICS = ("path_precision", "path_recall", "edge_precision", "edge_recall")

Names = tuple[str, ...]


def path_metrics(followed: Sequence[Names] | None, annotated: Sequence[Names]) -> dict[str, float]:
    """`PATH_METRICS` of one answer, each in [0, 1]; none for a method that follows no paths (None) and a question
    without annotated ones.

    A whole path counts when all its entities are the same in the same order, as in the script of MH-Benchmark's authors
    (`knowledge consistency`): precision is the share of the found paths that are annotated, recall the share of the
    annotated ones that were found, and both are 0 where nothing was found. Edges are counted once each,
    whatever paths they are on; a question whose annotated paths have none is left out of their means.
    """
    if followed is None or not annotated:
        return {}
    gold, found = _named(annotated), _named(followed)
    scores = dict(zip(PATH_METRICS[:2], _precision_recall(found, gold), strict=True))
    if edges := _edges(gold):
        scores |= zip(PATH_METRICS[2:], _precision_recall(_edges(found), edges), strict=True)
    return scores


def _precision_recall(found: Iterable[Names], gold: Iterable[Names]) -> tuple[float, float]:
    found, gold = set(found), set(gold)
    right = len(found & gold)
    return (right / len(found) if found else 0.0), right / len(gold)


def _named(paths: Iterable[Sequence[str]]) -> set[Names]:
    return {tuple(map(wording, path)) for path in paths}


def _edges(paths: Iterable[Names]) -> set[Names]:
    return {edge for path in paths for edge in pairwise(path)}
