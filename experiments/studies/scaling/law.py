"""The law of learning graphs: the number of graded discussions that show the effect of one sender.

Edges are drawn by coins of chance pi, independent of the question and of all answers. A discussion's graded score is a
base plus the effects of the drawn edges on it plus noise of variance s^2. Per discussion, the coins of a sender's edges
give the information

    I = sum over edges of pi (1 - pi) d^2 / s^2                                                                    (1)

on the sender, d being an edge's effect minus what other senders have on the same receiver. The estimate of d with
weights proportional to pi (1 - pi) d is normal with variance 1 / (n I), in units of the sum's mean, and no other
weights have less. Ranked above one other sender with the same noise, it is right with chance

    AUC = Phi(sqrt(n I / 2)),   so that   n = 2 z^2 / I,   z = Phi^-1(AUC)                                         (2)

With receivers' own grades, s^2 is the variance of one receiver's grade. With the final answer's score alone, d is the
edge's effect on it, about 1 / N of the other for N agents, and s^2 the variance of that score.

For a learner that sees the final score alone, in one of two worlds that differ in the sign of d (Le Cam's method with
Bretagnolle and Huber's inequality): the scores of a discussion in both have a divergence of

    KL <= 4 sum over edges of pi (1 - pi) d^2 / v                                                                  (3)

with v the smallest variance p (1 - p) of a score of 0 or 1 under any graph. A learner that errs in at most a share `a`
of cases in either world needs

    n >= log(1 / (4 a)) / KL                                                                                       (4)
"""

from collections.abc import Sequence
from math import log
from statistics import NormalDist

from experiments.studies.planted.truth import Truth
from topologies.wiring import Edges, Floats


def needed(information: float, auc: float) -> float | None:
    """Equation (2): discussions until a sender is ranked with this AUC. None where no information was measured."""
    if information <= 0:
        return None
    return 2 * NormalDist().inv_cdf(auc) ** 2 / information


def at_least(divergence: float, error: float) -> float:
    """Equation (4): with fewer discussions, every learner of final scores errs more often in one of both worlds."""
    return log(1 / (4 * error)) / divergence


def information_on(truth: Truth, effects: Edges[Floats], variance: float, sender: int, rivals: Sequence[int]) -> float:
    """Equation (1): information of one discussion on a sender's edges to agents, against those of its rivals.

    effects, variance: of one kind of score, as in `Truth`. rivals: other senders, which are also the receivers.

    The squares of estimated effects are too large by the variance of the estimates, which is taken off: the sum may be
    below 0.
    """
    total = 0.0
    for kind_effects, tosses in zip(effects, truth.tosses, strict=True):
        if not tosses.any():
            continue  # one round has no temporal edges
        for receiver in rivals:
            senders_compared = [rival for rival in rivals if rival != receiver]
            contrast = kind_effects[sender, receiver] - kind_effects[senders_compared, receiver].mean()
            uncertainty = (
                1 / tosses[sender, receiver]
                + (1 / tosses[senders_compared, receiver]).sum() / len(senders_compared) ** 2
            )
            total += tosses[sender, receiver] * (contrast**2 / variance - uncertainty)
    return float(total / truth.discussions)
