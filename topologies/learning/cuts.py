"""What other pruning rules than M3Prune's leave of a matrix or of a team; pure functions."""

from __future__ import annotations

import torch
from torch import Generator, Tensor

from topologies.learning.blocks import Block
from topologies.learning.settings import Rule
from topologies.wiring import prune_mask


def largest(p: Tensor, present: Tensor, room: int, generator: Generator) -> Tensor:
    """The `room` most probable of the present edges of one matrix, at least one; of equal ones, any (AgentPrune's cut).

    p: float, present and result: bool, of one shape.
    """
    edges = int(present.sum())
    return prune_mask(p, present, 1 - min(room, edges) / edges, generator) if edges else present.clone()


def left_of(block: Block, rule: Rule, p: Tensor, present: Tensor, room: int, generator: Generator) -> Tensor:
    """What a rule leaves of one matrix: its likely edges, or the `room` largest; of a decision agent's at least one."""
    if rule != Rule.LIKELY:
        return largest(p, present, room, generator)
    left = likely(p, present)
    return largest(p, present, 1, generator) if block.kind == "decision" and not left.any() else left


def likely(p: Tensor, present: Tensor) -> Tensor:
    """The present edges that are likelier than not (GPTSwarm's threshold of 1/2); float and bool of one shape."""
    return present & (p > 0.5)


def weakest_agents(p: Tensor, present: Tensor, rate: float) -> Tensor:
    """The round(rate * N) agents whose edges, in and out, have the smallest sum of p (AgentDropout's node dropout).

    One agent is always left, and of equal ones the last goes. Result: bool [agents].
    p: float, present: bool, [sender, receiver].
    """
    weight = (p * present).sum(0) + (p * present).sum(1)
    number = min(round(rate * len(weight)), len(weight) - 1)
    dropped = torch.zeros(len(weight), dtype=torch.bool)
    lightest_first = sorted(range(len(weight)), key=lambda agent: (float(weight[agent]), -agent))
    dropped[lightest_first[:number]] = True
    return dropped
