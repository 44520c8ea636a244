"""An anomaly score over embedded messages, without labels."""

from functools import lru_cache

import numpy as np

from actors.messages import derive_seed
from topologies.defences.online import Transcript, guarded, words
from topologies.wiring import Floats

WIDTH = 256  # of an embedding; collisions of words are few in a discussion


def blind_guard(transcript: Transcript) -> Floats:
    """Suspects agents whose messages are unlike the others'; none before three have spoken.

    A text is a bag of words, hashed (Weinberger et al. 2009) and weighted by rarity in the discussion. Suspicion is the
    mean of three cosine distances: of the agent's last message from all others' last ones (the team), from the ones
    it heard (its neighbours), and of its answer from all others'. Follows BlindGuard (Miao et al. 2025, arXiv
    2508.08127), which encodes agent, neighbours and team in a hierarchy, trained on clean discussions with corrupted
    embeddings, and cuts as many agents as it is given; here nothing is trained or given.
    """
    scores = np.zeros(len(transcript.agents))
    messages = [message for message in transcript.last_messages if message is not None]
    if len(messages) < 3:
        return scores

    is_other = 1 - np.eye(len(messages))
    ids = [message.id for message in messages]
    was_heard = np.array([np.isin(ids, receiver.heard) for receiver in messages]) * is_other
    neighbours = np.where(was_heard.any(axis=1, keepdims=True), was_heard, is_other)

    content = similarities([message.content for message in messages])
    answers = similarities([message.answer or "" for message in messages])
    similarity = np.mean(
        [mean_over(content, is_other), mean_over(content, neighbours), mean_over(answers, is_other)], axis=0
    )

    places = [transcript.agents.index(message.agent) for message in messages]
    scores[places] = np.clip(1 - similarity, 0, 1)
    return scores


def mean_over(similarity: Floats, weights: Floats) -> Floats:
    """Weighted mean of each row, float [rows]."""
    mean: Floats = (similarity * weights).sum(axis=1) / weights.sum(axis=1)
    return mean


def similarities(texts: list[str]) -> Floats:
    """Cosine similarities of texts by rare words, float [texts, texts]; 0 for a text without words."""
    counts = np.array([hashed(text) for text in texts])
    rarity = np.log(1 + len(counts) / (1 + (counts > 0).sum(axis=0)))
    vectors = counts * rarity
    unit: Floats = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)
    return unit @ unit.T


@lru_cache(maxsize=2_000)
def hashed(text: str) -> Floats:
    """Counts the words of a text by hash, float [WIDTH]."""
    return np.bincount([derive_seed(word) % WIDTH for word in words(text)], minlength=WIDTH).astype(float)


METHODS = (guarded("blind_guard", "weighs agents by the likeness of their messages to the others'", blind_guard),)
