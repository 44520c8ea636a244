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

# About U of one edge after 100 samples with credits of .45: there the bound is tightest. Fixed beforehand.
TIGHTEST_AT = 5.0


class Estimate(NamedTuple):
    """Estimated effects and their variances, of one shape, such as [senders, receivers]."""

    mean: Tensor
    variance: Tensor


# Prior of a sender's effect: its level is open, and it rises by .2 with the sender's own score, give or take .1.
COMPETENCE = Estimate(torch.tensor([0.0, 0.2]).double(), torch.tensor([1e6, 0.1**2]).double())
# The same of the gain by reading an agent: the agent's effect on others, give or take .05 and half of it.
READING = Estimate(torch.tensor([0.0, 1.0]).double(), torch.tensor([0.05**2, 0.5**2]).double())


def surprise(taken: Tensor, allowed: Tensor, probability: Tensor) -> Tensor:
    """e - p of the edges that could be drawn, else 0, [k, rounds, sender, receiver].

    taken, allowed: bool [k, rounds, sender, receiver]; probability: [rounds or 1, sender, receiver], of each draw.
    """
    return taken.double().sub_(probability.double()).mul_(allowed)


def credited_sum(each: Tensor, credit: Tensor) -> Tensor:
    """Sum over samples of each x credit, [..., rounds, sender, receiver], for one credit or several.

    each: [k, rounds, sender, receiver], such as `surprise`; credit: c, [k, ..., rounds, receiver], the receiver's own
    score minus what its question leads to expect.
    """
    total = torch.zeros(*credit.shape[1:-1], *each.shape[2:], dtype=torch.float64)
    # Sample by sample: an einsum first moves samples to the last dimension, which takes twenty times as long.
    for sample, credits in zip(each, credit.double()[..., None, :], strict=True):
        total.addcmul_(sample.double(), credits)
    return total


def raw_effects(products: Tensor, squares: Tensor, spread: Tensor) -> Estimate:
    """Returns beta = num / den with variance s^2 / den; 0 and infinity for an edge never drawn or never left out.

    products, squares: sums of (e - p) c and of (e - p)^2, any shape.
    spread: s^2, the variance of credit, broadcast against them.
    """
    known = squares > 0
    safe = squares.where(known, 1)
    return Estimate((products / safe).where(known, 0), (spread / safe).where(known, torch.inf))


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
    mean, variance, x = (each.numpy() for each in (*values, covariates))
    weight, precision = 1 / (variance + float(extra_variance)), 1 / prior.variance.numpy()
    inverse = np.linalg.inv(x.T @ (weight[:, None] * x) + np.diag(precision))
    fitted = x @ (inverse @ (x.T @ (weight * mean) + precision * prior.mean.numpy()))
    return Estimate(torch.from_numpy(fitted), torch.from_numpy(((x @ inverse) * x).sum(1)))


def excess_variance(values: Estimate, expected: Tensor, fitted_parameters: int) -> Tensor:
    """Variance of values about their expectation beyond their own variances (DerSimonian and Laird).

    One shape; a value of infinite variance counts for nothing. The estimate of moments is often 0, which would be
    certainty that all are alike: it is at least half its standard error above 0 (Chung et al. 2013).
    """
    weight = (1 / values.variance).flatten()
    total, free = weight.sum(), int((weight > 0).sum()) - fitted_parameters
    if free < 1:
        return (1 / total).where(total > 0, 0)
    surplus = (weight * (values.mean - expected).flatten() ** 2).sum() - free
    scale = total - (weight**2).sum() / total
    return surplus.clamp(min=sqrt(2 * free) / 2) / scale


def shrink(values: Estimate, prior: Estimate, scatter: Tensor) -> Estimate:
    """Returns each value, drawn towards its prior with weight scatter / (scatter + variance), and the variance left.

    The prior's own variance counts with the weight that the prior has in the value.
    """
    trust = scatter / (scatter + values.variance)
    unknown = values.variance.isinf()
    left = torch.where(unknown, scatter, trust * values.variance.where(~unknown, 0))
    return Estimate(prior.mean + trust * (values.mean - prior.mean), left + (1 - trust) ** 2 * prior.variance)


def among_peers(scores: Tensor, visual: Tensor) -> Tensor:
    """Each agent's score minus the mean of its modality; scores: [..., agents], visual: bool [agents].

    The specialists of the modality that fewer questions are about score less without being worse.
    """
    same = (visual[:, None] == visual).to(scores.dtype)
    return scores - scores @ (same / same.sum(0))


