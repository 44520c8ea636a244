"""The area under the ROC curve."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def auc(low: npt.ArrayLike, high: npt.ArrayLike) -> float | None:
    """The share of pairs in which a value of `low` (n,) is below one of `high` (m,), ties counting half.

    None where one of them is empty.
    """
    lower, higher = np.asarray(low, dtype=np.float64), np.asarray(high, dtype=np.float64)
    if not lower.size or not higher.size:
        return None
    # All pairs at once, [n, m]: there are as many values as edges, so the matrix stays small.
    return float((lower[:, None] < higher).mean() + (lower[:, None] == higher).mean() / 2)
