"""Checks of what a learner gets: scores of discussions, and a saved state."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from topologies.wiring import Bools, Floats, Ints


class Scores(NamedTuple):
    """Scores of discussions, without gaps: a failed one has the mean scores of the others of its question, or 0.

    turns: [k, rounds, agents]; utilities: [k]; groups: int [k], questions from 0; failed: bool [k].
    """

    turns: Floats
    utilities: Floats
    groups: Ints
    failed: Bools


def checked_scores(
    turn_scores: npt.ArrayLike, utilities: npt.ArrayLike, groups: npt.ArrayLike | None, shape: tuple[int, int, int]
) -> Scores:
    """Checks the arguments of `Learner.learn`; shape: [k, rounds, agents]. A utility of NaN is of a failed discussion.

    Raises ValueError for another shape, and for NaN or infinity among the scores of a discussion that did not fail.
    """
    turns, utility = np.array(turn_scores, dtype=np.float64), np.array(utilities, dtype=np.float64)
    question = np.zeros(shape[0]) if groups is None else np.asarray(groups)
    of_k = shape[:1]
    named = {"turn_scores": (turns, shape), "utilities": (utility, of_k), "groups": (question, of_k)}
    for name, (array, expected) in named.items():
        if array.shape != expected:
            raise ValueError(f"{name} has shape {array.shape}, expected {expected}")
    failed, number = np.isnan(utility), np.unique(question, return_inverse=True)[1]
    for name, values in (("turn_scores", turns), ("utilities", utility)):
        if not np.isfinite(values[~failed]).all():
            raise ValueError(f"{name} holds NaN or infinity: score every sample, a failed one with the utility NaN")
        for one in np.unique(number[failed]):
            lost, kept = (side & (number == one) for side in (failed, ~failed))
            values[lost] = values[kept].mean(0) if kept.any() else 0.0
    return Scores(turns, utility, number, failed)


def checked_clock(state: Mapping[str, np.ndarray], mine: Mapping[str, np.ndarray], stages: int) -> tuple[int, int]:
    """Returns the stage and step of a learner's state. Raises ValueError for one of other names, shapes or types than
    `mine`, or of a stage beyond `stages`."""
    for name, own in mine.items():
        if name not in state:
            raise ValueError(f"learner state lacks {name}: it is not a state of this kind of learner")
        theirs = state[name]
        if theirs.shape != own.shape or theirs.dtype != own.dtype:
            raise ValueError(
                f"learner state has {name} as {theirs.dtype} {theirs.shape}, this learner needs "
                f"{own.dtype} {own.shape}: use the agents, rounds and settings it was saved with"
            )
    stage, step = int(state["stage"]), int(state["step"])
    if not 1 <= stage <= stages or step < 0:
        raise ValueError(f"learner state is at stage {stage}, step {step}: this learner has {stages} stage(s)")
    return stage, step
