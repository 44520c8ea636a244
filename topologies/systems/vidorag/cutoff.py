"""The number of retrieved sources to keep: a mixture of two Gaussians on their scores (ViDoRAG, Wang et al. 2025)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

REGULARISATION = 1e-6  # of the variances of scores in [0, 1]


def kept(scores: Sequence[float], least: int = 1, most: int | None = None) -> int:
    """The number of scores, best first, that the better of two components explains.

    ViDoRAG takes the scores of twice as many candidates as it wants as a mixture of relevant and irrelevant ones, and
    lets the data say where the one ends: what is kept are those that belong more likely to the component of the higher
    mean. A sharp query keeps few, a vague one many. The paper leaves open what a wide component does (its tail may
    claim the very worst scores too) and where the fit starts: here only the leading run counts, and the components
    start at the best and at the worst score, so that nothing is left to chance. Scores are scaled to [0, 1] first,
    so that cosines and BM25 are treated alike.

    Args:
        scores: best first, finite.
        least: the fewest to keep whatever the mixture says, if there are so many.
        most: the most to keep whatever it says; None: no limit.

    Returns:
        As many as there may be where there is nothing to tell apart: fewer than three scores, or all the same.

    Raises:
        ValueError: scores that are not finite or not in descending order.
    """
    values = np.asarray(scores, dtype=float)
    if not np.isfinite(values).all() or (np.diff(values) > 0).any():
        raise ValueError("scores must be finite numbers, best first")
    most = len(values) if most is None else min(most, len(values))
    if len(values) < 3 or values[0] == values[-1]:
        return most
    from sklearn.mixture import GaussianMixture  # takes a second to import, which other systems need not wait for

    # The scores differ, so neither this range nor the variance below is 0.
    scaled = ((values - values[-1]) / (values[0] - values[-1])).reshape(-1, 1)
    mixture = GaussianMixture(
        2,
        reg_covar=REGULARISATION,
        weights_init=(0.5, 0.5),
        means_init=((1.0,), (0.0,)),
        precisions_init=np.full((2, 1, 1), 1 / scaled.var()),
        init_params="random",  # overridden by the above, and cheap
        random_state=0,
    ).fit(scaled)
    # The first score of the lower component ends the run, even if the wide tail of the higher one follows it.
    others = np.flatnonzero(mixture.predict(scaled) != int(np.argmax(mixture.means_[:, 0])))
    leading = int(others[0]) if len(others) else len(values)
    return min(most, max(least, leading))
