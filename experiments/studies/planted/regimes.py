"""Regimes of M3Prune's learner: the paper's, and changes of its reward, baseline, stages and penalties."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from topologies.learning.spec import LearnerSpec
from topologies.learning.variants import EFFECTS, M3PRUNE, RLOO, Variant

NO_PENALTIES = {"rank_weight": 0.0, "noise_weight": 0.0, "align_weight": 0.0}
OWN = {"reward": "own"}


@dataclass(frozen=True)
class Regime:
    """A variant with changed settings of the learner; a larger budget means more samples, or else more steps.

    most: largest budget; steps, unlike samples, are simulated one after another.
    """

    variant: Variant
    settings: Mapping[str, Any] = field(default_factory=dict)
    more_steps: bool = False
    most: int = 1_000_000

    def grown(self, spec: LearnerSpec, budget: int) -> tuple[LearnerSpec, int]:
        """Returns the learner with `budget` times as many discussions, and the factor of a step's samples."""
        steps, samples = (budget, 1) if self.more_steps else (1, budget)
        pruning = replace(spec.pruning, steps=spec.pruning.steps * steps)
        return replace(spec, settings=replace(spec.settings, **self.settings), pruning=pruning), samples


REGIMES = {
    "m3prune": Regime(M3PRUNE),
    "more steps": Regime(M3PRUNE, more_steps=True, most=16),
    "baseline": Regime(RLOO),
    "baseline, no stages": Regime(replace(RLOO, staged=False)),
    "baseline, no penalties": Regime(RLOO, NO_PENALTIES),
    "own answers": Regime(RLOO, OWN),
    "own, no stages": Regime(replace(RLOO, staged=False), OWN),
    "own, no penalties": Regime(RLOO, OWN | NO_PENALTIES),
    "effects": Regime(replace(EFFECTS, samples=None)),
}
