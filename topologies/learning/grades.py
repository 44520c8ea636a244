"""Grades of agents by their own answers, or by utility where they are not heard: pure functions of scores."""

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from topologies.wiring import Edges, Wirings


def grades(total: Tensor, squares: Tensor, number: Tensor) -> Tensor:
    """Student's t of mean differences [agents], from their sums and numbers; below two, the mean."""
    mean = total / number.clamp(min=1)
    variance = (squares / number.clamp(min=1) - mean**2).clamp(min=1e-6) / (number - 1).clamp(min=1)
    return torch.where(number > 1, mean / variance.sqrt(), mean)


def heard(wirings: Wirings) -> Tensor:
    """Turns that any agent, or the decision agent, hears, bool [k, rounds, agents]."""
    later = np.concatenate([wirings.temporal[:, 1:].any(3), wirings.decision[:, None]], axis=1)
    return torch.from_numpy(wirings.spatial.any(3) | later)


def with_removals(wirings: Wirings, each: int, step: int, turns: bool) -> Wirings:
    """Makes a question's `each` samples equal but for one agent or turn that is not heard. The first sample hears all.

    The next agents or turns follow in the next samples and steps. Turns before the one removed are equal, with equal
    seeds, and so computed once: their history is restored.
    """
    (k, rounds, agents), sample = wirings.order.shape, np.arange(len(wirings.order))
    first = sample - sample % each
    copied = {name: getattr(wirings, name)[first] for name in ("spatial", "temporal", "order", "decision")}
    number = (step * (k - k // each) + sample - sample // each - 1) % (agents * (rounds if turns else 1))
    gone = np.zeros((k, rounds, agents), dtype=bool)
    gone[sample, number // agents if turns else slice(None), number % agents] = True
    gone[first] = False
    copied["spatial"] &= ~gone[..., None]
    copied["temporal"][:, 1:] &= ~gone[:, :-1, :, None]
    copied["decision"] &= ~gone[:, -1]
    return replace(wirings, **copied, allowed=Edges(*(could[first] for could in wirings.allowed)))
