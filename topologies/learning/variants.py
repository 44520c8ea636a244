"""Learned methods, each a variant of one learner: how it estimates, what it prunes and when.

All share M3Prune's sampling (no biased cycle check), budget (the questions of both stages), rounds and agents, so that
a comparison with M3Prune is one of learning and pruning alone. Rates, weights and steps stay as configured. To add one,
describe it below and list it in `ALL_VARIANTS`.

Classes of estimators and pruning rules are named here, and a learner imports them: PyTorch takes seconds to import.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from topologies.learning.learner_settings import Decision
from topologies.method import Method, MethodContext
from topologies.topology import Topology

# Settings that count with a term of the objective.
OF_TERMS = {
    "rank": ("learner.rank_weight",),
    "noise": ("learner.noise", "learner.noise_weight", "learner.epsilon"),
    "alignment": ("learner.align_weight",),
}


@dataclass(frozen=True)
class Estimator:
    """Turns the scores of sampled wirings into logits of edges.

    implementation: `module:Class`, an `estimator.EdgeEstimator`; of a network its whole learner.
    reads: keys of settings that not every learner reads.
    is_gradient: it climbs the objective's gradient, so the terms of the objective count.
    is_network: it trains a network that draws the graph (network_learner.py).
    learns_from_others: it can learn from the discussions of a policy gradient.
    compares_samples: it compares the samples of a question with each other.
    """

    implementation: str
    reads: tuple[str, ...] = ()
    is_gradient: bool = False
    is_network: bool = False
    learns_from_others: bool = False
    compares_samples: bool = False


@dataclass(frozen=True)
class Rule:
    """Decides which edges are pruned, and when.

    implementation: `module:Class`, a `pruning_rules.PruningRule`.
    by_modality: each pair of modalities has a matrix to prune; else each kind of edge is one.
    drops_agents: agents go after the first of two stages.
    """

    implementation: str
    by_modality: bool = False
    drops_agents: bool = False


# Estimators.
REINFORCE = Estimator("topologies.learning.estimators:Reinforce", reads=("learner.reward",), is_gradient=True)
WITH_BASELINE = replace(REINFORCE, implementation="topologies.learning.estimators:Rloo", compares_samples=True)
OF_EFFECTS = Estimator("topologies.learning.randomised:Effects", reads=("learner.error_rate",), learns_from_others=True)
OF_EFFECTS_BY_QUESTION = replace(OF_EFFECTS, implementation="topologies.learning.question_model:EffectsByQuestion")
OF_OWN_ANSWERS = Estimator("topologies.learning.grades:Competence", reads=("learner.error_rate",))
OF_REMOVAL = replace(OF_OWN_ANSWERS, implementation="topologies.learning.grades:Removal")

# Pruning rules.
PROGRESSIVE = Rule("topologies.learning.pruning_rules:Progressive", by_modality=True)
BY_SIGN = Rule("topologies.learning.pruning_rules:BySign", by_modality=True)
ONCE = Rule("topologies.learning.pruning_rules:Once")
LIKELY = Rule("topologies.learning.pruning_rules:Likely")
AGENTS = Rule("topologies.learning.pruning_rules:AgentRule", drops_agents=True)


@dataclass(frozen=True)
class Variant:
    """Learned method.

    staged: stage 1 learns edges inside modalities and stage 2 those between them; else both stages learn all edges.
    decision, early_stop, confirm: what `learner.decision` and so on are where they are not set.
    samples: largest number of wirings of a question; None: as many as there are.
    per_round: every round has its own logits and masks.
    temporal, inter: whether temporal edges, and edges between modalities, exist.
    terms: terms of the objective that count, with utility; rank_from: the first stage in which the rank does.
    by_question: whether the graph depends on the question's features.
    removal: what each sample but a question's first leaves out of that one: all messages of an agent, or one turn's.
    """

    name: str
    description: str
    estimator: Estimator
    rule: Rule = PROGRESSIVE
    staged: bool = False
    decision: Decision = "all"
    samples: int | None = None
    per_round: bool = False
    temporal: bool = True
    inter: bool = True
    early_stop: float | None = None
    confirm: float = 0.0
    terms: frozenset[str] = frozenset(("rank", "noise", "alignment"))
    rank_from: int = 1
    by_question: bool = False
    removal: Literal["agent", "turn"] | None = None

    @property
    def shares_logits(self) -> bool:
        """True if edges between the same two roles can share a logit."""
        return self.estimator.is_gradient and not self.estimator.is_network and not self.rule.drops_agents

    @property
    def reads(self) -> tuple[str, ...]:
        """Keys of settings that not every learner reads."""
        keys = list(self.estimator.reads)
        if self.estimator.is_gradient:
            for term in sorted(self.terms):
                keys.extend(OF_TERMS[term])
        return tuple(keys)


def _learned_graph(context: MethodContext) -> Topology:
    assert context.learned is not None, "a method that needs a graph is made after learning"
    return context.learned


# M3Prune. Plain ascent as printed moves nothing in 40 steps with eta = .1; with Adam p spreads as in Figs. 3 and 19.
M3PRUNE = Variant(
    "m3prune",
    "M3Prune: policy gradient, pruned within each modality and then across, step by step",
    REINFORCE,
    staged=True,
)
RLOO = Variant(
    "m3prune_rloo",
    "M3Prune with a leave-one-out baseline of the utility",
    WITH_BASELINE,
    staged=True,
)

# Ours, and no paper's: sampled wirings as a randomised experiment, and a learned decision column. It measures best in
# the testbed with known truth (`experiment=planted`). Where questions have features and effects are shown to depend on
# them, at `learner.error_rate`, each question has its graph; else all have the common one. A stage that stops as early
# as one of `effects_common` is too short to show it.
EFFECTS = Variant(
    "effects",
    "ours: effects of edges, from wirings drawn by coins; edges that harm go, by question where effects depend on it",
    OF_EFFECTS_BY_QUESTION,
    BY_SIGN,
    decision="learned",
    confirm=0.2,
    samples=6,
    by_question=True,
)
BY_QUESTION = replace(EFFECTS, name="effects_by_question", description="`effects`, by an earlier name")
COMMON = replace(
    EFFECTS,
    name="effects_common",
    description="`effects` with one graph for all questions",
    estimator=OF_EFFECTS,
    early_stop=0.12,
    by_question=False,
)

# Zhang et al. 2025: policy gradient on all spatial and temporal edges with a low-rank term, and one cut at the end, of
# the least probable share of each matrix.
AGENTPRUNE = Variant(
    "agentprune",
    "the graph as AgentPrune learns it: policy gradient, low rank, one cut at the end",
    REINFORCE,
    ONCE,
    terms=frozenset(("rank",)),
)

# Zhuge et al. 2024: policy gradient on the edges of one pass, those to the final decision among them; at the end the
# edges with p > 1/2 stay. It has no rounds: only spatial edges are learned, and agents' memories join the rounds.
GPTSWARM = Variant(
    "gptswarm",
    "the graph as GPTSwarm learns it: policy gradient, edges likelier than not",
    REINFORCE,
    LIKELY,
    temporal=False,
    decision="learned",
    terms=frozenset(),
)

# Wang et al. 2025: first agents, then edges. Stage 1 learns edges, then the agents with the least probable edges go;
# stage 2 learns the others' edges afresh, with a low-rank term, then the least probable share of each matrix goes.
# An agent may be out of one round and take part in the next, which then hears nothing of it from before. The decision
# agent reads all that take part in the last round.
AGENTDROPOUT = Variant(
    "agentdropout",
    "the graph as AgentDropout learns it: first agents go, then edges, from each round its own",
    REINFORCE,
    AGENTS,
    per_round=True,
    terms=frozenset(("rank",)),
    rank_from=2,
)

# Networks that draw each question's graph; spatial edges alone, and the decision agent reads all that take part.
_network = partial(Variant, rule=LIKELY, temporal=False, terms=frozenset[str](), by_question=True)
G_DESIGNER = _network(
    "g_designer",
    "the graph that G-Designer's network draws for each question",
    Estimator("topologies.learning.g_designer:GDesignerLearner", is_gradient=True, is_network=True),
)
AGP = _network(
    "agp",
    "the graph and the agents that AGP's network picks for each question",
    Estimator("topologies.learning.agp:AgpLearner", is_gradient=True, is_network=True),
)
EIB_LEARNER = _network(
    "eib_learner",
    "the graph that EIB-Learner's two views of the team give for each question",
    Estimator("topologies.learning.eib_learner:EibLearner", is_gradient=True, is_network=True),
)

# Labelled baselines that learn no edge: whole agents are graded, and the significantly worse ones are cut (grades.py).
_graded = partial(Variant, rule=LIKELY, decision="learned", terms=frozenset())
COMPETENCE = _graded(
    "competence",
    "baseline: agents whose own answers are significantly worse than their modality's are not heard",
    OF_OWN_ANSWERS,
)
LEAVE_ONE_OUT = _graded(
    "leave_one_out",
    "baseline: agents without whom answers are significantly better are not heard",
    OF_REMOVAL,
    removal="agent",
)
# Chen et al. 2026: from the restored history of a turn, alternatives to its message; here the alternative is silence.
C3 = _graded(
    "c3",
    "the credit of C3: answers with a turn's message and without it, all turns before it being equal",
    OF_REMOVAL,
    removal="turn",
)

# In the order of `help=methods`.
ALL_VARIANTS = (
    M3PRUNE,
    RLOO,
    EFFECTS,
    COMMON,
    AGENTPRUNE,
    GPTSWARM,
    AGENTDROPOUT,
    G_DESIGNER,
    AGP,
    EIB_LEARNER,
    COMPETENCE,
    LEAVE_ONE_OUT,
    C3,
)
LEARNED = [variant.name for variant in ALL_VARIANTS]
VARIANTS = {variant.name: variant for variant in (*ALL_VARIANTS, BY_QUESTION)}
METHODS = tuple(
    Method(
        variant.name,
        variant.description,
        _learned_graph,
        needs_graph=True,
        learner=variant,
        reads=variant.reads,
        rivals=("single", "full", "random"),
    )
    for variant in VARIANTS.values()
)
