"""Learned methods, each a variant of one learner: how it estimates, what it prunes and when.

All share M3Prune's sampling (no biased cycle check), budget (the questions of both stages), rounds and agents, so that
a comparison with M3Prune is one of learning and pruning alone. Rates, weights and steps stay as configured. To add one,
name it in `LearnedMethod`, describe it below and list it in `VARIANTS`.
"""

from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import Literal

from topologies.learning.learner_settings import Decision
from topologies.method import Method, MethodContext
from topologies.topology import Topology


class LearnedMethod(StrEnum):
    """Names of the learned methods."""

    M3PRUNE = "m3prune"
    RLOO = "m3prune_rloo"
    EFFECTS = "effects"
    BY_QUESTION = "effects_by_question"
    AGENTPRUNE = "agentprune"
    GPTSWARM = "gptswarm"
    AGENTDROPOUT = "agentdropout"
    G_DESIGNER = "g_designer"
    AGP = "agp"
    EIB_LEARNER = "eib_learner"
    COMPETENCE = "competence"
    LEAVE_ONE_OUT = "leave_one_out"
    C3 = "c3"


Estimator = Literal["reinforce", "rloo", "effects", "effects_by_question", "network", "competence", "removal"]
Rule = Literal["progressive", "by_sign", "once", "likely", "agents"]


@dataclass(frozen=True)
class Variant:
    """Learned method.

    estimator: policy gradient (estimators.py), with a baseline (`rloo`), or a randomised experiment (randomised.py);
        `network`: the policy gradient of a network's weights (network_learner.py).
    rule: pruning rule (pruning_rules.py).
    staged: stage 1 learns edges inside modalities and stage 2 those between them; else both stages learn all edges.
    decision, early_stop, confirm: what `learner.decision` and so on are where they are not set.
    per_round: every round has its own logits and masks.
    temporal, inter: whether temporal edges, and edges between modalities, exist.
    terms: terms of the objective that count, with utility; rank_from: the first stage in which the rank does.
    by_question: whether the graph depends on the question's features.
    unheard: what each sample but a question's first leaves out of that one: all messages of an agent, or one turn's.
    """

    name: LearnedMethod
    description: str
    estimator: Estimator
    rule: Rule = "progressive"
    staged: bool = False
    decision: Decision = "all"
    per_round: bool = False
    temporal: bool = True
    inter: bool = True
    early_stop: float | None = None
    confirm: float = 0.0
    terms: frozenset[str] = frozenset(("rank", "noise", "alignment"))
    rank_from: int = 1
    by_question: bool = False
    unheard: Literal["agent", "turn"] | None = None

    @property
    def is_gradient(self) -> bool:
        """True if it climbs the objective's gradient: all its terms count, and it learns from its own draws alone.

        Estimates of effects, noise in the first steps, prune at interim analyses and at a stage's end. They learn from
        any wirings whose probabilities are known.
        """
        return self.estimator in ("reinforce", "rloo", "network")


def _learned_graph(context: MethodContext) -> Topology:
    assert context.learned is not None, "a method that needs a graph is made after learning"
    return context.learned


# M3Prune. Plain ascent as printed moves nothing in 40 steps with eta = .1; with Adam p spreads as in Figs. 3 and 19.
M3PRUNE = Variant(
    LearnedMethod.M3PRUNE,
    "M3Prune: policy gradient, pruned within each modality and then across, step by step",
    "reinforce",
    staged=True,
)
RLOO = Variant(
    LearnedMethod.RLOO,
    "M3Prune with a leave-one-out baseline of the utility",
    "rloo",
    staged=True,
)

# Ours, and no paper's: sampled wirings as a randomised experiment, and a learned decision column. It measures best in
# the testbed with known truth (`experiment=planted`).
EFFECTS = Variant(
    LearnedMethod.EFFECTS,
    "ours: each edge's effect on its receiver, estimated from wirings drawn by fair coins; what harms goes",
    "effects",
    "by_sign",
    decision="learned",
    early_stop=0.12,
    confirm=0.2,
)

