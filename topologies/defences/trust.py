"""Trust that adapts to how agents move: a Friedkin-Johnsen fit."""

import numpy as np

from actors.messages import Message
from topologies.defences.online import Transcript, answer_of, guarded, one_hot
from topologies.wiring import Floats

PRIOR = 0.5  # susceptibility before anything was seen
STRENGTH = 1.0  # of the prior, in squared distance


def trust(transcript: Transcript) -> Floats:
    """Suspects agents that keep far from the others without moving.

    In the model of Friedkin and Johnsen (1990), x_i(t) = s_i sum_j w_ij x_j + (1 - s_i) x_i(0): an agent's opinion is
    between what it hears and its own first one. Opinions are one-hot answers times confidence; susceptibility s is
    fitted for each agent by ridge regression over its turns, towards `PRIOR`. Suspicion is (1 - s) times the distance
    of its last opinion from the mean of the others', over the largest possible. The paper describes opinions; their
    use as trust is this project's, and takes stubborn dissent for an attack.
    """
    answers = one_hot([answer_of(transcript.question, message) for message in transcript.messages])
    opinions: dict[str, Floats] = {}
    for message, answer in zip(transcript.messages, answers, strict=True):
        # A missing confidence counts as an even one.
        opinions[message.id] = answer * (0.5 if message.confidence is None else message.confidence)

    last_opinions = {message.agent: opinions[message.id] for message in transcript.messages}

    scores = np.zeros(len(transcript.agents))
    for place, agent in enumerate(transcript.agents):
        other_opinions = [last_opinions[peer] for peer in transcript.agents if peer in last_opinions and peer != agent]
        if agent in last_opinions and other_opinions:
            messages = [message for message in transcript.messages if message.agent == agent]
            distance = np.linalg.norm(last_opinions[agent] - np.mean(other_opinions, axis=0)) / 2**0.5
            scores[place] = (1 - susceptibility(messages, opinions)) * distance
    return scores


def susceptibility(messages: list[Message], opinions: dict[str, Floats]) -> float:
    """Measures the share, 0 to 1, by which an agent's opinion moves towards opinions that it hears.

    messages: the agent's own, in order.
    """
    first_opinion = opinions[messages[0].id]
    moved = 0.0
    pulled = 0.0
    for message in messages[1:]:
        own_suffix = f"/{message.agent}"
        heard_opinions = [opinions[id] for id in message.heard if id in opinions and not id.endswith(own_suffix)]
        if heard_opinions:
            pull = np.mean(heard_opinions, axis=0) - first_opinion
            moved += pull @ (opinions[message.id] - first_opinion)
            pulled += pull @ pull
    return float(np.clip((moved + STRENGTH * PRIOR) / (pulled + STRENGTH), 0, 1))


METHODS = (guarded("trust", "weighs down agents that stay far from the others", trust),)
