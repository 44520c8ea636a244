"""What a learner is before it has any edge: its settings, checked and resolved, and what follows from them.

Made without PyTorch, which takes seconds to import: a run's own process needs no more than this of the learners that it
starts in another one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from actors.messages import Modality
from topologies.learning.settings import Decision, Estimator, Init, LearnerSettings, PruningSettings, Rule
from topologies.wiring import Edges, Ints

if TYPE_CHECKING:
    from topologies.learning.learner import Learner

DENSE = 1000
"""Agents up to which a matrix of all pairs is made where one is asked for."""


@dataclass(frozen=True)
class EstimatorTraits:
    """What others go by of an estimator (estimators.py).

    decision, staged: what the settings of these names stand for where they are None.
    has_alignment: whether the alignment term has a say.
    each_step: whether its probabilities may be pruned by after each step; else when a stage ends.
    learns_from_any: whether it learns as well from wirings that another learner drew.
    least_samples: how many samples of each question it needs.
    """

    decision: Decision = Decision.ALL
    staged: bool = True
    has_alignment: bool = True
    each_step: bool = True
    learns_from_any: bool = False
    least_samples: int = 1


@dataclass(frozen=True)
class RuleTraits:
    """What others go by of a pruning rule (pruning_rules.py).

    whole: whether it prunes one matrix of all agents for each kind of edge, not one for each pair of modalities.
    stages: the least number of stages that it needs.
    by_round: whether rounds that have logits of their own have masks of their own too.
    """

    whole: bool = True
    stages: int = 1
    by_round: bool = False


ESTIMATOR_TRAITS = {
    Estimator.REINFORCE: EstimatorTraits(),
    Estimator.RLOO: EstimatorTraits(least_samples=2),
    Estimator.EFFECTS: EstimatorTraits(
        decision=Decision.LEARNED,
        staged=False,
        has_alignment=False,
        each_step=False,  # after a few steps nearly all effects are noise
        learns_from_any=True,  # an edge's surprise is its draw minus its probability, whoever drew it
    ),
}
RULE_TRAITS = {
    Rule.PROGRESSIVE: RuleTraits(whole=False),
    Rule.ONCE: RuleTraits(),
    Rule.LIKELY: RuleTraits(),
    Rule.AGENTS: RuleTraits(stages=2, by_round=True),
}


@dataclass(frozen=True)
class Scheme:
    """A learner's settings, of which none is left to choose, and the number of its stages."""

    modalities: tuple[Modality, ...]
    rounds: int
    settings: LearnerSettings
    pruning: PruningSettings
    stages: int

    @classmethod
    def of(
        cls, modalities: Iterable[Modality | str], rounds: int, settings: LearnerSettings, pruning: PruningSettings
    ) -> Scheme:
        """`modalities`: "text" or "visual" for every agent, in the agents' order. Raises ValueError on bad settings."""
        names = [str(modality) for modality in modalities]
        unknown = sorted(set(names) - {"text", "visual"})
        if unknown or not names:
            raise ValueError(f"each agent is text or visual, got {', '.join(unknown) or 'no agents'}")
        if rounds < 1:
            raise ValueError(f"rounds must be at least 1, got {rounds}")
        settings.check()
        pruning.check()
        if settings.settled is not None and not pruning.looks:
            raise ValueError("learner settled is asked at the looks of a stage, and pruning looks is 0: raise it")
        settings = resolved(settings)
        rule = RULE_TRAITS[pruning.rule]
        # Stages split matrices by modality, and probabilities that no gradient has moved say nothing of an edge's
        # share.
        if rule.whole and (settings.staged or not ESTIMATOR_TRAITS[settings.estimator].each_step):
            raise ValueError(f"pruning rule={pruning.rule} goes with estimator reinforce or rloo and staged=false")
        mixed = len(set(names)) > 1
        stages = max(rule.stages, 2 if settings.inter and mixed else 1)
        return cls(tuple(map(Modality, names)), rounds, settings, pruning, stages)

    @property
    def estimator(self) -> EstimatorTraits:
        return ESTIMATOR_TRAITS[self.settings.estimator]

    @property
    def rule(self) -> RuleTraits:
        return RULE_TRAITS[self.pruning.rule]


def resolved(settings: LearnerSettings) -> LearnerSettings:
    """The settings with the estimator's own choice in place of None."""
    own = ESTIMATOR_TRAITS[settings.estimator]
    staged = own.staged if settings.staged is None else settings.staged
    return replace(settings, decision=settings.decision or own.decision, staged=staged)


def check_listed(settings: LearnerSettings, pruning: PruningSettings) -> None:
    """Raises ValueError on settings that need a matrix of all pairs, which edges in lists do without."""
    if settings.estimator not in (Estimator.REINFORCE, Estimator.RLOO):
        raise ValueError(
            f"edges in lists or tied ones do not go with estimator={settings.estimator}, which needs all pairs of "
            "agents: leave it out, or choose reinforce or rloo"
        )
    if pruning.rule == Rule.AGENTS:
        raise ValueError("pruning rule=agents needs all pairs of agents: choose progressive, once or likely")
    if settings.beginnings is not None:
        raise ValueError(f"beginnings={settings.beginnings} needs all pairs of agents: leave it out")
    if settings.init != Init.HALF:
        raise ValueError(f"init={settings.init} needs all pairs of agents: choose half")
    if settings.decision == Decision.CONNECTED:
        raise ValueError("decision=connected needs all pairs of agents: choose all or learned")


@dataclass(frozen=True)
class LearnerSpec:
    """A learner that is still to be made.

    candidates: the edges to choose among, where these are not all pairs of agents; roles: of each agent, where logits
    are tied by role.
    """

    modalities: Sequence[Modality | str]
    rounds: int
    seed: int
    settings: LearnerSettings
    pruning: PruningSettings
    candidates: Edges[Ints] | None = None
    roles: Sequence[str] | None = None

    def scheme(self) -> Scheme:
        """What it will go by. Raises ValueError for settings that it cannot have."""
        if self.candidates is not None:
            check_listed(self.settings, self.pruning)
        return Scheme.of(self.modalities, self.rounds, self.settings, self.pruning)

    def __call__(self) -> Learner:
        """The learner, in the process that asks for it."""
        from topologies.learning.learner import Learner  # imports PyTorch
        from topologies.learning.list_learner import ListLearner

        make = (
            Learner if self.candidates is None else partial(ListLearner, candidates=self.candidates, roles=self.roles)
        )
        return make(self.modalities, rounds=self.rounds, seed=self.seed, settings=self.settings, pruning=self.pruning)
