"""Early stopping: how much a stage's cut would still change if the stage went on to its end.

Each logit at the end of the stage is forecast, with a mean and a variance, from the steps so far (the estimators'
`outlook`). Many such futures are drawn, and each has its cut. An edge that a cut now would treat otherwise than a
future's cut is misjudged, the worse the farther it then is from the boundary; an edge at the boundary does not matter.

Of noise alone, after a quarter, half and three quarters of a stage, shares of .12, .09 and .05 are forecast to be
misjudged: with more than that as `learner.early_stop`, a learner that has learned nothing stops there too.
"""

from typing import NamedTuple

import torch
from torch import Generator, Tensor

from topologies.learning.effects import Estimate

FUTURES = 400


class EndCut(NamedTuple):
    """Cut at a stage's end: a matrix keeps its `room` most probable edges. `by_sign`: none with a logit below 0."""

    room: int
    by_sign: bool


def misjudged(now: Tensor, end: Estimate, cut: EndCut, generator: Generator) -> tuple[float, float]:
    """Sums distances from the boundary over all futures: of the edges that a cut now misjudges, and of all edges.

    now: logits [edges]; end: their forecast for the stage's end.
    """
    ahead = end.mean + end.variance.sqrt() * torch.randn(FUTURES, len(now), generator=generator, dtype=torch.float64)
    kept, boundary = _kept(ahead, cut)
    wrong = kept != _kept(now[None].double(), cut)[0]
    apart = (ahead - boundary).abs()
    return float((apart * wrong).sum()), float(apart.sum())


def _kept(logits: Tensor, cut: EndCut) -> tuple[Tensor, Tensor]:
    """Edges that a cut leaves, bool [futures, edges], and the boundary [futures, 1]; logits: [futures, edges]."""
    room, edges = min(cut.room, logits.shape[1]), logits.shape[1]
    ranked = logits.sort(dim=1, descending=True).values
    last = ranked[:, room - 1 : room]
    # Between the last edge that stays and the first that goes; below all where there is room for all.
    boundary = (last + ranked[:, room : room + 1]) / 2 if room < edges else torch.full_like(last, -torch.inf)
    if cut.by_sign:
        boundary = boundary.clamp(min=0)
    if bool(boundary.isinf().any()):
        return torch.ones_like(logits, dtype=torch.bool), logits
    return logits >= boundary, boundary


def end_of_climb(logits: Tensor, total: Tensor, squares: Tensor, steps: int, left: int, rate: float) -> Estimate:
    """Forecasts logits at the end of a stage of Adam, from sums of its steps' gradients and of their squares.

    The mean gradient of the steps to come is the one so far, known to within its standard error; a gradient moves a
    logit by its ratio to the root of its mean square.
    """
    mean = total / steps
    variance = (squares / steps - mean**2).clamp(min=0) * steps / max(steps - 1, 1)
    size = (squares / steps).sqrt()
    scale = rate / size.where(size > 0, 1)
    return Estimate(logits.double() + scale * left * mean, scale**2 * variance * (left + left**2 / steps))


def end_of_estimate(logits: Tensor, steps: int, left: int) -> Estimate:
    """Forecasts logits after `steps` in all, where they are effects in units of their standard deviation.

    An estimate from n of N samples has N / n times the variance of the whole: the samples to come take it away. What
    other edges say of an edge changes less than that.
    """
    seen = steps / (steps + left)
    return Estimate(logits.double() / seen**0.5, torch.full_like(logits, (1 - seen) / seen, dtype=torch.float64))
