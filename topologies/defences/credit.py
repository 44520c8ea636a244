"""Credit by agreement with what evidence supports."""

import numpy as np

from topologies.defences.online import Talk, answer_of, guarded, words
from topologies.wiring import Floats


def credit(talk: Talk) -> Floats:
    """Suspects agents whose answers evidence does not support, or that few supported agents give.

    The support of an agent is the mean, over its messages, of the share of its answer's words that stand in the
    question or in a source. Its credit is its support times the mean of 1 and the support of its answer, summed over
    those who give it, over that of the best answer. Suspicion is 1 minus credit over the highest credit. Follows CrS
    (Ebrahimi et al. 2025, arXiv 2505.24239), where a judge's reward for the team's answer, shared out by contribution,
    moves credibility from question to question; here evidence takes the judge's place, within a discussion.
    """
    support, votes = np.full(len(talk.agents), np.nan), dict[str | None, float]()
    given = [answer_of(talk.question, message) for message in talk.last]
    for place, agent in enumerate(talk.agents):
        answers = [words(message.answer or "") for message in talk.messages if message.agent == agent]
        if answers:
            support[place] = np.mean([np.mean([word in talk.known for word in a]) if a else 0.0 for a in answers])
            votes[given[place]] = votes.get(given[place], 0.0) + support[place]
    best = max(votes.values(), default=0.0) or 1.0
    earned = support * (1 + np.array([votes.get(answer, 0.0) for answer in given]) / best) / 2
    # An agent without a message has neither earned credit nor lost it.
    return np.nan_to_num(1 - earned / max(np.nanmax(earned, initial=0.0), 1e-9), nan=0.0)


METHODS = (guarded("credit", "weighs agents by how far evidence supports them", credit),)