BY_QUESTION = replace(
    EFFECTS,
    name=LearnedMethod.BY_QUESTION,
    description="ours: `effects`, and a graph for each question where senders help on some and harm on others",
    estimator="effects_by_question",
    by_question=True,
    early_stop=None,
)

# Zhang et al. 2025: policy gradient on all spatial and temporal edges with a low-rank term, and one cut at the end, of
# the least probable share of each matrix.
AGENTPRUNE = Variant(
    LearnedMethod.AGENTPRUNE,
    "the graph as AgentPrune learns it: policy gradient, low rank, one cut at the end",
    "reinforce",
    "once",
    terms=frozenset(("rank",)),
)

# Zhuge et al. 2024: policy gradient on the edges of one pass, those to the final decision among them; at the end the
# edges with p > 1/2 stay. It has no rounds: only spatial edges are learned, and agents' memories join the rounds.
GPTSWARM = Variant(
    LearnedMethod.GPTSWARM,
    "the graph as GPTSwarm learns it: policy gradient, edges likelier than not",
    "reinforce",
    "likely",
    temporal=False,
    decision="learned",
    terms=frozenset(),
)

# Wang et al. 2025: first agents, then edges. Stage 1 learns edges, then the agents with the least probable edges go;
# stage 2 learns the others' edges afresh, with a low-rank term, then the least probable share of each matrix goes.
# An agent may be out of one round and take part in the next, which then hears nothing of it from before. The decision
# agent reads all that take part in the last round.
AGENTDROPOUT = Variant(
    LearnedMethod.AGENTDROPOUT,
    "the graph as AgentDropout learns it: first agents go, then edges, from each round its own",
    "reinforce",
    "agents",
    per_round=True,
    terms=frozenset(("rank",)),
    rank_from=2,
)

# Networks that draw each question's graph; spatial edges alone, and the decision agent reads all that take part.
_network = partial(
    Variant, estimator="network", rule="likely", temporal=False, terms=frozenset[str](), by_question=True
)
G_DESIGNER = _network(LearnedMethod.G_DESIGNER, "the graph that G-Designer's network draws for each question")
AGP = _network(LearnedMethod.AGP, "the graph and the agents that AGP's network picks for each question")
EIB_LEARNER = _network(
    LearnedMethod.EIB_LEARNER, "the graph that EIB-Learner's two views of the team give for each question"
)

# Labelled baselines that learn no edge: whole agents are graded, and the significantly worse ones are cut (grades.py).
_graded = partial(Variant, rule="likely", decision="learned", terms=frozenset())
WORSE = "baseline: agents whose own answers are significantly worse than their modality's are not heard"
COMPETENCE = _graded(LearnedMethod.COMPETENCE, WORSE, "competence")
WITHOUT_AGENT = "baseline: agents without whom answers are significantly better are not heard"
LEAVE_ONE_OUT = _graded(LearnedMethod.LEAVE_ONE_OUT, WITHOUT_AGENT, "removal", unheard="agent")
# Chen et al. 2026: from the restored history of a turn, alternatives to its message; here the alternative is silence.
WITHOUT_TURN = "the credit of C3: answers with a turn's message and without it, all turns before it being equal"
C3 = _graded(LearnedMethod.C3, WITHOUT_TURN, "removal", unheard="turn")

_EDGES = (M3PRUNE, RLOO, EFFECTS, BY_QUESTION, AGENTPRUNE, GPTSWARM, AGENTDROPOUT)
VARIANTS = {one.name: one for one in (*_EDGES, G_DESIGNER, AGP, EIB_LEARNER, COMPETENCE, LEAVE_ONE_OUT, C3)}
METHODS = tuple(
    Method(str(name), one.description, _learned_graph, needs_graph=True, learner=str(name))
    for name, one in VARIANTS.items()
)
