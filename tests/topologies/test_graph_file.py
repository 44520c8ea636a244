"""Graphs read back from files as methods: what a run writes is what it evaluates; all else is refused."""

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import networkx as nx
import numpy as np
import pytest

from actors.errors import UserError
from actors.messages import Question
from experiments.running.learned_graphs import export_topology
from topologies.baselines import complete_wiring, random_like
from topologies.graph_file import absolute, graph_method, graph_of, wiring_of
from topologies.wiring import Wiring

AGENTS = ("critic", "reader", "linker", "scene")


def learned(by_round: bool) -> Wiring:
    whole = complete_wiring(4, rounds=3)
    if not by_round:
        p = [0.1 + 0.2 * edges[:, 1] for edges in (whole.spatial, whole.temporal)]
        return Wiring(3, whole.spatial, whole.temporal, np.array([True, False, True, True]), *p)
    speaks = np.array([[1, 1, 1, 1], [1, 1, 0, 1], [0, 1, 0, 1]], dtype=bool)
    spatial = whole.spatial[speaks[whole.spatial[:, 0], whole.spatial[:, 1]]]
    spatial = spatial[speaks[spatial[:, 0], spatial[:, 2]]]
    like = Wiring(3, spatial, np.array([[1, 0, 1], [2, 3, 1]]), np.array([True, True, True, True]), speaks=speaks)
    return random_like(like, seed=1)(Question("q", "?"))


@pytest.mark.parametrize("by_round", [False, True])
def test_a_graph_that_a_run_writes_is_read_back(tmp_path: Path, by_round: bool) -> None:
    wiring, folder = learned(by_round), tmp_path / "m3prune"
    folder.mkdir()
    export_topology(folder, "topology", wiring, AGENTS)
    method = graph_method(f"graph:{folder / 'topology.graphml'}")
    assert method.name == "graph_m3prune"
    read = method.check(AGENTS, 3)
    assert isinstance(read, Wiring)
    for field in fields(wiring):
        expected, found = getattr(wiring, field.name), getattr(read, field.name)
        assert (expected is None) == (found is None), field.name
        if expected is not None:
            np.testing.assert_array_equal(found, expected)


def graph() -> nx.MultiDiGraph:
    spatial = np.array([[0, 0, 1], [0, 1, 2], [1, 0, 1], [1, 1, 2]])
    p = (np.array([0.25, 0.5, 0.25, 0.5]), np.array([1.0]))
    return graph_of(Wiring(2, spatial, np.array([[1, 2, 0]]), np.ones(4, dtype=bool), *p), AGENTS)


def test_a_graph_whose_rounds_differ_names_the_round_of_each_edge_and_those_of_each_agent(tmp_path: Path) -> None:
    speaks = np.array([[True, True, False], [True, True, True]])
    spatial = np.array([[0, 0, 1], [1, 0, 2], [1, 1, 0]])
    p = (np.array([0.25, 0.5, 0.75]), np.array([1.0]))
    wiring = Wiring(2, spatial, np.array([[1, 1, 2]]), np.ones(3, dtype=bool), *p, speaks=speaks)
    nx.write_graphml(graph_of(wiring, ["a", "b", "c"]), tmp_path / "graph.graphml")
    back = nx.read_graphml(tmp_path / "graph.graphml")
    attributes = ("kind", "round", "probability")
    assert {(*pair, *(data[name] for name in attributes)) for *pair, data in back.edges(data=True)} == {
        ("a", "b", "spatial", 1, 0.25),
        ("b", "a", "spatial", 2, 0.75),
        ("a", "c", "spatial", 2, 0.5),
        ("b", "c", "temporal", 2, 1.0),
    }
    assert dict(back.nodes(data="rounds")) == {"a": "1,2", "b": "1,2", "c": "2"}


def test_a_graph_of_one_s_own_needs_kinds_alone() -> None:
    wiring = wiring_of(nx.MultiDiGraph([("a", "b", {"kind": "spatial"})]), ["a", "b"], 2)
    assert wiring.spatial.tolist() == [[0, 0, 1], [1, 0, 1]]
    assert (wiring.spatial_p, wiring.speaks, wiring.decision.tolist()) == (None, None, [True, True])


@pytest.mark.parametrize(
    "spoil",
    [
        lambda graph: graph.add_node("stranger"),
        lambda graph: graph.remove_node("scene"),
        lambda graph: graph.add_edge("linker", "critic", kind="spatial", probability=0.5),
        lambda graph: graph.add_edge("critic", "scene", kind="spatial"),
        lambda graph: graph.add_edge("critic", "scene", kind="spatial", probability=1.5),
        lambda graph: graph.add_edge("critic", "scene", kind="spatial", probability="high"),
        lambda graph: graph.add_edge("critic", "scene", kind="sideways", probability=0.5),
        lambda graph: graph.add_edge("critic", "scene", probability=0.5),
        lambda graph: graph.add_edge("critic", "scene", kind="spatial", round=3, probability=0.5),
        lambda graph: graph.add_edge("critic", "scene", kind="temporal", round=1, probability=0.5),
        lambda graph: graph.nodes["critic"].update(rounds="2"),
        lambda graph: [graph.nodes[name].update(read=False) for name in AGENTS],
    ],
)
def test_another_graph_than_the_team_s_is_refused(tmp_path: Path, spoil: Callable[[nx.MultiDiGraph], object]) -> None:
    spoiled = graph()
    path = tmp_path / "own.graphml"
    nx.write_graphml(spoiled, path)
    assert graph_method(f"graph:{path}").check(AGENTS, 2)
    spoil(spoiled)
    nx.write_graphml(spoiled, path)
    with pytest.raises(UserError) as raised:
        graph_method(f"graph:{path}").check(AGENTS, 2)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("content", [None, "", "<graphml>", "<a/>", "{}"])
def test_a_file_that_is_no_graph_is_refused(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "own.graphml").write_text(content)
    with pytest.raises(UserError) as raised:
        graph_method(f"graph:{tmp_path / 'own.graphml'}")
    assert "\n" not in str(raised.value)


def test_a_saved_configuration_has_the_whole_path() -> None:
    assert absolute("graph:own.graphml") == f"graph:{Path.cwd() / 'own.graphml'}"
    assert absolute("full") == "full"
