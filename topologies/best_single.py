"""The best single agent: the one of the team whose answers alone were graded best in training."""

from topologies.baselines import Single
from topologies.method import Method, MethodContext


def best_single(context: MethodContext) -> Single:
    """Makes one turn of that agent, by itself and with the evidence of its role; of equal ones the first of the team.

    Grades come from the training discussions of the run's first learner: turns of round 1 that heard no other agent.
    """
    graded = context.known.graded
    return Single(context.method, agent=max(context.agents, key=lambda agent: graded.get(agent, -1.0)))


WHAT = "the agent of the team whose answers alone scored best in training, by itself"
METHODS = (Method("best_single", WHAT, best_single, needs_graph=True, alone=True, graded=True),)
