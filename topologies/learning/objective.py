"""M3Prune's objective and its terms (Eqs. 7, 8, 11, 12), all pure differentiable functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import sqrt
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import softplus

from topologies.learning.blocks import Stage
from topologies.learning.settings import LearnerSettings, Likelihood, Noise


class Terms(NamedTuple):
    """The terms beside utility, scalars without their weights."""

    rank: Tensor
    noise: Tensor
    alignment: Tensor

    def weighted(self, settings: LearnerSettings, stage: int) -> Tensor:
        """Their sum as the objective of a stage adds it to utility (Eqs. 7, 11)."""
        rank_weight = settings.rank_weight if stage >= settings.rank_from else 0.0
        return settings.align_weight * self.alignment - rank_weight * self.rank - settings.noise_weight * self.noise


def terms_of(
    stage: Stage, mask: Mapping[str, Tensor], logits: Mapping[str, Tensor], settings: LearnerSettings
) -> Terms:
    """The terms of a stage's matrices; mask: bool [sender, receiver], logits: [rounds or 1, sender, receiver]."""
    weighted = {kind: theta.sigmoid() * mask[kind] for kind, theta in logits.items()}
    matrices = {block.name: block.of(weighted[block.kind]) for block in stage.blocks}
    initial = {block.name: block.of(stage.start[block.kind]) for block in stage.blocks}
    aligned = [
        alignment(matrices[f"text>visual {kind}"], matrices[f"visual>text {kind}"])
        for kind in ("spatial", "temporal")
        if f"text>visual {kind}" in matrices
    ]
    # Autograd adds gradients up in the order in which terms were computed: another order rounds otherwise.
    ranks = [nuclear_norm(matrix) for matrix in matrices.values()]
    none = torch.zeros(())
    return Terms(
        rank=torch.stack(ranks).sum() if ranks else none,
        noise=noise(list(initial.values()), list(matrices.values()), settings.noise, settings.epsilon),
        alignment=torch.stack(aligned).sum() if aligned else none,
    )


def leave_one_out(values: Tensor, groups: Tensor, draws: Tensor | None = None) -> Tensor:
    """Each sample's values minus the mean of the others' of its group (question), [k, ...].

    values: [k, ...], such as utilities [k] or turn scores [k, rounds, agents]; groups: int [k]. What a sample is
    compared with does not depend on its own wiring, so an estimate keeps its expectation (subtracting the mean of all
    K would shrink it by (K - 1) / K). draws: int [k], equal where samples share the draws in question; then the others
    are those with other ones. Raises ValueError when a group has nothing to compare.
    """
    others = _others(groups, draws)
    if bool((others < 1).any()):
        raise ValueError("rloo needs at least two samples of each question: raise them, or use reinforce or effects")
    return _apart_from_others(values, groups, draws)


def credited(values: Tensor, groups: Tensor, seen: Tensor, count: float, draws: Tensor | None = None) -> Tensor:
    """`leave_one_out`, in which the only sample of a question is compared with all other samples, earlier ones too.

    seen: the sum of values over `count` earlier samples, of one sample's shape. The very first sample gets 0.
    """
    others = (seen + values.sum(0) - values) / max(count + len(values) - 1, 1)
    lone = (values - others) * (count + len(values) > 1)
    together = (_others(groups, draws) > 0).view(-1, *[1] * (values.dim() - 1))
    return _apart_from_others(values, groups, draws).where(together, lone)


def group_sizes(groups: Tensor) -> Tensor:
    """Number of samples in the group of each sample, int [k]."""
    _, group = torch.unique(groups, return_inverse=True)
    return torch.bincount(group)[group]


def _others(groups: Tensor, draws: Tensor | None) -> Tensor:
    """How many samples each one is compared with, int [k]."""
    return group_sizes(groups) - (1 if draws is None else group_sizes(draws))


def _apart_from_others(values: Tensor, groups: Tensor, draws: Tensor | None) -> Tensor:
    ones = [1] * (values.dim() - 1)
    if draws is not None:
        others = _others(groups, draws).to(values.dtype).view(-1, *ones).clamp(min=1)
        return values - (_totals(values, groups) - _totals(values, draws)) / others
    own = group_sizes(groups).to(values.dtype).view(-1, *ones)
    return (own * values - _totals(values, groups)) / (own - 1).clamp(min=1)


def _totals(values: Tensor, groups: Tensor) -> Tensor:
    """The sum of values over the group of each sample, [k, ...]."""
    _, group = torch.unique(groups, return_inverse=True)
    return values.new_zeros(int(group.max()) + 1, *values.shape[1:]).index_add(0, group, values)[group]


