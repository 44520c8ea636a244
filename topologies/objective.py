"""The terms of M3Prune's objective (Eqs. 7, 8, 11, 12), each a pure differentiable function."""

from __future__ import annotations

from math import sqrt

import torch
from torch import Tensor


def leave_one_out(utilities: Tensor, groups: Tensor) -> Tensor:
    """Each utility minus the mean of the others of its group (question), [k].

    The baseline of a sample does not depend on its own wiring, so the estimator of Eq. 8 keeps its expectation.
    Raises ValueError when a group has one sample only.
    """
    _, group = torch.unique(groups, return_inverse=True)
    size = torch.bincount(group).to(utilities.dtype)
    if bool((size < 2).any()):
        raise ValueError("rloo needs at least two samples of each question: raise the samples or use reinforce")
    total = torch.zeros_like(size).index_add(0, group, utilities)
    return (size[group] * utilities - total[group]) / (size[group] - 1)


def nuclear_norm(matrix: Tensor) -> Tensor:
    """Sum of singular values, the convex stand-in for the rank in Eq. 7; a mean over leading dimensions.

    Singular values that are zero up to rounding are left out: their singular vectors are arbitrary, and with them the
    gradient would be too. What is left is the subgradient of smallest norm.
    """
    values = torch.linalg.svdvals(matrix.double())
    zero = values[..., :1] * max(matrix.shape[-2:]) * torch.finfo(matrix.dtype).eps
    norms: Tensor = values.where(values > zero, 0).sum(-1)
    return norms.mean()


def root_mean_square(initial: list[Tensor], weighted: list[Tensor]) -> Tensor:
    """How far p * mask is from the unpruned matrix, over all of its edges in all given matrices.

    Eq. 7 bounds the Frobenius norm by 0.1, which at p = .5 no team of two or more can meet (2.24 for five agents);
    the root mean square does not grow with the team. initial: bool [s, r]; weighted: [rounds or 1, s, r].
    """
    gaps = [((1 - now) * start).flatten() for start, now in zip(initial, weighted, strict=True)]
    edges = sum(int(start.sum()) * len(now) for start, now in zip(initial, weighted, strict=True))
    gap: Tensor = torch.linalg.vector_norm(torch.cat(gaps))
    return gap / sqrt(max(edges, 1))


def alignment(text_to_visual: Tensor, visual_to_text: Tensor) -> Tensor:
    """Mean cosine of what each textual agent tells the visual ones with what they tell it (Eq. 12, up to a constant).

    text_to_visual: [..., text, visual]; visual_to_text: [..., visual, text]. A row of zeros contributes 0.
    """
    told, heard = text_to_visual, visual_to_text.transpose(-1, -2)
    norms = torch.linalg.vector_norm(told, dim=-1) * torch.linalg.vector_norm(heard, dim=-1)
    cosines: Tensor = (told * heard).sum(-1) / norms.where(norms > 0, 1)
    return cosines.mean()
