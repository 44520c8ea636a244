"""Geometric median of the team's answers."""

import numpy as np

from topologies.defences.online import Transcript, guarded, one_hot
from topologies.wiring import Floats

STEPS = 50  # of Weiszfeld's algorithm, which converges linearly
LEAST = 1e-3  # distance, where a point is the median


def geometric_median(transcript: Transcript) -> Floats:
    """Suspects agents by the distance of their answers from the geometric median of all answers.

    Answers are one-hot vectors over all answers given; suspicion is the distance over the largest possible, 0 for
    an agent without an answer. Follows RFA (Pillutla, Kakade and Harchaoui 2022), which averages gradients: the point
    with the least sum of distances moves little as long as fewer than half are wrong. Here the decision agent reads
    the weighted answers themselves.
    """
    answers = transcript.last_answers
    suspicion = np.zeros(len(answers))
    answered = [answer is not None for answer in answers]
    if any(answered):
        suspicion[answered] = distances(one_hot(answers)[answered]) / 2**0.5
    return suspicion


def distances(points: Floats) -> Floats:
    """Distance of each point [n, d] from their geometric median, float [n], by Weiszfeld's algorithm (1937)."""
    median = points.mean(axis=0)
    for _ in range(STEPS):
        weights = 1 / np.maximum(np.linalg.norm(points - median, axis=1), LEAST)
        median = weights @ points / weights.sum()
    from_median: Floats = np.linalg.norm(points - median, axis=1)
    return from_median


METHODS = (guarded("geometric_median", "weighs agents by their distance from the median answer", geometric_median),)
