"""Fixed graphs, and wirings made of them."""

from collections.abc import Callable

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topologies import graphs
from topologies.wiring import Bools, Edges, Ints


def digraph(matrix: Bools) -> nx.DiGraph:
    return nx.from_numpy_array(matrix, create_using=nx.DiGraph)


def matrices(edges: Edges[Ints], agents: int) -> Edges[Bools]:
    made = Edges(*(np.zeros((agents, agents), dtype=bool) for _ in edges))
    for matrix, pairs in zip(made, edges, strict=True):
        matrix[pairs[:, 0], pairs[:, 1]] = True
    return made


def edges_of(pairs: Ints) -> list[tuple[int, int]]:
    return [(j, i) for j, i in pairs.tolist()]


@pytest.mark.parametrize("make", [graphs.complete, graphs.chain, graphs.star, graphs.tree, graphs.layered, graphs.ring])
@pytest.mark.parametrize("agents", [1, 2, 3, 9])
def test_every_fixed_graph_is_a_connected_dag(make: Callable[[int], Edges[Ints]], agents: int) -> None:
    edges = matrices(make(agents), agents)
    assert nx.is_directed_acyclic_graph(digraph(edges.spatial))
    assert nx.is_weakly_connected(digraph(edges.spatial))
    assert np.diag(edges.temporal).all()


def test_the_named_graphs_have_their_edges() -> None:
    assert edges_of(graphs.chain(4).spatial) == [(0, 1), (1, 2), (2, 3)]
    assert edges_of(graphs.star(4).spatial) == [(1, 0), (2, 0), (3, 0)]
    assert edges_of(graphs.tree(5).spatial) == [(1, 0), (2, 0), (3, 1), (4, 1)]
    assert edges_of(graphs.layered(4).spatial) == [(0, 2), (0, 3), (1, 2), (1, 3)]
    assert edges_of(graphs.layered(3).spatial) == [(0, 2), (1, 2)]
    assert len(graphs.complete(5).spatial) == 10
    assert matrices(graphs.complete(5), 5).temporal.all()
    assert edges_of(graphs.ring(4).spatial) == edges_of(graphs.chain(4).spatial)
    assert set(edges_of(graphs.ring(4).temporal)) == {*edges_of(graphs.chain(4).temporal), (0, 3), (3, 0)}
    assert edges_of(graphs.chain(3).temporal) == [(0, 0), (0, 1), (1, 0), (1, 1), (1, 2), (2, 1), (2, 2)]


def test_in_a_debate_nobody_is_heard_before_the_round_is_over() -> None:
    assert not len(graphs.debate(4).spatial)
    assert matrices(graphs.debate(4), 4).temporal.all()


@pytest.mark.parametrize("make", [graphs.regular, graphs.small_world])
def test_graphs_of_few_neighbours_are_dags_of_as_many_edges_at_any_size(make: Callable[..., Edges[Ints]]) -> None:
    for agents in (2, 6, 10_000):
        edges = make(agents, seed=1)
        assert len(edges.spatial) == min(2 * agents, agents * (agents - 1) // 2)
        assert (edges.spatial[:, 0] < edges.spatial[:, 1]).all()
        assert len(edges.temporal) == 2 * len(edges.spatial) + agents
    assert np.array_equal(edges.spatial, make(agents, seed=1).spatial)
    assert not np.array_equal(edges.spatial, make(agents, seed=2).spatial)


def test_agents_of_a_regular_graph_have_equally_many_neighbours() -> None:
    degrees = np.bincount(graphs.regular(50, seed=3).spatial.ravel())
    assert degrees.tolist() == [4] * 50


@settings(max_examples=50)
@given(st.data())
def test_a_random_graph_is_a_dag_with_exactly_so_many_edges(data: st.DataObject) -> None:
    agents = data.draw(st.integers(0, 9))
    spatial = data.draw(st.integers(0, agents * (agents - 1) // 2))
    temporal = data.draw(st.integers(0, agents**2))
    edges = matrices(graphs.random(agents, spatial, temporal, seed=data.draw(st.integers(0, 99))), agents)
    assert (edges.spatial.sum(), edges.temporal.sum()) == (spatial, temporal)
    assert nx.is_directed_acyclic_graph(digraph(edges.spatial))


def test_a_random_graph_favours_no_edge_and_depends_on_its_seed_alone() -> None:
    drawn = np.mean([matrices(graphs.random(4, 3, 5, seed), 4).spatial for seed in range(2000)], axis=0)
    off_diagonal = ~np.eye(4, dtype=bool)
    assert abs(drawn[off_diagonal] - 0.25).max() < 5 * (0.25 * 0.75 / 2000) ** 0.5
    assert np.array_equal(graphs.random(9, 8, 9, seed=3).spatial, graphs.random(9, 8, 9, seed=3).spatial)
    assert not np.array_equal(graphs.random(9, 8, 9, seed=3).spatial, graphs.random(9, 8, 9, seed=4).spatial)


@settings(max_examples=50)
@given(agents=st.integers(1, 8), seed=st.integers(0, 2**31), density=st.floats(0, 1))
def test_threshold_edges_are_a_maximal_dag_that_prefers_high_scores(agents: int, seed: int, density: float) -> None:
    draw = np.random.default_rng(seed)
    present = draw.random((agents, agents)) < density
    scores = draw.random((agents, agents))
    kept = graphs.acyclic(present, scores)
    assert nx.is_directed_acyclic_graph(digraph(kept))
    for sender, receiver in np.argwhere(present & ~kept).tolist():
        higher = kept & (scores > scores[sender, receiver])
        assert nx.has_path(digraph(higher), receiver, sender)  # only a cycle of stronger edges leaves one out


def test_wirings_of_a_graph_repeat_it_with_temporal_edges_from_the_second_round() -> None:
    edges = matrices(graphs.tree(4), 4)
    wirings = graphs.as_wirings(edges, rounds=3, k=2, decision=np.array([True, False, False, True]))
    assert wirings.spatial.shape == (2, 3, 4, 4)
    assert (wirings.spatial == edges.spatial).all()
    assert not wirings.temporal[:, 0].any()
    assert (wirings.temporal[:, 1:] == edges.temporal).all()
    assert wirings.order.tolist() == [[[2, 3, 1, 0]] * 3] * 2
    assert wirings.decision.tolist() == [[True, False, False, True]] * 2


def test_a_cycle_within_a_round_is_refused() -> None:
    loop = np.array([[0, 1], [1, 0]], dtype=bool)
    with pytest.raises(ValueError, match="close a cycle"):
        graphs.as_wirings(Edges(loop, loop), rounds=2)
