"""Effects of edges: sampled wirings as a randomised experiment, with empirical Bayes shrinkage.

An edge is drawn by its own probability alone, so the score of a receiver with the edge, minus the score without it, is
the edge's effect and not a confounder's. One edge is seen too rarely to be judged alone: the other edges of its
sender, and how good that sender's own answers are, say what to expect of it.

Certainty holds at every interim analysis. An edge's coin e of chance p is tossed without knowing the discussion. If the
edge had no effect, the sum S of (e - p) c over samples, c being the credit of the turn that it leads to, would be a
fair game. With U the sum of c^2 / 4, for every l (Hoeffding),

    E exp(l S - l^2 U / 2) <= 1

Mixed over l, this bounds S at all times at once (Robbins 1970). Nothing is estimated, and nothing assumed of scores.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from topologies.wiring import KINDS

# About U of one edge after 100 samples with credits of .45: there the bound is tightest. Fixed beforehand.
TIGHTEST_AT = 5.0
LARGEST_LOGIT = 8.0
"""Bound of logits, where p is .9997."""


class Estimate(NamedTuple):
    """Estimated effects and their variances, of one shape, such as [senders, receivers]."""

    mean: Tensor
    variance: Tensor

    @property
    def logits(self) -> Tensor:
        """Effects in units of their standard deviation."""
        return bounded_logits(self.mean / self.variance.sqrt())


# Prior of a sender's effect: its level is open, and it rises by .2 with the sender's own score, give or take .1.
COMPETENCE = Estimate(torch.tensor([0.0, 0.2]).double(), torch.tensor([1e6, 0.1**2]).double())
# The same of the gain by reading an agent: the agent's effect on others, give or take .05 and half of it.
READING = Estimate(torch.tensor([0.0, 1.0]).double(), torch.tensor([0.05**2, 0.5**2]).double())


def bounded_logits(values: Tensor) -> Tensor:
    """Returns values as logits, within `LARGEST_LOGIT`."""
    return values.clamp(-LARGEST_LOGIT, LARGEST_LOGIT).float()


def surprise(drawn_edges: Tensor, allowed_edges: Tensor, probability: Tensor) -> Tensor:
    """e - p of the edges that could be drawn, else 0, [k, rounds, sender, receiver].

    drawn_edges, allowed_edges: bool [k, rounds, sender, receiver]; probability: of each draw, [rounds or 1, sender,
        receiver].
    """
    return drawn_edges.double().sub_(probability.double()).mul_(allowed_edges)


def credited_sum(values: Tensor, credit: Tensor) -> Tensor:
    """Sum over samples of values x credit, [..., rounds, sender, receiver], for one credit or several.

    values: [k, rounds, sender, receiver], such as `surprise`; credit: c, [k, ..., rounds, receiver], the receiver's own
    score minus what its question leads to expect.
    """
    total = torch.zeros(*credit.shape[1:-1], *values.shape[2:], dtype=torch.float64)
    # Sample by sample: an einsum first moves samples to the last dimension, which takes twenty times as long.
    for sample_values, sample_credit in zip(values, credit.double()[..., None, :], strict=True):
        total.addcmul_(sample_values.double(), sample_credit)
    return total


def raw_effects(products: Tensor, squares: Tensor, credit_variance: Tensor) -> Estimate:
    """Returns beta = num / den with variance s^2 / den; 0 and infinity for an edge never drawn or never left out.

    products, squares: sums of (e - p) c and of (e - p)^2, any shape; credit_variance: s^2, broadcast against them.
    """
    is_tried = squares > 0
    divisor = squares.where(is_tried, 1)
    mean = (products / divisor).where(is_tried, 0)
    variance = (credit_variance / divisor).where(is_tried, torch.inf)
    return Estimate(mean, variance)


def sender_means(edges: Estimate) -> Estimate:
    """Step (1): the precision-weighted mean over each sender's edges [senders], from [senders, receivers]."""
    weight = 1 / edges.variance
    total = weight.sum(1)
    mean = (weight * edges.mean).sum(1) / total.where(total > 0, 1)
    return Estimate(mean, 1 / total)


