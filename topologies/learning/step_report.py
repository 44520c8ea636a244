"""The report of one training step."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class StepReport:
    """One training step. The terms are those of the objective before the step, without their weights.

    utility: mean over the samples. rank: nuclear norms, summed over matrices. noise: the excess of the root mean square
    of mask0 - p * mask over epsilon. alignment: mean cosines, summed over kinds. gradient_norm: over all logits that
    this stage trains; with `effects` the norm of their change. pruning_rate: the p_t last used. edges: left after the
    step, by "sender>receiver kind".
    """

    stage: int
    step: int
    utility: float
    rank: float
    noise: float
    alignment: float
    objective: float
    gradient_norm: float
    pruning_rate: float
    edges: dict[str, int]
