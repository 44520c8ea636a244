"""Makes the wiring of a recorded discussion from its trace."""

from collections.abc import Mapping, Sequence

import numpy as np

from actors.messages import Trace
from topologies.wiring import Floats, Ints, Wiring


def wiring_of(trace: Trace, rounds: int, weights: Mapping[str, Mapping[str, float]]) -> Wiring:
    """Makes the wiring of a trace.

    weights: by turn, those of the messages that it heard, by their ids; empty where they weigh alike.
    """
    spatial = _edges(trace.spatial)
    temporal = _edges(trace.temporal)
    speaks = np.zeros((rounds, len(trace.agents)), dtype=bool)
    places = {agent: place for place, agent in enumerate(trace.agents)}
    for message in trace.turns:
        if message.agent in places and message.round <= rounds:
            speaks[message.round - 1, places[message.agent]] = True
    return Wiring(
        rounds,
        spatial,
        temporal,
        decision=np.isin(trace.agents, trace.decision),
        spatial_p=_log_weights(spatial, 0, trace.agents, weights),
        temporal_p=_log_weights(temporal, 1, trace.agents, weights),
        allowed_spatial=_edges(trace.allowed_spatial),
        allowed_temporal=_edges(trace.allowed_temporal),
        speaks=speaks,
    )


def _edges(edges: Sequence[tuple[int, int, int]]) -> Ints:
    # Traces count rounds from 1.
    rows: Ints = np.array(edges, dtype=np.int64).reshape(-1, 3)
    rows[:, 0] -= 1
    return rows


def _log_weights(
    edges: Ints, rounds_back: int, agents: Sequence[str], weights: Mapping[str, Mapping[str, float]]
) -> Floats:
    """Returns logarithms of reading weights, whose softmax over a turn's senders gives the weights (Eqs. 6, 10).

    A sender whose turn failed was not heard: it shares the rest of the weights with others like it.
    """
    logarithms = np.zeros(len(edges))
    turns = edges[:, 0] * len(agents) + edges[:, 2]
    for turn in np.unique(turns):
        of_turn = np.flatnonzero(turns == turn)
        first_edge = edges[of_turn[0]]
        number = first_edge[0] + 1
        by_message = weights.get(f"{number}/{agents[first_edge[2]]}", {})
        senders = [agents[sender] for sender in edges[of_turn, 1]]
        shares = np.array([by_message.get(f"{number - rounds_back}/{sender}", 0.0) for sender in senders])
        missing = shares == 0
        if not missing.all():
            shares[missing] = max(1 - shares.sum(), 1e-9) / max(missing.sum(), 1)
            logarithms[of_turn] = np.log(shares)
    return logarithms
