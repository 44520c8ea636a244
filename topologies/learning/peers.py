"""Other learners of communication graphs, as settings of ours: how each learns edges and what it cuts, and when.

They share its sampling (no biased cycle check), its budget (both stages' questions), its rounds and agents, so that a
comparison with M3Prune is one of learning and pruning alone. What differs from the originals is said with each.
"""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum

from topologies.learning.settings import Decision, Estimator, LearnerSettings, Optimiser, PruningSettings, Rule


class Peer(StrEnum):
    """Learners by the names of their methods.

    `agentprune` (Zhang et al. 2025): policy gradient on all spatial and temporal edges with a low-rank term, and one
    cut at the end, of the least probable share of each matrix.
    `gptswarm` (Zhuge et al. 2024): policy gradient on the edges of one pass, those to the final decision among them; at
    the end the edges with p > 1/2 stay. It has no rounds: here only spatial edges are learned, and rounds hang together
    by each agent's own memory.
    `agentdropout` (Wang et al. 2025): first agents, then edges. The first stage learns edges, then the agents with the
    least probable edges go; the second learns the others' edges afresh, with a low-rank term, then the least probable
    share of each matrix goes. The original may drop other agents in each round; here logits are per round, and an agent
    goes from all rounds.
    """

    M3PRUNE = "m3prune"
    AGENTPRUNE = "agentprune"
    GPTSWARM = "gptswarm"
    AGENTDROPOUT = "agentdropout"


def as_peer(peer: Peer, learner: LearnerSettings, pruning: PruningSettings) -> tuple[LearnerSettings, PruningSettings]:
    """The settings with which our learner learns as a peer does; rates, the low-rank weight and steps stay as given.

    All peers use the plain policy gradient of their papers with Adam, which they were published with.
    """
    if peer is Peer.M3PRUNE:
        return learner, pruning
    learner = replace(
        learner,
        estimator=Estimator.REINFORCE,
        optimiser=Optimiser.ADAM,
        staged=False,
        align_weight=0.0,
        noise_weight=0.0,
    )
    match peer:
        case Peer.AGENTPRUNE:
            return replace(learner, decision=Decision.ALL), replace(pruning, rule=Rule.ONCE)
        case Peer.GPTSWARM:
            learner = replace(learner, rank_weight=0.0, temporal=False, decision=Decision.LEARNED)
            return learner, replace(pruning, rule=Rule.LIKELY)
        case _:
            learner = replace(learner, per_round=True, decision=Decision.CONNECTED)
            return learner, replace(pruning, rule=Rule.AGENTS)
