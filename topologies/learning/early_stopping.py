"""Early stopping: how much a stage's cut would still change if the stage went on to its end.

Each logit at the end of the stage is forecast, with a mean and a variance, from the steps so far (the estimators'
`forecast`). Many such futures are drawn, and each has its cut. An edge that a cut now would treat otherwise than a
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


def misjudged(logits: Tensor, end: Estimate, cut: EndCut, generator: Generator) -> tuple[float, float]:
    """Sums distances from the boundary over all futures: of the edges that a cut now misjudges, and of all edges.

    logits: of now, [edges]; end: their forecast for the stage's end.
    """
    edges = len(logits)
    futures = end.mean + end.variance.sqrt() * torch.randn(FUTURES, edges, generator=generator, dtype=torch.float64)
    if cut.room >= edges and not cut.by_sign:
        return 0.0, 0.0  # all edges stay
    boundary = _boundary(futures, cut)
    current = logits[None].double()
    wrong = (futures >= boundary) != (current >= _boundary(current, cut))
    distance = (futures - boundary).abs()
    return float((distance * wrong).sum()), float(distance.sum())


def _boundary(logits: Tensor, cut: EndCut) -> Tensor:
    """Least logit of the edges that a cut leaves, [futures, 1]; logits: [futures, edges]."""
    room = cut.room
    if room < logits.shape[1]:
        ranked = logits.sort(dim=1, descending=True).values
        # Between the last edge that stays and the first that goes.
        boundary = (ranked[:, room - 1 : room] + ranked[:, room : room + 1]) / 2
    else:
        boundary = torch.full_like(logits[:, :1], -torch.inf)
    return boundary.clamp(min=0) if cut.by_sign else boundary


def end_of_climb(
    logits: Tensor, total: Tensor, squares: Tensor, steps: int, steps_left: int, learning_rate: float
) -> Estimate:
    """Forecasts logits at the end of a stage of Adam, from sums of its steps' gradients and of their squares.

    The mean gradient of the steps to come is the one so far, known to within its standard error; a gradient moves a
    logit by its ratio to the root of its mean square.
    """
    mean = total / steps
    mean_square = squares / steps
    variance = (mean_square - mean**2).clamp(min=0) * steps / max(steps - 1, 1)
    size = mean_square.sqrt()
    scale = learning_rate / size.where(size > 0, 1)
    end = logits.double() + scale * steps_left * mean
    return Estimate(end, scale**2 * variance * (steps_left + steps_left**2 / steps))


def end_of_estimate(logits: Tensor, steps: int, steps_left: int) -> Estimate:
    """Forecasts logits at the end of a stage, where they are effects in units of their standard deviation.

    An estimate from n of N samples has N / n times the variance of the whole: the samples to come take it away. What
    other edges say of an edge changes less than that.
    """
    share = steps / (steps + steps_left)
    variance = torch.full_like(logits, (1 - share) / share, dtype=torch.float64)
    return Estimate(logits.double() / share**0.5, variance)
