"""Coverage of sets of suspects, and suspicion."""

import numpy as np
import pytest

from actors.messages import Message, Question, Status, Trace
from experiments.attribution.suspects import set_size, suspicion


def test_sets_of_suspects_cover_as_stated() -> None:
    rng = np.random.default_rng(0)
    # Ranks of culprits among nine agents, most of them the most suspected one.
    ranks = np.minimum(rng.geometric(0.5, (4_000, 50)), 9)
    sizes = [set_size(failures[1:].tolist(), 9, 0.9) for failures in ranks]
    assert 0.9 <= np.mean(ranks[:, 0] <= sizes) < 0.96
    assert np.mean(sizes) < 4.5
    assert set_size([1] * 8, 9, 0.9) == 9, "no smaller set holds the culprit in nine of ten, by eight failures"
    assert set_size([1] * 9, 9, 0.9) == 1


def test_who_spoke_first_for_an_answer_and_was_followed_is_suspected_most() -> None:
    def turn(agent: str, round: int, answer: str, *heard: str) -> Message:
        return Message(f"{round}/{agent}", agent, round, answer=answer, confidence=0.5, heard=heard)

    turns = (
        turn("a", 1, "blue"),
        turn("b", 1, "The red."),
        turn("c", 1, "blue", "1/a"),
        turn("a", 2, "red", "1/b", "1/c"),
        turn("b", 2, "red", "1/a"),
        turn("c", 2, "blue", "1/b"),
    )
    trace = Trace("q", "full", 0, ("a", "b", "c"), turns, "red", Status.OK, 0)
    found = suspicion(trace, Question("q", "The red one, or blue?"), seed=0)
    assert sorted(found, key=lambda agent: -found[agent]) == ["b", "a", "c"]
    # For the answer, and half or all of what was heard not shared.
    assert found == pytest.approx({"b": 2.55 + 1, "a": 1.05 + 0.5, "c": 0.5}, abs=1e-5)
    # In a question without these words, no source has an answer of theirs.
    without_source = suspicion(trace, Question("q", "Which?"), seed=0)
    assert all(without_source[agent] == pytest.approx(found[agent] + 1, abs=1e-5) for agent in "ac")
