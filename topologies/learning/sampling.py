"""Draws wirings: uniform speaking orders, then every allowed edge by its own chance (M3Prune, Algorithm 1)."""

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Generator, Tensor

from topologies.wiring import Edges, Wirings


def sample_wirings(
    k: int,
    rounds: int,
    mask: Mapping[str, Tensor],
    chances: Mapping[str, Tensor],
    readers: Tensor,
    generator: Generator,
    speaks: Tensor | None = None,
    orders: Tensor | None = None,
) -> Wirings:
    """Draws `k` wirings.

    mask: bool [sender, receiver] by kind, the unpruned edges; or [rounds, sender, receiver] (of temporal ones the
        rounds after the first) where rounds have masks of their own.
    chances: [rounds or 1, sender, receiver] by kind, the probability of each edge.
    readers: bool [agents, 1], the agents that the decision agent may read; it reads all of them unless `chances` has
        probabilities [1, agents, 1] for `decision`.
    speaks: bool [rounds, agents], the agents that take part.
    orders: int [k], the sample whose speaking orders each one takes (None: its own).
    """
    agents = len(readers)
    # The order of these draws is part of what a seed means.
    order = sample_permutations(k, rounds, agents, generator)
    if orders is not None:
        order = order[orders]
    spatial_allowed = allowed_spatial(mask["spatial"], order)
    temporal_allowed = allowed_temporal(mask["temporal"], k, rounds)
    spatial = sample_edges(chances["spatial"], spatial_allowed, generator)
    temporal = torch.zeros_like(temporal_allowed)
    temporal[:, 1:] = sample_edges(chances["temporal"], temporal_allowed[:, 1:], generator)
    decision_allowed = readers.expand(k, 1, agents, 1)
    decision = decision_allowed
    if "decision" in chances:
        decision = sample_edges(chances["decision"], decision_allowed, generator)
    return Wirings(
        spatial=spatial.numpy(),
        temporal=temporal.numpy(),
        allowed=Edges(spatial_allowed.numpy(), temporal_allowed.numpy()),
        order=order.numpy(),
        # Copies: all rows of an expanded tensor are the same memory.
        decision=decision[:, 0, :, 0].numpy().copy(),
        decision_allowed=decision_allowed[:, 0, :, 0].numpy().copy(),
        chances={kind: p.double().numpy() for kind, p in chances.items()},
        speaks=None if speaks is None else speaks.expand(k, rounds, agents).numpy().copy(),
    )


class Draws(NamedTuple):
    """Edges of one kind that could be drawn and that were, bool [k, rounds, sender, receiver]."""

    allowed_edges: Tensor
    drawn_edges: Tensor


def draws_of(wirings: Wirings) -> dict[str, Draws]:
    """Draws of some wirings, by kind."""
    column = np.s_[:, None, :, None]
    # Copies: arrays that crossed a process are read-only.
    return {
        "spatial": Draws(torch.tensor(wirings.allowed.spatial), torch.tensor(wirings.spatial)),
        # Nothing leads into the first round, so there was nothing to draw.
        "temporal": Draws(torch.tensor(wirings.allowed.temporal[:, 1:]), torch.tensor(wirings.temporal[:, 1:])),
        # The decision agent is one receiver of all, in its only round.
        "decision": Draws(torch.tensor(wirings.decision_allowed[column]), torch.tensor(wirings.decision[column])),
    }


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
    """Unpruned edges in every round but the first, bool [k, rounds, sender, receiver]. Mask as for `sample_wirings`."""
    edges = torch.zeros(k, rounds, *mask.shape[-2:], dtype=torch.bool)
    edges[:, 1:] = mask
    return edges


def sample_edges(probability: Tensor, allowed_edges: Tensor, generator: Generator) -> Tensor:
    """Draws each allowed edge as Bernoulli(probability) (Algorithm 1, DAGSampling).

    probability: [rounds or 1, sender, receiver]; allowed_edges, result: bool [k, rounds, sender, receiver].
    """
    # One number for every edge, allowed or not: a mask does not shift the draws that follow.
    noise = torch.rand(allowed_edges.shape, generator=generator)
    return (noise < probability) & allowed_edges


def with_removals(wirings: Wirings, samples: int, step: int, turns: bool) -> Wirings:
    """Makes a question's samples equal but for one agent or turn that is not heard. The first sample hears all.

    samples: number of each question. turns: whether turns are removed, or agents with all their turns. The next ones
    follow in the next samples and steps. Turns before the one removed are equal, with equal seeds, and so computed
    once: their history is restored.
    """
    k, rounds, agents = wirings.order.shape
    sample = np.arange(k)
    first_sample = sample - sample % samples
    # Removals so far: none in a question's first sample.
    earlier = step * (k - k // samples) + sample - sample // samples - 1
    agent = earlier % agents
    removed = np.zeros((k, rounds, agents), dtype=bool)
    if turns:
        removed[sample, earlier // agents % rounds, agent] = True
    else:
        removed[sample, :, agent] = True
    removed[first_sample] = False

    spatial = wirings.spatial[first_sample] & ~removed[..., None]
    temporal = wirings.temporal[first_sample]
    temporal[:, 1:] &= ~removed[:, :-1, :, None]
    return replace(
        wirings,
        spatial=spatial,
        temporal=temporal,
        order=wirings.order[first_sample],
        decision=wirings.decision[first_sample] & ~removed[:, -1],
        allowed=Edges(wirings.allowed.spatial[first_sample], wirings.allowed.temporal[first_sample]),
    )
