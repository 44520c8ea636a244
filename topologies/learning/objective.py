"""M3Prune's objective and its terms (Eqs. 7, 8, 11, 12), as pure differentiable functions."""

from collections.abc import Mapping, Sequence
from math import sqrt
from typing import NamedTuple

import torch
from torch import Tensor

from topologies.learning.learner_settings import LearnerSettings, Noise
from topologies.learning.stages import Stage
from topologies.learning.variants import Variant


class Terms(NamedTuple):
    """Objective's terms without utility, scalars without their weights."""

    rank: Tensor = torch.zeros(())
    noise: Tensor = torch.zeros(())
    alignment: Tensor = torch.zeros(())

    def weighted(self, settings: LearnerSettings, variant: Variant, stage: int) -> Tensor:
        """Their sum as a stage's objective adds it to utility (Eqs. 7, 11).

        The rank and the noise are subtracted, the alignment is added, each with its weight.
        """
        term_weights = {
            "rank": settings.rank_weight,
            "noise": settings.noise_weight,
            "alignment": settings.align_weight,
        }
        weights = {name: weight if name in variant.terms else 0.0 for name, weight in term_weights.items()}
        if stage < variant.rank_from:
            weights["rank"] = 0.0
        return weights["alignment"] * self.alignment - weights["rank"] * self.rank - weights["noise"] * self.noise


def terms_of(
    stage: Stage, mask: Mapping[str, Tensor], logits: Mapping[str, Tensor], settings: LearnerSettings
) -> Terms:
    """Terms of a stage's matrices; mask: bool [sender, receiver], logits: [rounds or 1, sender, receiver]."""
    weighted = {kind: values.sigmoid() * mask[kind] for kind, values in logits.items()}
    matrices = {block.name: block.of(weighted[block.kind]) for block in stage.blocks}
    initial = [block.of(stage.start[block.kind]) for block in stage.blocks]

    # Autograd adds gradients up in the order in which terms were computed: another order rounds otherwise.
    kinds_across = [kind for kind in ("spatial", "temporal") if f"text>visual {kind}" in matrices]
    alignments = [alignment(matrices[f"text>visual {kind}"], matrices[f"visual>text {kind}"]) for kind in kinds_across]
    ranks = [nuclear_norm(matrix) for matrix in matrices.values()]

    return Terms(
        rank=_sum(ranks),
        noise=noise(initial, list(matrices.values()), settings.noise, settings.epsilon),
        alignment=_sum(alignments),
    )


def _sum(terms: Sequence[Tensor]) -> Tensor:
    return torch.stack([*terms]).sum() if terms else torch.zeros(())


def leave_one_out(values: Tensor, questions: Tensor) -> Tensor:
    """Each sample's values minus the mean of the others' of its question, [k, ...].

    values: [k, ...], such as utilities [k] or turn scores [k, rounds, agents]; questions: int [k].
    The mean does not depend on the sample's own wiring, so an estimate keeps its expectation (subtracting the mean of
    all K would shrink it by (K - 1) / K). Raises ValueError when a question has nothing to compare.
    """
    differences, number_of_others = _from_others(values, questions)
    if (number_of_others < 1).any():
        raise ValueError("a baseline needs at least two samples of each question: raise training.samples")
    return differences


def credited(values: Tensor, questions: Tensor, earlier: Tensor, count: float) -> Tensor:
    """Computes `leave_one_out`. The only sample of a question is compared with all other samples, earlier ones too.

    earlier: the sum of values over `count` earlier samples, of one sample's shape. The very first sample gets 0.
    """
    differences, number_of_others = _from_others(values, questions)
    number = count + len(values) - 1
    mean_of_others = (earlier + values.sum(0) - values) / max(number, 1)
    from_all_others = values - mean_of_others if number else torch.zeros_like(values)
    return differences.where(number_of_others > 0, from_all_others)


def _from_others(values: Tensor, questions: Tensor) -> tuple[Tensor, Tensor]:
    """Values [k, ...] minus the mean of the question's other samples, and the number of these, int [k, 1, ...]."""
    question = torch.unique(questions, return_inverse=True)[1]
    totals = values.new_zeros(int(question.max()) + 1, *values.shape[1:]).index_add(0, question, values)[question]
    number_of_others = (torch.bincount(question)[question] - 1).view(-1, *[1] * (values.dim() - 1))
    number = number_of_others.to(values.dtype)
    return ((number + 1) * values - totals) / number.clamp(min=1), number_of_others