def nuclear_norm(matrix: Tensor) -> Tensor:
    """Sum of singular values, the convex stand-in for the rank in Eq. 7; a mean over leading dimensions.

    Singular values that are zero up to rounding are left out: their singular vectors are arbitrary, and with them the
    gradient would be too. What is left is the subgradient of smallest norm.
    """
    values = torch.linalg.svdvals(matrix.double())
    zero = values[..., :1] * max(matrix.shape[-2:]) * torch.finfo(matrix.dtype).eps
    norms: Tensor = values.where(values > zero, 0).sum(-1)
    return norms.mean()


def noise(initial: Sequence[Tensor], weighted: Sequence[Tensor], form: Noise, epsilon: float) -> Tensor:
    """How far p * mask is from the unpruned matrices beyond the level that Eq. 7 tolerates.

    The Frobenius norm of Eq. 7 is 2.24 for five agents at p = .5, where learning starts, and falls to .1 only where all
    p are above .97: as a hinge it pulls all edges up for ever, and epsilon has no part in that. The root mean square
    does not grow with the team. initial: bool [s, r]; weighted: [rounds or 1, s, r].
    """
    gaps = [(1 - now) * start for start, now in zip(initial, weighted, strict=True)]
    if not gaps:
        return torch.zeros(())
    if form == Noise.RMS:
        edges = sum(int(start.sum()) * len(now) for start, now in zip(initial, weighted, strict=True))
        whole: Tensor = torch.linalg.vector_norm(torch.cat([gap.flatten() for gap in gaps])) / sqrt(max(edges, 1))
        return (whole - epsilon).relu()
    beyond = torch.stack([(torch.linalg.vector_norm(gap) - epsilon).relu() for gap in gaps])
    total: Tensor = (beyond**2 if form == Noise.SQUARED else beyond).sum()
    return total


def alignment(text_to_visual: Tensor, visual_to_text: Tensor) -> Tensor:
    """Mean cosine of each textual agent's edges to the visual ones with theirs to it, over the number of visual agents
    (Eq. 12).

    text_to_visual: [..., text, visual]; visual_to_text: [..., visual, text]. A row of zeros contributes 0.
    """
    sent, received = text_to_visual, visual_to_text.transpose(-1, -2)
    norms = torch.linalg.vector_norm(sent, dim=-1) * torch.linalg.vector_norm(received, dim=-1)
    cosines: Tensor = (sent * received).sum(-1) / norms.where(norms > 0, 1)
    return cosines.mean() / sent.shape[-1]


def log_probability(
    logits: Tensor, allowed: Tensor, taken: Tensor, likelihood: Likelihood = Likelihood.BERNOULLI
) -> Tensor:
    """log P of each wiring given its speaking orders [k], differentiable in `logits` [rounds or 1, sender, receiver].

    The sum over allowed edges of e log p + (1 - e) log(1 - p) = e theta - softplus(theta), with p = sigmoid(theta).
    `present` is the product of Eq. 8 as printed, the sum of e log p: not a probability, as it ignores edges not drawn.
    """
    theta = logits.expand(allowed.shape[1:]).reshape(-1)
    drawn = taken.flatten(1).to(theta.dtype)
    if likelihood == Likelihood.PRESENT:
        return drawn @ -softplus(-theta)
    return drawn @ theta - allowed.flatten(1).to(theta.dtype) @ softplus(theta)


def credited_slope(
    logits: Tensor, allowed: Tensor, taken: Tensor, credit: Tensor, likelihood: Likelihood = Likelihood.BERNOULLI
) -> Tensor:
    """The gradient of the mean over samples of credit [k] times `log_probability`, of the logits' shape.

    Written out, with the sums in autograd's order: nothing is kept for a backward pass, which for a thousand agents
    would be several arrays of all samples' edges.
    """
    share = credit * (torch.ones_like(credit) / len(credit))
    theta = logits.expand(allowed.shape[1:]).reshape(-1)
    slope = taken.flatten(1).to(theta.dtype).t().mv(share)
    if likelihood == Likelihood.PRESENT:
        slope = _softplus_slope(slope, -theta)
    else:
        slope = slope + _softplus_slope(allowed.flatten(1).to(theta.dtype).t().mv(-share), theta)
    return slope.view(allowed.shape[1:]).sum_to_size(logits.shape)


def _softplus_slope(above: Tensor, x: Tensor) -> Tensor:
    slope: Tensor = torch.ops.aten.softplus_backward(above, x, 1.0, 20.0)  # the defaults of `softplus`
    return slope
