"""Sign check of the surrogate: whether receivers' own answers may replace the final one.

`effects` estimates what an edge does to its receiver's own answers, which are many, where the team is after the final
answer. This misleads where an edge helps its receiver and harms the team (the surrogate paradox, VanderWeele 2013).

With x_i the sum over a sender's edges of (e - p) in sample i, weighted by the receiver's credit (a_i) or the final one
(f_i), sum_i a_i sum_j f_j - sum_i a_i f_i has the product of the two effects as its mean: noise that both share in one
sample is left out (a U-statistic). Their ratio to the same form of a_i alone is the slope.
"""

from math import sqrt

import numpy as np
import torch
from scipy.special import ndtri
from torch import Tensor

from topologies.learning.spec import Surrogate


def moments(own: Tensor, final: Tensor) -> Tensor:
    """Sums over samples of a, f, a f, a^2 and f^2, [5, senders]; own, final: a and f, [k, senders]."""
    return torch.stack([own, final, own * final, own**2, final**2]).sum(1)


def compare(sums: Tensor, linked: bool) -> Surrogate:
    """Checks the sign, pooled and of each sender, from `moments` over all samples.

    The check is repeated after every step. A bound of 1.96 standard errors would be crossed by chance now and then, so
    that the pooled sign needs as much evidence as that of one of many senders (Bonferroni).

    linked: whether the two scores correlate at all; where they do not, the final one counts.
    """
    own_effects, final_effects, products, own_squares, final_squares = sums.numpy()

    total = float((own_effects * final_effects - products).sum())
    scale = float((own_effects**2 - own_squares).sum())
    # Of a product of independent sums: with no effect at all, only the last term is there.
    noise = own_squares * final_squares
    variance = np.maximum(own_effects**2 * final_squares + final_effects**2 * own_squares - noise, noise)
    error = sqrt(variance.sum())
    # Within its noise the ratio means nothing.
    if scale > 2 * sqrt((2 * own_squares**2).sum()) and error > 0:
        slope = total / scale
        error = error / scale
    else:
        slope = error = 0.0

    bound = ndtri(1 - 0.025 / max(len(own_effects), 1))
    interval = (slope, slope - 1.96 * error, slope + 1.96 * error)
    if not linked or slope + bound * error < 0:
        return Surrogate(*interval, credit="final", senders=())
    significant = (own_effects**2 > bound**2 * own_squares) & (final_effects**2 > bound**2 * final_squares)
    opposite = np.flatnonzero((own_effects * final_effects < 0) & significant)
    return Surrogate(*interval, credit="own", senders=tuple(opposite.tolist()))
