"""Shapley values of turns, estimated from random orders."""

from collections.abc import Mapping, Sequence

import numpy as np
from scipy import stats

from topologies.wiring import Floats


def draw_orders(turns: int, number: int, seed: int) -> list[list[int]]:
    """Draws `number` (even) orders of the turns. Each second one reverses the one before (antithetic pairs)."""
    rng = np.random.default_rng(seed)
    orders = []
    for _ in range(number // 2):
        order = rng.permutation(turns).tolist()
        orders.append(order)
        orders.append(order[::-1])
    return orders


def coalitions(orders: Sequence[Sequence[int]]) -> list[frozenset[int]]:
    """Lists the coalitions whose values `shapley` needs, each once."""
    leading = [frozenset(order[:size]) for order in orders for size in range(len(order) + 1)]
    return list(dict.fromkeys(leading))


def shapley(value: Mapping[frozenset[int], float], orders: Sequence[Sequence[int]]) -> Floats:
    """Shapley values of turns, float [players, 3]: means of v(those before i, and i) - v(those before i) over orders.

    The estimate is that of Castro et al. (2009). Columns are the value and the ends of Student's 95% interval over the
    means of pairs of orders; NaN for a single pair.
    """
    sizes = range(len(orders[0]) + 1)
    values = np.array([[value[frozenset(order[:size])] for size in sizes] for order in orders])
    gains = np.take_along_axis(np.diff(values), np.argsort(orders), axis=1)
    pairs = gains.reshape(len(orders) // 2, 2, -1).mean(axis=1)
    half = stats.t.ppf(0.975, len(pairs) - 1) * stats.sem(pairs)
    mean = pairs.mean(axis=0)
    phi: Floats = np.stack([mean, mean - half, mean + half], axis=1)
    return phi
