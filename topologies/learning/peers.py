"""The learned methods, as settings of one learner: how each learns edges, and what it cuts and when.

The others share M3Prune's sampling (no biased cycle check), its budget (both stages' questions), its rounds and agents,
so that a comparison with M3Prune is one of learning and pruning alone. Rates, the low-rank weight and steps stay as
configured. What differs from the originals is said with each. To add one, name it in `Peer`, describe it below and list
it in `VARIANTS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from topologies.learning.settings import Decision, Estimator, LearnerSettings, Optimiser, Peer, PruningSettings, Rule
from topologies.method import Method, MethodContext
from topologies.topology import Topology


@dataclass(frozen=True)
class Variant:
    """One learner. learner, pruning: the settings that it does not leave to the configuration."""

    name: Peer
    description: str
    learner: Mapping[str, Any] = field(default_factory=dict)
    pruning: Mapping[str, Any] = field(default_factory=dict)

    def settings(self, learner: LearnerSettings, pruning: PruningSettings) -> tuple[LearnerSettings, PruningSettings]:
        """Copies of the settings, as this learner has them."""
        return replace(learner, **self.learner), replace(pruning, **self.pruning)

    @property
    def method(self) -> Method:
        name = str(self.name)
        return Method(name, self.description, _learned_graph, needs_graph=True, learner=name)


def _learned_graph(context: MethodContext) -> Topology:
    assert context.learned is not None, "a method that needs a graph is made after learning"
    return context.learned


# The plain policy gradient of their papers with Adam, which they were published with.
POLICY_GRADIENT = {
    "estimator": Estimator.REINFORCE,
    "optimiser": Optimiser.ADAM,
    "staged": False,
    "align_weight": 0.0,
    "noise_weight": 0.0,
}

M3PRUNE = Variant(
    Peer.M3PRUNE,
    "M3Prune: policy gradient, pruned within each modality and then across, step by step",
    {"estimator": Estimator.REINFORCE},
)
RLOO = Variant(Peer.RLOO, "M3Prune with a leave-one-out baseline of the utility", {"estimator": Estimator.RLOO})

# Ours, and no paper's: sampled wirings as a randomised experiment (effects.py), and a learned decision column.
EFFECTS = Variant(
    Peer.EFFECTS,
    "ours: each edge's effect on its receiver, estimated from wirings drawn by fair coins; what harms goes",
    {"estimator": Estimator.EFFECTS},
)

# Zhang et al. 2025: policy gradient on all spatial and temporal edges with a low-rank term, and one cut at the end, of
# the least probable share of each matrix.
AGENTPRUNE = Variant(
    Peer.AGENTPRUNE,
    "the graph as AgentPrune learns it: policy gradient, low rank, one cut at the end",
    {**POLICY_GRADIENT, "decision": Decision.ALL},
    {"rule": Rule.ONCE},
)

# Zhuge et al. 2024: policy gradient on the edges of one pass, those to the final decision among them; at the end the
# edges with p > 1/2 stay. It has no rounds: here only spatial edges are learned, and rounds hang together by each
# agent's own memory.
GPTSWARM = Variant(
    Peer.GPTSWARM,
    "the graph as GPTSwarm learns it: policy gradient, edges likelier than not",
    {**POLICY_GRADIENT, "rank_weight": 0.0, "temporal": False, "decision": Decision.LEARNED},
    {"rule": Rule.LIKELY},
)

# Wang et al. 2025: first agents, then edges. The first stage learns edges, then the agents with the least probable
# edges go; the second learns the others' edges afresh, with a low-rank term, then the least probable share of each
# matrix goes. Logits and masks are each round's own: an agent may be out of one round and take part in the next, which
# then hears nothing of it from before. The decision agent reads all that take part in the last round.
AGENTDROPOUT = Variant(
    Peer.AGENTDROPOUT,
    "the graph as AgentDropout learns it: first agents go, then edges, from each round its own",
    {**POLICY_GRADIENT, "per_round": True, "decision": Decision.ALL, "rank_from": 2},
    {"rule": Rule.AGENTS},
)

VARIANTS = {one.name: one for one in (M3PRUNE, RLOO, EFFECTS, AGENTPRUNE, GPTSWARM, AGENTDROPOUT)}
METHODS = tuple(one.method for one in VARIANTS.values())
