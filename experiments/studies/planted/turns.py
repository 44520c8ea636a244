"""Turns that recur among the discussions of one question: the completion of one is the completion of all of them."""

from __future__ import annotations

import numpy as np

from topologies.wiring import Wirings


def different_turns(wirings: Wirings) -> tuple[int, int]:
    """The different turns among discussions of one question, those of the decision agent included, and the messages
    read in them.

    Two turns are the same where the same agent, in the same round, has the same before it: messages that are
    themselves the same, and the same turns of its own.
    """
    k, rounds, agents = wirings.order.shape
    speaks = np.ones((k, rounds, agents), dtype=bool) if wirings.speaks is None else wirings.speaks
    known: dict[tuple[object, ...], int] = {}
    read = 0

    def number(*turn: object, messages: int) -> int:
        nonlocal read
        if turn not in known:
            known[turn] = len(known)
            read += messages
        return known[turn]

    for sample in range(k):
        before: dict[int, int] = {}
        # The last turn of each agent tells all before it, as it remembers them.
        own: dict[int, int] = {}
        for t in range(rounds):
            heard, earlier = (edges[sample, t].T for edges in (wirings.spatial, wirings.temporal))
            said: dict[int, int] = {}
            for agent in wirings.order[sample, t].tolist():
                if speaks[sample, t, agent]:
                    now = tuple(said[j] for j in np.flatnonzero(heard[agent]).tolist())
                    then = tuple(before[j] for j in np.flatnonzero(earlier[agent]).tolist())
                    messages = len(now) + len(then)
                    said[agent] = number(agent, t, now, then, own.get(agent), messages=messages)
            before = said
            own |= said
        last = tuple(before[j] for j in np.flatnonzero(wirings.decision[sample]).tolist())
        number("decision", last, messages=len(last))
    return len(known), read
