"""Shapley values against known ones, coverage of sets of suspects, and suspicion."""

from itertools import permutations, product

import numpy as np
import pytest

from actors.messages import Message, Question, Status, Trace
from experiments.attribution.shapley import coalitions, draw_orders, shapley
from experiments.attribution.suspects import set_size, suspicion


def chance(kept: frozenset[int]) -> float:
    """Two of three steps have to fail; each that is done again fails with probability .3."""
    return 0.3 ** (2 - len(kept & {0, 1}))


def test_the_analytic_case_of_causal_agent_replay() -> None:
    orders = list(permutations(range(3)))
    value = {kept: chance(kept) for kept in coalitions(orders)}
    phi, low, high = shapley(value, orders).T
    # (1 - .3^2) / 2 for each of the two; arXiv 2606.08275 estimates .44, .45 and 0 by sampling.
    assert phi == pytest.approx([0.455, 0.455, 0.0])
    assert (low <= phi).all()
    assert (phi <= high).all()
    assert shapley(value, draw_orders(3, 2_000, seed=1))[:, 0] == pytest.approx(phi, abs=0.01)


def test_values_add_up_and_intervals_hold_the_truth() -> None:
    rng = np.random.default_rng(3)
    inside, cases = 0, 200
    for case in range(cases):
        value = {frozenset(np.flatnonzero(bits).tolist()): float(rng.random()) for bits in product([0, 1], repeat=4)}
        exact = shapley(value, list(permutations(range(4))))[:, 0]
        assert exact.sum() == pytest.approx(value[frozenset(range(4))] - value[frozenset()])
        _phi, low, high = shapley(value, draw_orders(4, 40, seed=case)).T
        inside += int(((low <= exact) & (exact <= high)).sum())
    assert 0.92 < inside / (4 * cases) < 0.98


def test_orders_come_in_reversed_pairs_and_from_the_seed() -> None:
    orders = draw_orders(5, 6, seed=2)
    assert len(orders) == 6
    assert all(one == other[::-1] for one, other in zip(orders[::2], orders[1::2], strict=True))
    assert orders == draw_orders(5, 6, seed=2) != draw_orders(5, 6, seed=3)


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
