"""Bets against a mean: tests of bounded values, valid after every value.

Waudby-Smith and Ramdas (2024), section 4: the capital of a bet against a mean is a test martingale if that is the mean.
It then ever reaches 1 / alpha with a probability of at most alpha (Ville's inequality).
"""

import numpy as np

from topologies.wiring import Floats

MOST = 0.9  # of the capital that one value can lose, so that no bet ruins


def capitals(values: Floats, means: Floats) -> tuple[Floats, Floats]:
    """Bets that the mean of `values` (k,) is above, and below, `means` (m,): the capital after each value, [k, m].

    Values and means are from -1 to 1. The share of the capital that is bet is aGRAPA's (appendix B.3), known before a
    value is seen: the mean of earlier values over their mean square, both as deviations from the mean bet against.
    """
    gains = values[:, None] - means
    count = np.arange(1, len(values) + 1)[:, None]

    # As if one value had been seen before the first: no deviation, and half the largest variance.
    mean = np.zeros_like(gains)
    mean[1:] = (np.cumsum(gains, axis=0) / (count + 1))[:-1]
    square = np.full_like(gains, 0.5)
    square[1:] = ((np.cumsum(gains**2, axis=0) + 0.5) / (count + 1))[:-1]

    share_above = np.clip(mean / square, 0, MOST / (1 + means + 1e-12))
    share_below = np.clip(-mean / square, 0, MOST / (1 - means + 1e-12))

    # After thousands of values a capital may be infinite, as much as any bound needs.
    with np.errstate(over="ignore"):
        above = np.cumprod(1 + share_above * gains, axis=0)
        below = np.cumprod(1 - share_below * gains, axis=0)
    return above.astype(np.float64), below.astype(np.float64)
