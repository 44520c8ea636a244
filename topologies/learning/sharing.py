"""Who may learn from whose discussions: those of one learner can serve several.

An estimate of effects asks how likely each edge of a draw was, not who drew it (`Wirings.chances`). A gradient is that
of the learner's own probabilities, so that wirings which others drew are of no use to it.

What another learner has pruned is not drawn any more: what is known of it stays as it was, and is drawn towards what is
known of its sender's other edges. A look cuts from the learner's own graph what is certain to harm, with the same error
rate (evidence.py asks nothing of who draws, or why); but the donor goes on drawing it, and no tokens are saved.
"""

from __future__ import annotations

from collections.abc import Mapping

from topologies.learning.scheme import Scheme


def donors(learners: Mapping[str, Scheme]) -> dict[str, str]:
    """By name, the learner whose discussions another one can learn from instead of its own: of several, the first."""
    found = {}
    for name, learner in learners.items():
        able = [other for other, donor in learners.items() if may_learn_from(learner, donor)]
        if able:
            found[name] = able[0]
    return found


def may_learn_from(learner: Scheme, donor: Scheme) -> bool:
    """Whether a learner can do without discussions of its own: its estimator needs no draws of its own, and the donor's
    does, takes the same stages and steps, and tries every edge between agents that the learner decides about.

    Whom the decision agent reads need not be tried: an agent is then judged by what hearing it does to other agents.
    """
    steps = [(one.stages, one.pruning.steps, one.rounds) for one in (learner, donor)]
    tries = [(one.settings.temporal, one.settings.inter) for one in (learner, donor)]
    return (
        learner.estimator.learns_from_any
        and not donor.estimator.learns_from_any
        and steps[0] == steps[1]
        and all(tried >= asked for asked, tried in zip(*tries, strict=True))
    )