def nuclear_norm(matrix: Tensor) -> Tensor:
    """Sum of singular values, the convex relaxation of the rank in Eq. 7; a mean over leading dimensions.

    Singular values that are zero up to rounding are left out: their singular vectors are arbitrary, and with them the
    gradient would be too. The rest is the subgradient of smallest norm.
    """
    values = torch.linalg.svdvals(matrix.double())
    zero = values[..., :1] * max(matrix.shape[-2:]) * torch.finfo(matrix.dtype).eps
    norms: Tensor = values.where(values > zero, 0).sum(-1)
    return norms.mean()


def noise(initial: Sequence[Tensor], weighted: Sequence[Tensor], form: Noise, epsilon: float) -> Tensor:
    """Distance of p * mask from the unpruned matrices beyond the level that Eq. 7 tolerates.

    The Frobenius norm of Eq. 7 is 2.24 for five agents at p = .5, where learning starts, and falls to .1 only where all
    p are above .97: as a hinge it would pull all edges up for ever, and epsilon would have no part in that. The root
    mean square does not grow with the team. initial: bool [s, r]; weighted: [rounds or 1, s, r].
    """
    if not weighted:
        return torch.zeros(())
    distances = [(1 - p) * start for start, p in zip(initial, weighted, strict=True)]
    if form == "rms":
        edges = sum(int(start.sum()) * len(p) for start, p in zip(initial, weighted, strict=True))
        distance: Tensor = torch.linalg.vector_norm(torch.cat([matrix.flatten() for matrix in distances]))
        return (distance / sqrt(max(edges, 1)) - epsilon).relu()
    excess = torch.stack([(torch.linalg.vector_norm(matrix) - epsilon).relu() for matrix in distances])
    return (excess**2).sum()


def alignment(text_to_visual: Tensor, visual_to_text: Tensor) -> Tensor:
    """Mean cosine of textual agents' edges to and from the visual agents, over the number of these (Eq. 12).

    text_to_visual: [..., text, visual]; visual_to_text: [..., visual, text]. A row of zeros contributes 0.
    """
    sent = text_to_visual
    received = visual_to_text.transpose(-1, -2)
    norms = torch.linalg.vector_norm(sent, dim=-1) * torch.linalg.vector_norm(received, dim=-1)
    cosines: Tensor = (sent * received).sum(-1) / norms.where(norms > 0, 1)
    return cosines.mean() / sent.shape[-1]


def credited_slope(logits: Tensor, allowed_edges: Tensor, drawn_edges: Tensor, credit: Tensor) -> Tensor:
    """Gradient of the mean over samples of credit times log P of each wiring (Eq. 8). It has the logits' shape.

    Given the speaking orders, with p = sigmoid(theta), log P is a sum over the edges that could be drawn:

        e log p + (1 - e) log(1 - p) = e theta - softplus(theta)

    logits: [rounds or 1, sender, receiver]; allowed_edges, drawn_edges: bool [k, rounds, sender, receiver].
    credit: [k], of all edges of a wiring, or [k, rounds, receiver], of the edges into a receiver.

    Written out, with the sums in autograd's order: a backward pass of a thousand agents would keep several arrays of
    all samples' edges.
    """
    weight = credit * (torch.ones_like(credit) / len(credit))
    if credit.dim() > 1:
        surprise = drawn_edges.to(logits.dtype) - allowed_edges * logits.sigmoid()
        return (weight[:, :, None].to(logits.dtype) * surprise).sum(0).sum_to_size(logits.shape)

    theta = logits.expand(allowed_edges.shape[1:]).reshape(-1)
    slope_of_taken = drawn_edges.flatten(1).to(theta.dtype).t().mv(weight)
    slope_of_allowed = allowed_edges.flatten(1).to(theta.dtype).t().mv(-weight)
    # 1 and 20 are the defaults of `softplus`.
    slope: Tensor = slope_of_taken + torch.ops.aten.softplus_backward(slope_of_allowed, theta, 1.0, 20.0)
    return slope.view(allowed_edges.shape[1:]).sum_to_size(logits.shape)