def regression(values: Estimate, covariates: Tensor, extra_variance: float | Tensor, prior: Estimate) -> Estimate:
    """Weighted least squares of values [n] on covariates [n, p], weights 1 / (variance + extra): fitted, its variance.

    prior: of the coefficients [p], normal; a slight precision keeps it solvable when covariates are constant or fewer
        than p values are known.
    """
    x = covariates.numpy()
    weight = 1 / (values.variance.numpy() + float(extra_variance))
    precision = 1 / prior.variance.numpy()
    inverse = np.linalg.inv(x.T @ (weight[:, None] * x) + np.diag(precision))
    coefficients = inverse @ (x.T @ (weight * values.mean.numpy()) + precision * prior.mean.numpy())
    variance = ((x @ inverse) * x).sum(1)
    return Estimate(torch.from_numpy(x @ coefficients), torch.from_numpy(variance))


def excess_variance(values: Estimate, expected: Tensor, fitted_parameters: int) -> Tensor:
    """Variance of values about their expectation beyond their own variances (DerSimonian and Laird).

    One shape; a value of infinite variance counts for nothing. The estimate of moments is often 0, which would be
    certainty that all are alike: it is at least half its standard error above 0 (Chung et al. 2013).
    """
    weight = (1 / values.variance).flatten()
    total = weight.sum()
    degrees = int((weight > 0).sum()) - fitted_parameters
    if degrees < 1:
        return (1 / total).where(total > 0, 0)

    surplus = (weight * (values.mean - expected).flatten() ** 2).sum() - degrees
    scale = total - (weight**2).sum() / total
    return surplus.clamp(min=sqrt(2 * degrees) / 2) / scale


def shrink(values: Estimate, prior: Estimate, scatter: Tensor) -> Estimate:
    """Returns each value, drawn towards its prior with weight scatter / (scatter + variance), and the variance left.

    The prior's own variance counts with the weight that the prior has in the value.
    """
    trust = scatter / (scatter + values.variance)
    unknown = values.variance.isinf()
    mean = prior.mean + trust * (values.mean - prior.mean)
    variance = torch.where(unknown, scatter, trust * values.variance.where(~unknown, 0))
    return Estimate(mean, variance + (1 - trust) ** 2 * prior.variance)


def shrink_to_line(values: Estimate, covariate: Tensor, prior: Estimate) -> Estimate:
    """Draws each value [n] towards the line on a covariate [n] that fits all values; prior: of the line."""
    line = torch.stack([torch.ones_like(covariate), covariate], dim=1)
    expected = regression(values, line, 0.0, prior).mean
    scatter = excess_variance(values, expected, fitted_parameters=2)
    return shrink(values, regression(values, line, scatter, prior), scatter)


def among_peers(scores: Tensor, visual: Tensor) -> Tensor:
    """Each agent's score minus the mean of its modality; scores: [..., agents], visual: bool [agents].

    The specialists of the modality that fewer questions are about score less without being worse.
    """
    is_peer = (visual[:, None] == visual).to(scores.dtype)
    return scores - scores @ (is_peer / is_peer.sum(0))


def significant(sums: Tensor, questions: Tensor) -> Tensor:
    """Each agent's mean distance from its peers [agents], as far as it is no chance: x (1 - (2 se / x)^2), at least 0.

    From two standard errors on. sums: over questions, of the distance and of its square [2, agents]; the variance is
    the agents' mean, since one agent that is always wrong has none.
    """
    mean, square = sums / questions.clamp(min=1)
    error = (square - mean**2).mean() / (questions - 1).clamp(min=1e-9)
    share = (1 - 4 * error / (mean**2).clamp(min=1e-12)).clamp(min=0)
    shrunk: Tensor = mean * share
    return shrunk


def sender_effects(edges: Estimate, own_scores: Tensor) -> Estimate:
    """Steps (2) and (3): each sender's mean effect [senders], drawn towards what its own answers predict.

    edges: [senders, receivers]; own_scores: [senders], the distance of each sender's own score from its peers'.
    """
    return shrink_to_line(sender_means(edges), own_scores, COMPETENCE)


