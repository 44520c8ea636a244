"""Edges in lists: what they say is what matrices of the same edges say, and they need no room for what is not there."""

import asyncio
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.messages import Message, Question, Turn
from topologies import graphs
from topologies.baselines import constant_wiring
from topologies.topology import Wired
from topologies.wiring import Wiring, needed_turns, reading_weights


@settings(max_examples=60)
@given(agents=st.integers(1, 6), rounds=st.integers(1, 3), density=st.floats(0, 1), seed=st.integers(0, 2**31))
def test_reading_weights_are_a_softmax_over_the_senders_of_each_turn(
    agents: int, rounds: int, density: float, seed: int
) -> None:
    draw = np.random.default_rng(seed)
    present, p = draw.random((rounds, agents, agents)) < density, draw.random((agents, agents))
    edges = np.argwhere(present)
    powers = np.where(present, np.exp(p), 0.0)
    expected = powers / np.maximum(powers.sum(axis=1, keepdims=True), 1e-9)
    assert np.array_equal(reading_weights(edges, p[edges[:, 1], edges[:, 2]], agents), expected[present])
    assert np.allclose(
        reading_weights(edges, None, agents), (present / np.maximum(present.sum(1)[:, None], 1))[present]
    )


@pytest.mark.parametrize("kind", ["spatial", "temporal"])
def test_rounds_differ_where_one_has_other_edges_or_other_agents(kind: str) -> None:
    same = constant_wiring(graphs.chain(3), 3, rounds=3)
    assert not same.by_round
    assert not constant_wiring(graphs.chain(3), 3, rounds=1).by_round
    edges = getattr(same, kind)
    assert replace(same, **{kind: edges[1:]}).by_round
    turned = edges.copy()
    turned[-1, 1:] = [2, 0]
    assert replace(same, **{kind: turned}).by_round
    assert replace(same, speaks=np.ones((3, 3), dtype=bool)).by_round


def test_an_edge_reads_by_the_probability_of_its_round_where_rounds_have_their_own() -> None:
    present = np.zeros((2, 3, 3), dtype=bool)
    present[:, 0, 2] = present[1, 1, 2] = True
    p = np.arange(18).reshape(2, 3, 3) / 18
    wiring = Wiring.of_matrices(present, present, np.ones(3, dtype=bool), graphs.Edges(p, p[0]))
    assert wiring.spatial_p is not None
    assert wiring.spatial_p.tolist() == [p[0, 0, 2], p[1, 0, 2], p[1, 1, 2]]
    assert wiring.temporal_p is not None
    assert wiring.temporal_p.tolist() == [p[0, 0, 2], p[0, 0, 2], p[0, 1, 2]]


@pytest.mark.slow
def test_ten_thousand_agents_discuss_along_few_edges_without_a_matrix_of_all_pairs() -> None:
    agents = 10_000
    heard = {}

    async def ask(turn: Turn) -> Message:
        heard[f"{turn.round}/{turn.agent}"] = len(turn.heard)
        return Message(f"{turn.round}/{turn.agent}", turn.agent, turn.round, answer="yes")

    tracemalloc.start()
    wiring = constant_wiring(graphs.regular(agents, seed=0), agents, rounds=2)
    walk = Wired("regular", [f"a{number}" for number in range(agents)], wiring)
    trace = asyncio.run(walk.answer(Question("q", "?"), ask, seed=0))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(trace.turns) == 2 * agents + 1
    assert (len(trace.spatial), len(trace.temporal)) == (2 * 2 * agents, 5 * agents)
    assert sum(heard.values()) == 2 * 2 * agents + 5 * agents + agents
    # Two bool matrices [agents, agents] alone would take twice as much.
    assert peak < agents**2


def test_only_agents_with_a_path_to_the_reader_speak_however_long_the_path_is() -> None:
    agents = 3000
    readers = np.arange(agents) == agents - 2
    needed = needed_turns(constant_wiring(graphs.chain(agents), agents, rounds=1, decision=readers))
    assert needed[0].tolist() == [True] * (agents - 1) + [False]
