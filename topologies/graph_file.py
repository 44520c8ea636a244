"""Graphs from files as methods: `methods=[graph:my.graphml]` evaluates a learned graph, or the user's.

Nodes are the agents of the team. An edge has a `kind` (`spatial` or `temporal`), and may have a `probability`, from
which its reading weight follows, and the `round` that it leads into, where rounds differ. A node may have `read`, false
for an agent that the decision agent does not read, and the `rounds` that its agent takes part in, such as "1,2".
"""

import re
from collections.abc import Sequence
from pathlib import Path

import networkx as nx
import numpy as np

from actors.errors import UserError
from topologies.graphs import speaking_order
from topologies.method import Method
from topologies.topology import Wired
from topologies.wiring import Edges, Wiring

PREFIX = "graph:"


def is_graph_file(name: object) -> bool:
    """True for a method that is the graph in a file."""
    return isinstance(name, str) and name.startswith(PREFIX)


def absolute(name: str) -> str:
    """The name of a method, with a file's whole path."""
    return f"{PREFIX}{Path(name.removeprefix(PREFIX)).expanduser().absolute()}" if is_graph_file(name) else name


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
    called = path.absolute().parent.name if path.stem == "topology" else path.stem

    def wiring(agents: Sequence[str], rounds: int) -> Wiring:
        try:
            return wiring_of(graph, agents, rounds)
        except (ValueError, TypeError, LookupError) as error:
            raise UserError(f"methods: {name}: {error}; expected edges as in a run's topology.graphml") from error

    return Method(
        "graph_" + re.sub(r"[^\w.-]", "_", called),
        f"the graph of {path}",
        lambda context: Wired(context.method, context.agents, wiring(context.agents, context.rounds)),
        check=wiring,
    )


def wiring_of(graph: nx.MultiDiGraph, agents: Sequence[str], rounds: int) -> Wiring:
    """The wiring of a graph. Raises ValueError unless it is one of these agents, in so many rounds, without a cycle."""
    if set(graph) != set(agents):
        raise ValueError(f"its agents are {', '.join(map(str, graph))}, those of the team {', '.join(agents)}")
    nodes, n = graph.nodes, len(agents)
    # bool [kind, round, sender, receiver], and the probabilities of these edges.
    present, p = np.zeros((2, rounds, n, n), dtype=bool), np.full((2, rounds, n, n), np.nan)
    for sender, receiver, edge in graph.edges(data=True):
        temporal = Edges._fields.index(edge["kind"])
        for t in [int(edge["round"]) - 1] if "round" in edge else range(temporal, rounds):
            if not temporal <= t < rounds:
                raise ValueError(f"a {edge['kind']} edge of round {t + 1}, and topology.rounds={rounds}")
            place = temporal, t, agents.index(sender), agents.index(receiver)
            present[place], p[place] = True, edge.get("probability", np.nan)
    for each in present[0]:
        speaking_order(each)  # raises where there is a cycle
    chances = p[present]
    if (known := ~np.isnan(chances)).any() and not (known.all() and (chances >= 0).all() and (chances <= 1).all()):
        raise ValueError("expected a probability of 0 to 1 at each edge, or at none")
    everywhere = ",".join(str(t + 1) for t in range(rounds))
    taking_part = [str(nodes[agent].get("rounds", everywhere)).split(",") for agent in agents]
    speaks = np.array([[str(t + 1) in own for own in taking_part] for t in range(rounds)])
    decision = np.array([bool(nodes[agent].get("read", True)) for agent in agents])
    senders = np.stack([speaks, np.roll(speaks, 1, axis=0)])
    if not decision.any() or (present & ~(senders[..., None] & speaks[None, :, None])).any():
        raise ValueError("expected an agent that is read, and edges between agents that take part in their rounds")
    weights = Edges(*(np.nan_to_num(kind) for kind in p)) if known.any() else None
    return Wiring.of_matrices(present[0], present[1], decision, weights, None, None if speaks.all() else speaks)
