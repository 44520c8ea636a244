"""How much a stage's cut would still change if the stage went on to its end: by that, learning may stop early.

What is still to come is foreseen from what was seen: each logit at the end of the stage has a mean and a variance (the
estimators' `outlook`). Of many such futures each has its cut. An edge on whose side of the cut two futures differ is
misjudged by cutting now, the worse the farther it then is from the boundary; an edge that is at the boundary does not
matter.

Of noise alone, after a quarter, half and three quarters of a stage, shares of .12, .09 and .05 are foreseen to be
misjudged: with more than that as `settled`, a learner that has learned nothing would stop there too.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Generator, Tensor

from topologies.learning.effects import Estimate

FUTURES = 400


class EndCut(NamedTuple):
    """What the end of a stage leaves of a matrix: the `room` most probable edges at most, and with `by_sign` only those
    with a logit of 0 or more."""

    room: int
    by_sign: bool


def misjudged(now: Tensor, end: Estimate, cut: EndCut, generator: Generator) -> tuple[float, float]:
    """Over all futures, the distances from the boundary of the edges that a cut by `now` would misjudge, and of all.

    now: logits [edges]; end: what they will be at the stage's end.
    """
    ahead = end.mean + end.variance.sqrt() * torch.randn(FUTURES, len(now), generator=generator, dtype=torch.float64)
    kept, boundary = _kept(ahead, cut)
    wrong = kept != _kept(now[None].double(), cut)[0]
    apart = (ahead - boundary).abs()
    return float((apart * wrong).sum()), float(apart.sum())


def _kept(logits: Tensor, cut: EndCut) -> tuple[Tensor, Tensor]:
    """The edges that a cut leaves, bool [futures, edges], and the boundary [futures, 1]; logits: [futures, edges]."""
    room, edges = min(cut.room, logits.shape[1]), logits.shape[1]
    ranked = logits.sort(dim=1, descending=True).values
    last = ranked[:, room - 1 : room]
    # Between the last that is kept and the first that is not; where there is room for all, below all of them.
    boundary = (last + ranked[:, room : room + 1]) / 2 if room < edges else torch.full_like(last, -torch.inf)
    if cut.by_sign:
        boundary = boundary.clamp(min=0)
    if bool(boundary.isinf().any()):
        return torch.ones_like(logits, dtype=torch.bool), logits
    return logits >= boundary, boundary


def end_of_climb(
    logits: Tensor, total: Tensor, squares: Tensor, steps: int, left: int, rate: float, adam: bool
) -> Estimate:
    """The logits at the end of a stage by gradient ascent, from the sums over its steps of gradients and their squares.

    The mean gradient of the steps to come is the one so far, which is known to within its standard error; with Adam a
    gradient moves by its ratio to the root of its mean square.
    """
    mean = total / steps
    variance = (squares / steps - mean**2).clamp(min=0) * steps / max(steps - 1, 1)
    size = (squares / steps).sqrt()
    scale = (rate / size.where(size > 0, 1)) if adam else torch.full_like(size, rate)
    return Estimate(logits.double() + scale * left * mean, scale**2 * variance * (left + left**2 / steps))


def end_of_estimate(logits: Tensor, steps: int, left: int) -> Estimate:
    """The same of logits that are effects in units of their standard deviation, after `steps` of them in all.

    An estimate from n of N samples has a variance N / n times that of the whole, so that the whole is foreseen with
    what the samples to come take away of it. What other edges say of an edge changes less than that.
    """
    seen = steps / (steps + left)
    return Estimate(logits.double() / seen**0.5, torch.full_like(logits, (1 - seen) / seen, dtype=torch.float64))
