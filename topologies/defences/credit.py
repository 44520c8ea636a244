"""Credit by agreement with what evidence supports."""

import numpy as np

from topologies.defences.online import Transcript, guarded, words
from topologies.wiring import Floats


def credit(transcript: Transcript) -> Floats:
    """Suspects agents whose answers evidence does not support, or that few supported agents give.

    The support of an agent is the mean, over its messages, of the share of its answer's words that stand in the
    question or in a source. Its credit is its support times the mean of 1 and the support of its answer, summed over
    those who give it, over that of the best answer. Suspicion is 1 minus credit over the highest credit. Follows CrS
    (Ebrahimi et al. 2025, arXiv 2505.24239), where a judge's reward for the team's answer, shared out by contribution,
    moves credibility from question to question; here evidence takes the judge's place, within a discussion.
    """
    support = np.array([support_of(transcript, agent) for agent in transcript.agents])

    answers = transcript.last_answers
    votes: dict[str | None, float] = {}
    for answer, agent_support in zip(answers, support, strict=True):
        votes[answer] = votes.get(answer, 0.0) + np.nan_to_num(agent_support)

    best = max(votes.values(), default=0.0) or 1.0
    answer_support = np.array([votes[answer] for answer in answers])
    credits = support * (1 + answer_support / best) / 2
    highest = max(np.nanmax(credits, initial=0.0), 1e-9)
    # An agent without a message has neither earned credit nor lost it.
    return np.nan_to_num(1 - credits / highest, nan=0.0)


def support_of(transcript: Transcript, agent: str) -> float:
    """Mean share of the words of an agent's answers that stand in a source; NaN without a message."""
    shares = []
    for message in transcript.messages:
        if message.agent == agent:
            answer = words(message.answer or "")
            supported = [word in transcript.source_words for word in answer]
            shares.append(sum(supported) / max(len(supported), 1))
    return float(np.mean(shares)) if shares else np.nan


METHODS = (guarded("credit", "weighs agents by how far evidence supports them", credit),)
