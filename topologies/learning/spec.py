"""Specifications of learners and reports of their steps, without PyTorch, which takes seconds to import."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import NamedTuple

from actors.errors import UserError
from actors.messages import Modality
from actors.settings import validated
from topologies.learning.learner_settings import LearnerSettings, PruningSettings
from topologies.learning.variants import EFFECTS, Variant
from topologies.wiring import Edges, Floats, Ints

EXPLORING, CONFIRMING, CONFIRMED = range(3)  # phases of a learner
PRUNED, ALL, NONE = GRAPHS = ("the pruned graph", "all edges", "no edges")
"""Graphs of a confirmation: the pruned one, all edges, and none between agents. In the last two, the decision agent
reads the agents whose own answers were not graded as worse."""
DENSE = 1000
"""Agents up to which a matrix of all pairs is made where one is asked for."""


@dataclass(frozen=True)
class LearnerSpec:
    """All that determines a learner.

    modalities: "text" or "visual" for every agent, in the agents' order.
    candidates: pairs (sender, receiver) of each kind to choose among; None: all pairs of agents.
    roles: of each agent, where all edges between the same two roles share a logit; None: no edges do.
    features: number of features of a question, where graphs depend on them; 0: none are known.
    profiles: embeddings of the agents' descriptions [agents, d]; None: none are known.
    """

    modalities: Sequence[Modality | str]
    rounds: int = 2
    seed: int = 0
    variant: Variant = EFFECTS
    settings: LearnerSettings = field(default_factory=LearnerSettings)
    pruning: PruningSettings = field(default_factory=PruningSettings)
    candidates: Edges[Ints] | None = None
    roles: Sequence[str] | None = None
    features: int = 0
    profiles: Floats | None = field(default=None, compare=False)

    @property
    def visual(self) -> list[bool]:
        """True for each visual agent."""
        return [str(modality) == "visual" for modality in self.modalities]

    @property
    def stages(self) -> int:
        """One stage, or two where modalities differ or the rule prunes agents first."""
        mixed = len(set(self.visual)) > 1
        return 2 if self.variant.rule.drops_agents or (self.variant.inter and mixed) else 1

    @property
    def early_stop(self) -> float | None:
        """Largest share misjudged at which a stage ends early; None where it never does."""
        share = self.variant.early_stop if self.settings.early_stop is None else self.settings.early_stop
        return share if share and self.pruning.interim else None

    @property
    def reads_everyone(self) -> bool:
        """True if the decision agent reads all agents. Then none of its edges can be cut."""
        return (self.settings.decision or self.variant.decision) == "all"

    @property
    def confirming(self) -> int:
        """Number of steps that confirm the cut, after those of the last stage. At least one is left to learn from."""
        share = self.variant.confirm if self.settings.confirm is None else self.settings.confirm
        return min(round(share * self.stages * self.pruning.steps), self.pruning.steps - 1)

    def samples(self, available: int) -> int:
        """Number of samples of a question that it takes, of so many."""
        return min(available, self.variant.samples or available)

    def exploring(self, stage: int) -> PruningSettings:
        """The schedule of a stage, without steps that confirm."""
        if stage < self.stages:
            return self.pruning
        return replace(self.pruning, steps=self.pruning.steps - self.confirming)

    def check(self) -> None:
        """Raises UserError for settings out of their bounds, or that do not go together."""
        unknown = sorted({str(modality) for modality in self.modalities} - {"text", "visual"})
        if unknown or not len(self.modalities):
            raise UserError(f"each agent is text or visual, got {', '.join(unknown) or 'no agents'}")
        if self.rounds < 1:
            raise UserError(f"rounds must be at least 1, got {self.rounds}")
        validated(LearnerSettings, asdict(self.settings), "learner")
        validated(PruningSettings, asdict(self.pruning), "pruning")
        if self.settings.early_stop and not self.pruning.interim:
            raise UserError("learner.early_stop needs interim analyses: raise pruning.interim above 0")
        if self.confirming and (self.variant.rule.drops_agents or self.variant.estimator.is_network):
            raise UserError(f"learner.confirm: {self.variant.name} cannot undo a cut of edges; leave it out")
        if self.variant.estimator.is_network and self.settings.decision == "learned":
            raise UserError(
                f"{self.variant.name}'s decision agent reads every agent that takes part: leave out learner.decision"
            )
        if self.roles is not None and not self.variant.shares_logits:
            raise UserError(
                f"{self.variant.name} learns every edge separately: leave out topology.tied, or choose a "
                "method whose edges share logits, such as m3prune"
            )


@dataclass(frozen=True, kw_only=True)
class StepReport:
    """Report of one training step, with the objective's terms before the step, without their weights.

    utility: mean over the samples.
    rank: nuclear norms, summed over matrices.
    noise: the excess of the root mean square of mask0 - p * mask over epsilon.
    alignment: mean cosines, summed over kinds.
    gradient_norm: over all logits that this stage trains; with `effects` the norm of their change. 0 in a confirmation.
    pruning_rate: the p_t last used.
    edges: left after the step, by "sender>receiver kind".
    confirmed: what a confirmation that ended with this step chose, in words; empty for none.
    doubts: as of `Learner.doubts`.
    """

    stage: int
    step: int
    utility: float
    rank: float = 0.0
    noise: float = 0.0
    alignment: float = 0.0
    objective: float
    gradient_norm: float = 0.0
    pruning_rate: float = 0.0
    edges: dict[str, int]
    confirmed: str = ""
    doubts: tuple[str, ...] = ()


class LearnerStatus(NamedTuple):
    """Place of a learner in its training.

    stage: from 1. step: steps of the stage that it has learned from, of `steps`.
    finished: all stages are over. confirming: the next steps compare the pruned graph with simple ones.
    may_stop: the rest of the stage would hardly change its cut.
    lookahead: number of steps beyond the next one that can be sampled now.
    """

    stage: int
    step: int
    steps: int
    finished: bool
    confirming: bool
    may_stop: bool
    lookahead: int


class Surrogate(NamedTuple):
    """Slope of effects on the final answer against those on own answers, and credit to use.

    slope, low, high: pooled over senders, with its 95% interval; all 0 where own answers show no effect.
    credit: `own` or `final`, the answers whose effects count. senders: agents for which the final answer counts all the
    same, because there the two effects have opposite signs.
    """

    slope: float
    low: float
    high: float
    credit: str
    senders: tuple[int, ...]


def shared_training(learners: Mapping[str, LearnerSpec]) -> dict[str, str]:
    """Finds for each learner, by name, the first other one from whose discussions it can learn."""
    sources = {}
    for name, learner in learners.items():
        able = (source_name for source_name, source in learners.items() if can_learn_from(learner, source))
        source_name = next(able, None)
        if source_name is not None:
            sources[name] = source_name
    return sources


def can_learn_from(learner: LearnerSpec, source: LearnerSpec) -> bool:
    """True if a learner can learn from the discussions of another one alone.

    An estimate of effects needs the probability of each drawn edge, whichever learner drew it (`Wirings.chances`). A
    gradient is one of the learner's own probabilities, so that the wirings of others are of no use to it. The source
    must take the same stages and steps and try every edge between agents that the learner decides about. The decision
    agent's edges need not be tried: an agent is then judged by its effect on other agents.

    Edges that the source has pruned are not drawn any more: their estimates move with the sender's other edges only.
    Interim analyses prune the learner's own graph, with the same error rate, but the source goes on drawing those
    edges, and no tokens are saved.
    """
    return (
        learner.variant.estimator.learns_from_others
        and source.variant.estimator.is_gradient
        and not source.variant.estimator.is_network
        and learner.stages == source.stages
        and learner.pruning.steps == source.pruning.steps
        and learner.rounds == source.rounds
        and source.variant.temporal >= learner.variant.temporal
        and source.variant.inter >= learner.variant.inter
    )
