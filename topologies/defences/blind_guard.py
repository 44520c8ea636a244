"""An anomaly score over embedded messages, without labels."""

from functools import lru_cache

import numpy as np

from actors.messages import derive_seed
from topologies.defences.online import Talk, guarded, words
from topologies.wiring import Floats

WIDTH = 256  # of an embedding; collisions of words are few in a discussion


def blind_guard(talk: Talk) -> Floats:
    """Suspects agents whose messages are unlike the others'; none before three have spoken.

    A text is a bag of words, hashed (Weinberger et al. 2009) and weighted by rarity in the discussion. Suspicion is the
    mean of three cosine distances: of the agent's last message from all others' last ones (the team), from those that
    it heard (its neighbours), and of its answer from all others'. Follows BlindGuard (Miao et al. 2025, arXiv
    2508.08127), which encodes agent, neighbours and team in a hierarchy, trained on clean discussions with corrupted
    embeddings, and cuts as many agents as it is given; here nothing is trained or given.
    """
    spoken, scores = [message for message in talk.last if message], np.zeros(len(talk.agents))
    if len(spoken) < 3:
        return scores
    others = 1 - np.eye(len(spoken))
    heard = np.array([[float(one.id in each.heard) for one in spoken] for each in spoken]) * others
    neighbours = np.where(heard.any(axis=1, keepdims=True), heard, others)
    content = alike([message.content for message in spoken])
    answer = alike([message.answer or "" for message in spoken])
    pairs = (content, others), (content, neighbours), (answer, others)
    near = [(like * of).sum(axis=1) / of.sum(axis=1) for like, of in pairs]
    scores[[talk.agents.index(message.agent) for message in spoken]] = np.clip(1 - np.mean(near, axis=0), 0, 1)
    return scores


def alike(texts: list[str]) -> Floats:
    """Cosine similarities of texts by rare words, float [texts, texts]; 0 for a text without words."""
    counts = np.array([hashed(text) for text in texts])
    rare = counts * np.log(1 + len(counts) / (1 + (counts > 0).sum(axis=0)))
    unit: Floats = rare / np.maximum(np.linalg.norm(rare, axis=1, keepdims=True), 1e-9)
    return unit @ unit.T


@lru_cache(maxsize=2_000)
def hashed(text: str) -> Floats:
    """Counts the words of a text by hash, float [WIDTH]."""
    return np.bincount([derive_seed(word) % WIDTH for word in words(text)], minlength=WIDTH).astype(float)


METHODS = (guarded("blind_guard", "weighs agents by the likeness of their messages to the others'", blind_guard),)
