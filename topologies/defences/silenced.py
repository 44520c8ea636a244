"""The complete graph without its most suspicious agents."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from actors.messages import Trace
from topologies.edge_lists import Wiring
from topologies.fixed import constant_wiring
from topologies.graphs import complete
from topologies.method import MethodContext
from topologies.topology import Wired
from topologies.wiring import Bools, Edges, Floats

Suspicion = Callable[[Sequence[Trace]], Floats]


def most_suspicious(suspicion: Floats, dropped: int) -> Bools:
    """The `dropped` agents with the largest suspicion [agents], bool [agents]; of equal ones the first.

    Raises ValueError unless at least one agent is left.
    """
    if not 0 <= dropped < len(suspicion):
        raise ValueError(f"of {len(suspicion)} agents, 0 to {len(suspicion) - 1} can be silenced, not {dropped}")
    chosen = np.zeros(len(suspicion), dtype=bool)
    # Negated for the largest first; stable, so that of equal ones the first is dropped.
    chosen[np.argsort(-suspicion, kind="stable")[:dropped]] = True
    return chosen


def silencing(silent: Bools, rounds: int) -> Wiring:
    """The complete graph in which nobody, the decision agent included, hears the silent agents [agents]."""
    edges = complete(len(silent))
    # The silent may still hear, but nothing depends on their turns, so these are left out.
    heard = Edges(*(pairs[~silent[pairs[:, 0]]] for pairs in edges))
    return constant_wiring(heard, len(silent), rounds, decision=~silent)


def silenced(context: MethodContext, suspicion: Suspicion) -> Wired:
    """Discussions without the agents that were the most suspicious in the watched ones, which nobody labelled.

    The silenced take no turn at all. Raises ValueError unless at least one agent is left.
    """
    silent = most_suspicious(suspicion(context.watched), context.defence.dropped)
    return Wired(context.method, context.agents, silencing(silent, context.rounds))
