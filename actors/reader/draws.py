"""Random draws that depend on their names and not on earlier draws."""

from functools import lru_cache
from statistics import NormalDist

from actors.messages import derive_seed

CACHED_DRAWS = 1 << 15
_NORMAL = NormalDist()
_SEEDS = 2.0**63  # one more than the largest derived seed


def uniform(seed: int, *parts: str | int) -> float:
    """Draws a number in (0, 1)."""
    return (derive_seed(seed, *parts) + 0.5) / _SEEDS


@lru_cache(maxsize=CACHED_DRAWS)
def gaussian(seed: int, *parts: str | int) -> float:
    """Draws from the standard normal distribution. Cached: equal turns of several discussions have one seed."""
    # Rounding may lead to 0 and 1, which have no quantile.
    return _NORMAL.inv_cdf(min(max(uniform(seed, *parts), 1e-12), 1 - 1e-12))
