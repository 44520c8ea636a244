"""Trust that adapts to how agents move: a Friedkin-Johnsen fit."""

import numpy as np

from topologies.defences.online import Talk, answer_of, guarded
from topologies.wiring import Floats

PRIOR = 0.5  # susceptibility before anything was seen
STRENGTH = 1.0  # of the prior, in squared distance


def trust(talk: Talk) -> Floats:
    """Suspects agents that keep far from the others without moving.

    In the model of Friedkin and Johnsen (1990), x_i(t) = s_i sum_j w_ij x_j + (1 - s_i) x_i(0): an agent's opinion is
    between what it hears and its own first one. Opinions are one-hot answers times confidence; susceptibility s is
    fitted for each agent by ridge regression over its turns, towards `PRIOR`. Suspicion is (1 - s) times the distance
    of its last opinion from the mean of the others', over the largest possible. The paper describes opinions; their
    use as trust is this project's, and takes stubborn dissent for an attack.
    """
    given = sorted({answer for message in talk.messages if (answer := answer_of(talk.question, message)) is not None})
    opinions = {
        # A missing confidence counts as an even one.
        m.id: np.array([answer_of(talk.question, m) == answer for answer in given])
        * (0.5 if m.confidence is None else m.confidence)
        for m in talk.messages
    }
    scores = np.zeros(len(talk.agents))
    for place, agent in enumerate(talk.agents):
        own = [m for m in talk.messages if m.agent == agent]
        others = [opinions[m.id] for m in talk.last if m and m.agent != agent]
        if not own or not others:
            continue
        first, moved, pulled = opinions[own[0].id], 0.0, 0.0
        for message in own[1:]:
            heard = [opinions[id] for id in message.heard if id in opinions and not id.endswith(f"/{agent}")]
            if heard:
                pull = np.mean(heard, axis=0) - first
                moved, pulled = moved + pull @ (opinions[message.id] - first), pulled + pull @ pull
        susceptible = np.clip((moved + STRENGTH * PRIOR) / (pulled + STRENGTH), 0, 1)
        away = np.linalg.norm(opinions[own[-1].id] - np.mean(others, axis=0)) / 2**0.5
        scores[place] = (1 - susceptible) * away
    return scores


METHODS = (guarded("trust", "weighs down agents that stay far from the others", trust),)
