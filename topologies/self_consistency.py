"""Self-consistency: the agent that answers alone, as often as the tokens of a discussion allow, and a vote."""

from topologies.baselines import Single
from topologies.controls.twin import Twin
from topologies.method import Method, MethodContext
from topologies.topology import Topology


def self_consistency(context: MethodContext) -> Topology:
    """Makes the twin of the team named before it in `methods`, with the evidence that `single` reads.

    The most frequent of the sampled answers wins, compared as votes are (Wang et al. 2022). Where no tokens are known,
    it has one sample, as `single`.
    """
    tokens, left_over = context.known.tokens, context.known.left_over
    return Twin(context.method, tokens, left_over, read=None) if tokens else Single(context.method)


WHAT = "one agent alone: as many samples as the tokens of the team named before it pay for, and a vote"
METHODS = (Method("self_consistency", WHAT, self_consistency, asks_team=False, alone=True, spends=True),)
