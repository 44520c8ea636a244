"""The choice of questions of a limited run."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from actors.errors import UserError
from actors.messages import derive_seed

T = TypeVar("T")


def limited(items: Sequence[T], id_of: Callable[[T], str], count: int | None, seed: int) -> Iterator[T]:
    """The items with the ids that `choose` takes, in their own order."""
    chosen = choose(map(id_of, items), count, seed)
    return (item for item in items if chosen is None or id_of(item) in chosen)


def choose(ids: Iterable[str], count: int | None, seed: int) -> frozenset[str] | None:
    """The first `count` of `ids` in an order shuffled by `seed`; None (all of them) when `count` is None.

    The order depends on seed and id alone, so a larger count adds questions to a smaller one's, whatever the order
    of `ids`. Memory is proportional to `count`. Raises UserError for a count below 1.
    """
    if count is None:
        return None
    if count < 1:
        raise UserError(f"a number of questions must be at least 1, not {count}: leave it empty for all")
    # A heap, not a sort: MultimodalQA's 24,000 training ids need not be in memory for a choice of 40.
    return frozenset(heapq.nsmallest(count, ids, key=lambda id: (derive_seed(seed, id), id)))


def parted(ids: Iterable[str], train: int, limit: int | None, seed: int) -> tuple[frozenset[str], frozenset[str]]:
    """Training and evaluated ids, disjoint, of a benchmark that has labels for one split only.

    The evaluated ids are the first `limit` in the shuffled order of `choose`, the training ids its last `train`; with a
    limit of None all that are not trained on are evaluated.
    Raises UserError when there are too few, or for a count below 1.
    """
    ids = set(ids)
    if limit is not None and limit < 1:
        raise UserError(f"a number of questions must be at least 1, not {limit}: leave it empty for all")
    evaluated = len(ids) - train if limit is None else min(limit, len(ids))
    if evaluated < 1 or train + evaluated > len(ids):
        raise UserError(
            f"of {len(ids):,} questions, {train:,} are to be learned from and {limit or 'the rest'} evaluated, and "
            "none may be both: lower data.limit, pruning.steps or training.questions_per_step, or add questions"
        )
    # From opposite ends of one order, so that the evaluated questions do not depend on how long a run learns.
    order = sorted(ids, key=lambda id: (derive_seed(seed, id), id))
    # Not `order[-train:]`, which is everything for train=0.
    return frozenset(order[len(order) - train :]), frozenset(order[:evaluated])
