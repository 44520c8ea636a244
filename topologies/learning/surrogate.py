"""Sign check of the surrogate: do receivers' own answers stand for the final one?

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
    return torch.stack([own.sum(0), final.sum(0), (own * final).sum(0), (own**2).sum(0), (final**2).sum(0)])


def compare(sums: Tensor, linked: bool) -> Surrogate:
    """Checks the sign, pooled and of each sender, from `moments` over all samples.

    The check is repeated after every step. A bound of 1.96 standard errors would be crossed by chance now and then, so
    that the pooled sign needs as much evidence as that of one of many senders (Bonferroni).

    linked: whether the two scores correlate at all; where they do not, the final one counts.
    """
    a, f, both, a2, f2 = sums.numpy()
    product, square = a * f - both, a**2 - a2
    # Of a product of independent sums: with no effect at all, only the last term is there.
    variance = np.maximum(a**2 * f2 + f**2 * a2 - a2 * f2, a2 * f2)
    total, error, scale = float(product.sum()), sqrt(variance.sum()), float(square.sum())
    # Within its noise the ratio means nothing.
    known = scale > 2 * sqrt((2 * a2**2).sum()) and error > 0
    slope, error = (total / scale, error / scale) if known else (0.0, 0.0)
    bound = ndtri(1 - 0.025 / max(len(a), 1))
    apart = (a * f < 0) & (a**2 > bound**2 * a2) & (f**2 > bound**2 * f2)
    credit = "own" if linked and slope + bound * error >= 0 else "final"
    senders = tuple(np.flatnonzero(apart).tolist()) if credit == "own" else ()
    return Surrogate(slope, slope - 1.96 * error, slope + 1.96 * error, credit, senders)
