"""A guard with a few labels: isolates agents that answer too few probes right.

Probes are watched questions whose answers are known, one of each document. Agents cannot tell them from others. Labels
stay with the experiment, which hands over how many of its last answers in the discussions of probes each agent had
right. A failed turn is no answer.

Null hypothesis of an agent: it answers a probe right with a probability of at least `defence.least_accuracy`, p, in
discussions such as the watched ones. Documents are drawn independently, so that its number of right answers among n
probes is at least binomial with n and p. An agent is isolated for good if the binomial distribution gives so few right
answers a probability of at most a / N, with a = `defence.error_rate` and N agents. By the union bound, however agents
depend on each other, any agent for which the hypothesis holds is isolated with a probability of at most a.
"""

import math

import numpy as np
from scipy.special import bdtr

from topologies.defences.suspicion import without
from topologies.method import DefenceSettings, Method, MethodContext
from topologies.topology import Wired


def probability(right: int, probes: int, accuracy: float) -> float:
    """Probability of at most so many right answers to probes, for an agent of this accuracy."""
    return float(bdtr(right, probes, accuracy))


def fewest_probes(agents: int, defence: DefenceSettings) -> int:
    """Smallest number of probes with which a guard of so many agents isolates one that has no right answer."""
    return math.ceil(math.log(defence.error_rate / agents) / math.log1p(-defence.least_accuracy))


def most_right(probes: int, agents: int, defence: DefenceSettings) -> int:
    """Largest number of right answers with which an agent is isolated; -1 where there are too few probes."""
    right = -1
    while probability(right + 1, probes, defence.least_accuracy) <= defence.error_rate / agents:
        right += 1
    return right


def probed(context: MethodContext) -> Wired:
    """Makes discussions without the agents that answered too few probes right. Suspicion is 1 minus the probability.

    Where all would be isolated, none is: there would be no discussion.
    """
    defence = context.defence
    probabilities = []
    for agent in context.agents:
        right, probes = context.known.probes.get(agent, (0, 0))
        probabilities.append(probability(right, probes, defence.least_accuracy))

    silent = np.array(probabilities) <= defence.error_rate / len(context.agents)
    return without(context, 1 - np.array(probabilities), silent & ~silent.all())


METHODS = (
    Method(
        "probes",
        "complete graph without the agents that answered too few probes right, questions with known answers",
        probed,
        needs_calibration=True,
        probes=True,
        reads=("defence.error_rate", "defence.least_accuracy"),
    ),
)
