"""Graphs in files, also as methods: `methods=[graph:my.graphml]` evaluates a learned graph, or the user's.

Nodes are the agents of the team. An edge has a `kind` (`spatial` or `temporal`), and may have a `probability`, from
which its reading weight follows, and the `round` that it leads into, where rounds differ. A node may have `read`, false
for an agent that the decision agent does not read, and the `rounds` that its agent takes part in, such as "1,2".
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import networkx as nx
import numpy as np

from actors.errors import UserError
from topologies.graphs import speaking_order
from topologies.method import Method
from topologies.topology import Wired
from topologies.wiring import Bools, Edges, Floats, Wiring

PREFIX = "graph:"


def is_graph_file(name: object) -> bool:
    """True for a method that is the graph in a file."""
    return isinstance(name, str) and name.startswith(PREFIX)


def absolute(name: str) -> str:
    """The name of a method, with a file's whole path."""
    if not is_graph_file(name):
        return name
    return f"{PREFIX}{Path(name.removeprefix(PREFIX)).expanduser().absolute()}"


def graph_method(name: str) -> Method:
    """The method of `graph:<file>`, called `graph_` and the file, or the folder of a run's `topology.graphml`.

    Raises UserError where the file cannot be read. The method's `check` does where the graph is of another team.
    """
    path = Path(name.removeprefix(PREFIX)).expanduser()
    try:
        graph = nx.MultiDiGraph(nx.read_graphml(path))
    except Exception as error:  # networkx raises what it happens to meet
        reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
        raise UserError(f"methods: {name}: no GraphML as in learned/<method>/ of a run folder ({reason})") from error

    def wiring(agents: Sequence[str], rounds: int) -> Wiring:
        try:
            return wiring_of(graph, agents, rounds)
        except (ValueError, TypeError, LookupError) as error:
            raise UserError(f"methods: {name}: {error}; expected edges as in a run's topology.graphml") from error

    stem = path.absolute().parent.name if path.stem == "topology" else path.stem
    return Method(
        "graph_" + re.sub(r"[^\w.-]", "_", stem),
        f"the graph of {path}",
        lambda context: Wired(context.method, context.agents, wiring(context.agents, context.rounds)),
        check=wiring,
    )


def wiring_of(graph: nx.MultiDiGraph, agents: Sequence[str], rounds: int) -> Wiring:
    """The wiring of a graph. Raises ValueError unless it is one of these agents, in so many rounds, without a cycle."""
    if set(graph) != set(agents):
        raise ValueError(f"its agents are {', '.join(map(str, graph))}, those of the team {', '.join(agents)}")

    shape = (rounds, len(agents), len(agents))
    edges = {kind: np.zeros(shape, dtype=bool) for kind in Edges._fields}
    p = {kind: np.full(shape, np.nan) for kind in Edges._fields}
    for sender, receiver, edge in graph.edges(data=True):
        kind = edge["kind"]
        first_round = 1 if kind == "temporal" else 0
        edge_rounds: Sequence[int] = range(first_round, rounds)
        if "round" in edge:
            edge_rounds = [int(edge["round"]) - 1]
        for round in edge_rounds:
            if not first_round <= round < rounds:
                raise ValueError(f"a {kind} edge of round {round + 1}, and topology.rounds={rounds}")
            place = (round, agents.index(sender), agents.index(receiver))
            edges[kind][place] = True
            p[kind][place] = edge.get("probability", np.nan)
    for matrix in edges["spatial"]:
        speaking_order(matrix)  # raises where there is a cycle

    speaks = np.ones((rounds, len(agents)), dtype=bool)
    decision = np.ones(len(agents), dtype=bool)
    for i, agent in enumerate(agents):
        node = graph.nodes[agent]
        decision[i] = bool(node.get("read", True))
        if "rounds" in node:
            node_rounds = str(node["rounds"]).split(",")
            speaks[:, i] = [str(round) in node_rounds for round in range(1, rounds + 1)]

    hears = speaks[:, None]
    within = speaks[:, :, None] & hears
    from_before = np.roll(speaks, 1, axis=0)[:, :, None] & hears
    if not decision.any() or (edges["spatial"] & ~within).any() or (edges["temporal"] & ~from_before).any():
        raise ValueError("expected an agent that is read, and edges between agents that take part in their rounds")
    return Wiring.of_matrices(
        edges["spatial"],
        edges["temporal"],
        decision,
        probabilities=_probabilities(edges, p),
        speaks=None if speaks.all() else speaks,
    )


def _probabilities(edges: Mapping[str, Bools], p: Mapping[str, Floats]) -> Edges[Floats] | None:
    """Probabilities of edges, None where no edge has one. Raises ValueError where only some have one from 0 to 1."""
    values = np.concatenate([p[kind][edges[kind]] for kind in Edges._fields])
    if np.isnan(values).all():
        return None
    # Also false for an edge without a probability.
    if not ((values >= 0) & (values <= 1)).all():
        raise ValueError("expected a probability of 0 to 1 at each edge, or at none")
    return Edges(np.nan_to_num(p["spatial"]), np.nan_to_num(p["temporal"]))


def graph_of(wiring: Wiring, agents: Sequence[str]) -> nx.MultiDiGraph:
    """The graph of a wiring, as `wiring_of` reads it; where rounds are alike, without them."""
    # A multigraph: one pair may have a spatial and a temporal edge.
    graph = nx.MultiDiGraph()
    for i, agent in enumerate(agents):
        graph.add_node(agent)
        if wiring.speaks is not None:
            graph.nodes[agent]["rounds"] = ",".join(str(round + 1) for round in np.flatnonzero(wiring.speaks[:, i]))
        graph.nodes[agent]["read"] = bool(wiring.decision[i])

    by_round = wiring.by_round
    last_round = wiring.rounds - 1
    for kind, edges, p in (
        ("spatial", wiring.spatial, wiring.spatial_p),
        ("temporal", wiring.temporal, wiring.temporal_p),
    ):
        for row, (round, sender, receiver) in enumerate(edges.tolist()):
            attributes: dict[str, str | float | int] = {"kind": kind}
            key = kind
            if by_round:
                attributes["round"] = round + 1
                key = f"{kind} {round + 1}"
            elif round < last_round:
                continue  # of one round; no temporal edge leads into the first
            if p is not None:
                attributes["probability"] = float(p[row])
            graph.add_edge(agents[sender], agents[receiver], key=key, **attributes)
    return graph
