"""How wirings are drawn, and how edges are pruned by their scores (M3Prune)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from topologies.wiring import Edges, Wirings


@dataclass(frozen=True)
class Common:
    """What the samples of one question have in common, so that turns recur and are answered once.

    Every sample is drawn as it would be alone: only what it shares with others differs. So an estimate keeps its
    expectation where a sample is compared with none that shares the draws in question (`Wirings.draws`).

    orders, draws: int [k, rounds], the sample whose speaking order, and whose draws of edges, each one takes.
    """

    orders: Tensor
    draws: Tensor

    @classmethod
    def of(cls, k: int, rounds: int, questions: int, orders: bool, beginnings: int | None) -> Common | None:
        """Of `k` samples, consecutive ones of each question; None where they have nothing in common.

        orders: whether the samples of a question speak in one order; beginnings: how many different ones these have
        among them, each of all rounds but the last (None: each sample its own).
        """
        if k % questions:
            raise ValueError(f"{k} wirings cannot be drawn for {questions} questions alike")
        if not orders and beginnings is None:
            return None
        own, per = torch.arange(k), k // questions
        first = own - own % per
        draws = own[:, None].repeat(1, rounds)
        if beginnings is not None:
            draws[:, :-1] = (first + own % per % beginnings)[:, None]
        return cls(first[:, None].expand(k, rounds) if orders else draws, draws)


def sample_wirings(
    k: int,
    rounds: int,
    mask: Mapping[str, Tensor],
    chances: Mapping[str, Tensor],
    readers: Tensor,
    generator: Generator,
    speaks: Tensor | None = None,
    common: Common | None = None,
) -> Wirings:
    """Draws `k` wirings.

    mask: bool [sender, receiver] by kind, the unpruned edges, or [rounds, sender, receiver] (of temporal ones the
    rounds after the first) where each round has its own; chances: [rounds or 1, sender, receiver] by kind, the
    probability of each. readers: bool [agents, 1], whom the decision agent may read; it reads all of them unless
    `chances` has a probability [1, agents, 1] of its own for `decision`. speaks: bool [rounds, agents], who takes part.
    """
    agents = len(readers)
    # The order of these draws is part of what a seed means.
    order = sample_permutations(k, rounds, agents, generator)
    if common is not None:
        order = order[common.orders, torch.arange(rounds)]
    draws = None if common is None else common.draws
    spatial_allowed = allowed_spatial(mask["spatial"], order)
    temporal_allowed = allowed_temporal(mask["temporal"], k, rounds)
    spatial = sample_edges(chances["spatial"], spatial_allowed, generator, draws)
    temporal = torch.zeros_like(temporal_allowed)
    later = None if draws is None else draws[:, 1:]
    temporal[:, 1:] = sample_edges(chances["temporal"], temporal_allowed[:, 1:], generator, later)
    readable = readers.expand(k, 1, agents, 1)
    read = sample_edges(chances["decision"], readable, generator) if "decision" in chances else readable
    return Wirings(
        spatial=spatial.numpy(),
        temporal=temporal.numpy(),
        allowed=Edges(spatial_allowed.numpy(), temporal_allowed.numpy()),
        order=order.numpy(),
        # Copies: all rows of an expanded tensor are the same memory.
        decision=read[:, 0, :, 0].numpy().copy(),
        decision_allowed=readable[:, 0, :, 0].numpy().copy(),
        chances={kind: p.double().numpy() for kind, p in chances.items()},
        speaks=None if speaks is None else speaks.expand(k, rounds, agents).numpy().copy(),
        # Where every sample has draws of its own, an estimator need not know of the orders.
        draws=None if draws is None or bool((draws == torch.arange(k)[:, None]).all()) else draws.numpy(),
    )


def sample_permutations(k: int, rounds: int, agents: int, generator: Generator) -> Tensor:
    """Independent uniform speaking orders, int [k, rounds, agents]: entry `p` is the agent that speaks p-th."""
    # The argsort of uniform noise is a uniform permutation, for the whole batch at once.
    return torch.rand(k, rounds, agents, generator=generator).argsort(dim=-1)


def allowed_spatial(mask: Tensor, order: Tensor) -> Tensor:
    """Unpruned edges whose sender speaks first, bool [k, rounds, sender, receiver]; mask as for `sample_wirings`.

    With a uniform order P(i > j) = P(j > i), which row-by-row insertion with a cycle check does not give.
    """
    # The inverse permutation: each agent's place in the order.
    position = order.argsort(dim=-1)
    return (position.unsqueeze(-1) < position.unsqueeze(-2)) & mask


def allowed_temporal(mask: Tensor, k: int, rounds: int) -> Tensor:
    """Unpruned edges in every round but the first, bool [k, rounds, sender, receiver]; mask as for `sample_wirings`."""
    allowed = torch.zeros(k, rounds, *mask.shape[-2:], dtype=torch.bool)
    allowed[:, 1:] = mask
    return allowed


def sample_edges(probability: Tensor, allowed: Tensor, generator: Generator, draws: Tensor | None = None) -> Tensor:
    """Draws each allowed edge as Bernoulli(probability) (Algorithm 1, DAGSampling).

    probability: [rounds or 1, sender, receiver]; allowed, result: bool [k, rounds, sender, receiver]. draws: int
    [k, rounds], the sample whose draws each takes (None: its own).
    """
    # One number for every edge, allowed or not: a mask does not shift the draws that follow.
    noise = torch.rand(allowed.shape, generator=generator)
    if draws is not None:
        noise = noise[draws, torch.arange(draws.shape[1])]
    return (noise < probability) & allowed


def gumbel_probability(exists: Tensor, tau: float, generator: Generator) -> Tensor:
    """Eq. 4 as printed: over a receiver's senders, a softmax of Gumbel noise at temperature tau.

    exists, result: [..., sender, receiver], one matrix of one modality pair; .5 for a receiver that has no sender.
    """
    # The negative log of an exponential variable has the standard Gumbel distribution.
    noise = -torch.empty(exists.shape).exponential_(generator=generator).log()
    # A receiver without senders has -inf throughout, and NaN as its softmax.
    scaled: Tensor = (noise / tau).where(exists, -torch.inf)
    return scaled.softmax(dim=-2).nan_to_num(0.5)


def prune_mask(scores: Tensor, present: Tensor, rate: float, generator: Generator) -> Tensor:
    """The present edges that stay: the round(|E| (1 - rate)) with the largest scores, at least one (Eqs. 13, 14).

    scores, present, result: one matrix of one shape. Equal scores are kept or cut at random: by index, an estimator
    that has not told edges apart yet would cut the last agents' edges.
    """
    edges = present.flatten().nonzero().squeeze(1)
    if not len(edges):
        return present.clone()
    edges = edges[torch.randperm(len(edges), generator=generator)]
    # Stable: the shuffle above decides between equal scores.
    ranked = edges[scores.flatten()[edges].argsort(descending=True, stable=True)]
    stays = torch.zeros(present.numel(), dtype=torch.bool)
    # Python rounds halves to the even number: of 5 edges at rate .5, 2 stay.
    stays[ranked[: max(1, round(len(edges) * (1 - rate)))]] = True
    return stays.view(present.shape)
