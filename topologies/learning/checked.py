"""Checks of what a learner gets: scores of discussions, and a saved state."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from topologies.wiring import Bools, Floats, Ints, Wirings, check_shape, check_shapes


class Scores(NamedTuple):
    """Scores of discussions, without gaps: a failed one has the mean scores of the others of its question, or 0.

    turns: [k, rounds, agents]; utilities: [k]; questions: int [k], from 0; failed: bool [k].
    """

    turns: Floats
    utilities: Floats
    questions: Ints
    failed: Bools


def checked_scores(
    wirings: Wirings,
    turn_scores: npt.ArrayLike,
    utilities: npt.ArrayLike,
    groups: npt.ArrayLike | None,
    rounds: int,
    agents: int,
) -> Scores:
    """Checks the arguments of `Learner.learn`. A utility of NaN is of a failed discussion.

    Raises ValueError for another shape, and for NaN or infinity among the scores of a discussion that did not fail.
    """
    check_shapes(wirings, rounds, agents)
    k = len(wirings.spatial)
    turns = np.array(turn_scores, dtype=np.float64)
    utility = np.array(utilities, dtype=np.float64)
    question = np.zeros(k) if groups is None else np.asarray(groups)
    check_shape("turn_scores", turns, (k, rounds, agents))
    check_shape("utilities", utility, (k,))
    check_shape("groups", question, (k,))

    failed = np.isnan(utility)
    number = np.unique(question, return_inverse=True)[1]
    for name, values in (("turn_scores", turns), ("utilities", utility)):
        if not np.isfinite(values[~failed]).all():
            raise ValueError(f"{name} holds NaN or infinity: score every sample, a failed one with the utility NaN")
        for failed_question in np.unique(number[failed]):
            of_question = number == failed_question
            scored_values = values[of_question & ~failed]
            values[of_question & failed] = scored_values.mean(0) if len(scored_values) else 0.0
    return Scores(turns, utility, number, failed)


def checked_clock(state: Mapping[str, np.ndarray], expected: Mapping[str, np.ndarray], stages: int) -> tuple[int, int]:
    """Returns the stage and step of a learner's state. Raises ValueError for one of other names, shapes or types than
    expected, or of a stage beyond `stages`."""
    for name, array in expected.items():
        if name not in state:
            raise ValueError(f"learner state lacks {name}: it is not a state of this kind of learner")
        saved = state[name]
        if saved.shape != array.shape or saved.dtype != array.dtype:
            raise ValueError(
                f"learner state has {name} as {saved.dtype} {saved.shape}, this learner needs "
                f"{array.dtype} {array.shape}: use the agents, rounds and settings it was saved with"
            )
    stage = int(state["stage"])
    step = int(state["step"])
    if not 1 <= stage <= stages or step < 0:
        raise ValueError(f"learner state is at stage {stage}, step {step}: this learner has {stages} stage(s)")
    return stage, step
