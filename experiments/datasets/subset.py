"""Which questions a limited run uses."""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from actors.messages import derive_seed
from experiments.errors import UserError


def choose(ids: Iterable[str], count: int | None, seed: int) -> frozenset[str] | None:
    """The first `count` of `ids` in an order shuffled by `seed`; None (all of them) when `count` is None.

    The order depends on seed and id alone, so a larger count adds questions to a smaller one's, whatever the order
    of `ids`. Memory is proportional to `count`. Raises UserError for a count below 1.
    """
    if count is None:
        return None
    if count < 1:
        raise UserError(f"a number of questions must be at least 1, not {count}: leave it empty for all")
    return frozenset(heapq.nsmallest(count, ids, key=lambda id: (derive_seed(seed, id), id)))