def posterior(edges: Estimate, senders: Estimate) -> Estimate:
    """Step (4): every edge's effect, from all edges [senders, receivers]; for one never drawn, its sender's."""
    prior = Estimate(senders.mean[:, None], senders.variance[:, None])
    tried_senders = int((~edges.variance.isinf()).any(1).sum())
    scatter = excess_variance(edges, prior.mean.expand_as(edges.mean), fitted_parameters=tried_senders)
    return shrink(edges, prior, scatter)


def posterior_of_all(raw: Estimate, own_scores: Tensor) -> Estimate:
    """`posterior` of the edges of all kinds, [sender, 2 N + 1] (`side_by_side`).

    A sender's edges to agents are judged together. The decision agent is no receiver like others: it may need many
    voices where agents need few. What it gains by reading an agent is expected to rise with that agent's edges, from a
    separate level; by itself its column has too little evidence, and noise would keep an agent that misleads.
    """
    between_agents = Estimate(raw.mean[:, :-1], raw.variance[:, :-1])
    senders = sender_effects(between_agents, own_scores)
    edges = posterior(between_agents, senders)
    to_decision = shrink_to_line(Estimate(raw.mean[:, -1], raw.variance[:, -1]), senders.mean, READING)
    mean = torch.cat([edges.mean, to_decision.mean[:, None]], dim=1)
    return Estimate(mean, torch.cat([edges.variance, to_decision.variance[:, None]], dim=1))


def side_by_side(values: Mapping[str, Tensor]) -> Tensor:
    """Puts values of all kinds of edges [..., sender, receiver] side by side, [..., sender, 2 N + 1].

    The columns are the receivers of spatial edges, those of temporal ones, and the decision agent.
    """
    return torch.cat([values[kind] for kind in KINDS], dim=-1)


def by_kind(columns: Tensor) -> dict[str, Tensor]:
    """Parts what `side_by_side` has put together."""
    agents = columns.shape[-1] // 2
    parts = (columns[..., :agents], columns[..., agents:-1], columns[..., -1:])
    # Copies: PyTorch rounds functions of strided tensors otherwise.
    return {kind: part.contiguous() for kind, part in zip(KINDS, parts, strict=True)}


def sums_to_agents(columns: Tensor) -> Tensor:
    """Sums over each sender's edges to agents [..., sender], of `side_by_side`."""
    agents = columns.shape[-1] // 2
    return columns[..., :agents].sum(-1) + columns[..., agents:-1].sum(-1)


def sender_sums(columns: Tensor) -> Tensor:
    """Sums over all edges of each sender [..., sender], of `side_by_side`."""
    return sums_to_agents(columns) + columns[..., -1]


class Sums(NamedTuple):
    """S and U of edges, or of groups of edges, of one shape."""

    total: Tensor
    bound: Tensor


def certain_harm(sums: Sums, edges: Tensor, tests: int, error_rate: float | Tensor) -> Tensor:
    """Tests for effects that are surely below zero, at any number of interim analyses; bool.

    Of `tests` such sums without effect, any is ever called harmful in `error_rate` of all runs at most.
    edges: the number of edges in each sum.
    """
    mixed = TIGHTEST_AT * edges.clamp(min=1)
    bound = 2 * torch.as_tensor(tests / error_rate).log() + ((sums.bound + mixed) / mixed).log()
    harm: Tensor = (sums.total < 0) & (sums.total**2 / (sums.bound + mixed) >= bound)
    return harm


def chance_of(sums: Sums) -> Tensor:
    """Chance of sums this large without any effect (chi-squared), over the last dimension; 1 without samples."""
    is_tried = sums.bound > 0
    squared = (sums.total**2 / sums.bound.where(is_tried, 1) * is_tried).sum(-1)
    degrees = is_tried.sum(-1).double()
    chance = torch.special.gammaincc(degrees.clamp(min=1e-9) / 2, squared / 2)
    return torch.as_tensor(chance).where(degrees > 0, 1.0)
