"""Scores answers by exact match, F1, recall of documents, and paths through a knowledge graph.

Normalisation, strict exact match and list F1 follow MultimodalQA's official script, which follows DROP's and SQuAD's;
the exact match that M3Prune reports is the lenient one by containment.
"""

import re
import string
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import pairwise
from math import fsum

import numpy as np
from scipy.optimize import linear_sum_assignment

from topologies.answers import ARTICLES, NUMBER_WORDS, wording

MOST_SPANS = 2**14
PATH_METRICS = ("path_precision", "path_recall", "edge_precision", "edge_recall")

Names = tuple[str, ...]

# The texts that float() reads, as in the script.
_NUMBER = re.compile(r"[+-]?((\d+(\.\d*)?|\.\d+)(e[+-]?\d+)?|nan|inf|infinity)", re.ASCII)
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
# The point and the plus may belong to a number at its start (.5, +3); the minus is a separator before it comes here.
_WRAPPING = string.punctuation.replace(".", "").replace("+", "")


def normalise(text: str) -> str:
    """Writes a text in lower case, without punctuation and articles. Numbers and number words become floats.

    "The two-time champion" becomes "2.0 time champion"; "1,161" becomes "1161.0". Unlike the official script, a decimal
    keeps its point next to other punctuation: "$6.9," is 6.9, not 69.
    """
    tokens: list[str] = []
    # Hyphens split before punctuation goes, or "two-time" would become one word.
    for word in re.split(r"[\s-]+", text.lower()):
        # Tried before punctuation is removed, which would turn 6.9 into 69.
        number = word.strip(_WRAPPING).rstrip(string.punctuation).replace(",", "")
        token = word.translate(_NO_PUNCTUATION)
        match = _NUMBER.fullmatch(number) or _NUMBER.fullmatch(token)
        if match:
            tokens.append(str(float(match[0])))
        # As floats like digits, so that "two" equals "2".
        elif token in NUMBER_WORDS:
            tokens.append(str(float(NUMBER_WORDS[token])))
        elif token and token not in ARTICLES:
            tokens.append(token)

    return " ".join(tokens)


def readings(answer: str) -> list[list[str]]:
    """Reads an answer as one span and, where it has separators, as a list. They are `, `, `;`, a line break and "and".

    The official script is given lists; a model writes a sentence. Both readings are scored and the better one counts.
    """
    parts = [part for part in re.split(r",\s|[;\n]|\band\b", answer) if part.strip()]
    return [[answer], parts] if len(parts) > 1 else [[answer]]


def exact_match(answer: str, gold: Sequence[str]) -> float:
    """M3Prune's EM: 1 when the answer equals or contains every gold answer, normalised, else 0.

    Contained means as a run of whole tokens: "cat" is in "a black cat" and not in "category". An answer that lists
    many candidates passes, so this is an upper bound of `strict_exact_match`. Raises ValueError without gold.
    """
    # Blanks around both make `in` match whole tokens only.
    tokens = f" {_span(answer)} "
    return float(all(f" {span} " in tokens for span in _gold_spans(gold)))


def strict_exact_match(answer: str, gold: Sequence[str]) -> float:
    """Computes the official script's EM: 1 for the same spans in answer and gold, normalised, in any order."""
    # Sorted lists compare as multisets: order is free, repetitions are not.
    gold_spans = sorted(_gold_spans(gold))
    return float(any(sorted(map(_span, reading)) == gold_spans for reading in readings(answer)))


def list_f1(answer: str, gold: Sequence[str]) -> float:
    """Computes the official script's F1: mean bag-of-tokens F1 of answer and gold spans, best aligned one to one.

    Spans left over on either side count as 0; a gold span with numbers matches only an answer span that has one of
    them. Not rounded, unlike the official script's two decimals per question.
    """
    gold_bags = [set(span.split()) for span in _gold_spans(gold)]
    scores: list[float] = []
    for reading in readings(answer):
        bags = [set(_span(part).split()) for part in reading]
        f1 = np.array([[_bag_f1(bag, gold_bag) for bag in bags] for gold_bag in gold_bags])
        scores.append(fsum(f1[linear_sum_assignment(f1, maximize=True)]) / max(f1.shape))
    return max(scores)


def _bag_f1(bag: set[str], gold_bag: set[str]) -> float:
    common = len(bag & gold_bag)
    numbers = {token for token in gold_bag if _NUMBER.fullmatch(token)}
    # DROP's rule: a right unit with a wrong number earns nothing.
    if not common or (numbers and not numbers & bag):
        return 0.0
    return 2 * common / (len(bag) + len(gold_bag))


@lru_cache(MOST_SPANS)  # agents repeat each other's answers, and resuming a run scores all of them again
def _span(text: str) -> str:
    """Normalises a span. One that would be empty ("A", "The") is in lower case instead."""
    return normalise(text) or text.strip().lower()


def _gold_spans(gold: Sequence[str]) -> list[str]:
    # A text is a sequence too, of letters, and would be scored without an error.
    if isinstance(gold, str) or not gold:
        raise ValueError(f"gold answers are a non-empty sequence of strings, not {gold!r}")
    return [_span(text) for text in gold]


def recall_at_k(retrieved: Sequence[str], supporting: Iterable[str], k: int) -> float:
    """Share of supporting documents among the k retrieved first. Raises ValueError when nothing supports."""
    # A set of documents: several rows of one table among the first k find it once.
    documents = frozenset(supporting)
    if not documents:
        raise ValueError("recall needs at least one supporting document")
    return len(documents.intersection(retrieved[:k])) / len(documents)


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

    followed_paths, followed_edges = _paths_and_edges(followed)
    gold_paths, gold_edges = _paths_and_edges(annotated)
    scores = {
        "path_precision": _share(followed_paths & gold_paths, followed_paths),
        "path_recall": _share(followed_paths & gold_paths, gold_paths),
    }
    # A path of one entity has no edge, and recall would divide by zero.
    if gold_edges:
        scores["edge_precision"] = _share(followed_edges & gold_edges, followed_edges)
        scores["edge_recall"] = _share(followed_edges & gold_edges, gold_edges)

    return scores


def _paths_and_edges(paths: Iterable[Names]) -> tuple[set[Names], set[Names]]:
    """Paths and their edges as sets: a path that was followed twice counts once."""
    distinct = {tuple(map(wording, path)) for path in paths}
    edges = set[Names]()
    for path in distinct:
        edges.update(pairwise(path))
    return distinct, edges


def _share(common: set[Names], names: set[Names]) -> float:
    return len(common) / len(names) if names else 0.0
