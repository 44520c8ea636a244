"""Bets against a mean stay usable however many values there are."""

import numpy as np

from topologies.betting import capitals


def test_thousands_of_like_values_make_one_capital_infinite_and_the_other_nothing() -> None:
    above, below = capitals(np.full(3_000, 0.9), np.array([-0.9]))
    assert np.isinf(above[-1, 0])
    assert below[-1, 0] <= 1