def significant(sums: Tensor, questions: Tensor) -> Tensor:
    """Each agent's mean distance from its peers [agents], as far as it is no chance: x (1 - (2 se / x)^2), at least 0.

    From two standard errors on. sums: over questions, of the distance and of its square [2, agents]; the variance is
    the agents' mean, since one agent that is always wrong has none.
    """
    mean, square = sums / questions.clamp(min=1)
    error = (square - mean**2).mean() / (questions - 1).clamp(min=1e-9)
    kept: Tensor = mean * (1 - 4 * error / (mean**2).clamp(min=1e-12)).clamp(min=0)
    return kept


def sender_effects(edges: Estimate, apart: Tensor) -> Estimate:
    """Steps (2) and (3): each sender's mean effect [senders], drawn towards what its own answers predict.

    edges: [senders, receivers]; apart: [senders], the distance of each sender's own score from its peers'.
    """
    means = sender_means(edges)
    line = torch.stack([torch.ones_like(apart), apart], dim=1).double()
    first = regression(means, line, 0.0, COMPETENCE)
    scatter = excess_variance(means, first.mean, fitted_parameters=2)
    return shrink(means, regression(means, line, scatter, COMPETENCE), scatter)


def posterior(edges: Estimate, senders: Estimate) -> Estimate:
    """Step (4): every edge's effect, from all edges [senders, receivers]; for one never drawn, its sender's."""
    prior = Estimate(senders.mean[:, None], senders.variance[:, None])
    scatter = excess_variance(edges, prior.mean.expand_as(edges.mean), int((~edges.variance.isinf()).any(1).sum()))
    return shrink(edges, prior, scatter)


def posterior_by_kind(raw: Mapping[str, Estimate], apart: Tensor) -> dict[str, Estimate]:
    """`posterior` of the edges of several kinds and rounds together, each [rounds or 1, sender, receiver].

    A sender's edges to agents are judged together. The decision agent is no receiver like others: it may need many
    voices where agents need few. What it gains by reading an agent is expected to rise with that agent's edges, from a
    level of its own; by itself its column has too little evidence, and noise would keep an agent that misleads.
    """
    between = {kind: edges for kind, edges in raw.items() if kind != "decision"}
    columns = {kind: Estimate(*(part.transpose(0, 1).flatten(1) for part in edges)) for kind, edges in between.items()}
    widths = [edges.mean.shape[1] for edges in columns.values()]
    together = Estimate(*(torch.cat(parts, dim=1) for parts in zip(*columns.values(), strict=True)))
    of_senders = sender_effects(together, apart)
    split = zip(*(torch.split(part, widths, dim=1) for part in posterior(together, of_senders)), strict=True)
    found = {
        kind: Estimate(*(part.unflatten(1, (len(raw[kind].mean), -1)).transpose(0, 1) for part in parts))
        for kind, parts in zip(between, split, strict=True)
    }
    senders = of_senders.mean
    read = Estimate(*(part.mean(0).flatten() for part in raw["decision"]))
    line = torch.stack([torch.ones_like(senders), senders], dim=1)
    scatter = excess_variance(read, regression(read, line, 0.0, READING).mean, fitted_parameters=2)
    judged = shrink(read, regression(read, line, scatter, READING), scatter)
    return found | {"decision": Estimate(*(part[None, :, None].expand_as(raw["decision"].mean) for part in judged))}


class Sums(NamedTuple):
    """S and U of edges, or of groups of edges, of one shape."""

    total: Tensor
    spread: Tensor

    def over(self, *dimensions: int) -> Sums:
        """Sums of groups: all edges along some dimensions together."""
        return Sums(self.total.sum(dimensions), self.spread.sum(dimensions))


def certain_harm(sums: Sums, edges: Tensor, tests: int, error_rate: float | Tensor) -> Tensor:
    """Tests for effects that are surely below zero, at any number of interim analyses; bool.

    Of `tests` such sums without effect, any is ever called harmful in `error_rate` of all runs at most.
    edges: the number of edges in each sum.
    """
    mixed = TIGHTEST_AT * edges.clamp(min=1)
    bound = 2 * torch.as_tensor(tests / error_rate).log() + ((sums.spread + mixed) / mixed).log()
    harm: Tensor = (sums.total < 0) & (sums.total**2 / (sums.spread + mixed) >= bound)
    return harm


def chance_of(sums: Sums) -> Tensor:
    """Chance of sums this large without any effect (chi-squared), over the last dimension; 1 without samples."""
    known = sums.spread > 0
    squared = (sums.total**2 / sums.spread.where(known, 1) * known).sum(-1)
    number = known.sum(-1).double()
    return torch.as_tensor(torch.special.gammaincc(number.clamp(min=1e-9) / 2, squared / 2)).where(number > 0, 1.0)
