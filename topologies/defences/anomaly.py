"""Suspicion by behaviour: agents that behave least like the rest on the message graph of unlabelled discussions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from actors.messages import Message, Status, Trace
from topologies.defences.agreement import answer_of
from topologies.defences.silenced import silenced
from topologies.method import Method
from topologies.wiring import Floats

FEATURES = (
    "agrees with those it hears",
    "is agreed with by those who hear it",
    "is followed by those who had another answer",
    "is left by those who had the same answer",
    "repeats its own last answer",
    "confidence",
    "words",
    "gives no answer",
)
Z_MOST = 5.0  # a feature that hardly varies would otherwise decide alone

Samples = list[list[float]]


def anomaly(traces: Sequence[Trace]) -> Floats:
    """The root mean square of each agent's robust z-scores over `FEATURES`, float [agents].

    A plain member of the family of anomaly detectors on message graphs: G-Safeguard (Wang et al. 2025) learns a graph
    network from labelled attacks, BlindGuard (Miao et al. 2025) learns without labels; this one learns nothing. It
    sees messages and who heard them. It takes a minority for the anomaly, whoever is right.
    """
    scores = robust_z(features(traces))
    rms: Floats = np.sqrt(np.mean(np.clip(scores, -Z_MOST, Z_MOST) ** 2, axis=1))
    return rms


def robust_z(values: Floats) -> Floats:
    """Distance from the column's median in robust standard deviations, float [agents, features].

    The deviation is 1.4826 MAD, or, where more than half of a column are equal, 1.2533 times the mean absolute
    deviation (Iglewicz and Hoaglin 1993). NaN (nothing to go by) and columns without any deviation count 0.
    """
    scores = np.zeros_like(values)
    for column, feature in enumerate(values.T):
        known = ~np.isnan(feature)
        if not known.any():
            continue
        away = feature[known] - np.median(feature[known])
        # The two factors make either deviation estimate the standard deviation of normal data.
        scale = 1.4826 * np.median(np.abs(away)) or 1.2533 * np.mean(np.abs(away))
        if scale > 0:
            scores[known, column] = away / scale
    return scores


def features(traces: Sequence[Trace]) -> Floats:
    """The mean of each of `FEATURES` over all occasions, float [agents, features]; NaN where there was none.

    Raises ValueError when the traces are not of the same agents.
    """
    agents = traces[0].agents if traces else ()
    samples: list[Samples] = [[[] for _ in FEATURES] for _ in agents]
    for trace in traces:
        if trace.agents != agents:
            raise ValueError(f"discussions of different agents: {list(agents)} and {list(trace.agents)}")
        # By round and agent, to look up the message at either end of an edge.
        turns = {(turn.round, turn.agent): turn for turn in trace.turns}
        _of_turns(trace, turns, samples)
        _of_edges(trace, turns, samples)
    return np.array(
        [[np.mean(occasions) if occasions else np.nan for occasions in agent] for agent in samples]
        # Without agents the array would have one dimension only.
    ).reshape(-1, len(FEATURES))


def _of_turns(trace: Trace, turns: dict[tuple[int, str], Message], samples: list[Samples]) -> None:
    for i, agent in enumerate(trace.agents):
        # In the order of FEATURES: the last four describe an agent's own turns.
        *_, repeats, confidence, words, silent = samples[i]
        for turn in trace.turns:
            if turn.agent != agent:
                continue
            answer, before = answer_of(turn), answer_of(turns.get((turn.round - 1, agent)))
            silent.append(float(answer is None))
            if turn.status is Status.OK:
                words.append(float(len(turn.content.split())))
            if turn.confidence is not None:
                confidence.append(turn.confidence)
            if before is not None:
                repeats.append(float(answer == before))


def _of_edges(trace: Trace, turns: dict[tuple[int, str], Message], samples: list[Samples]) -> None:
    # (round in which it was sent, round in which it was heard, sender, receiver)
    heard = [(t, t, j, i) for t, j, i in trace.spatial] + [(t - 1, t, j, i) for t, j, i in trace.temporal]
    for sent_in, heard_in, j, i in heard:
        sender, receiver = trace.agents[j], trace.agents[i]
        sent, reply = answer_of(turns.get((sent_in, sender))), answer_of(turns.get((heard_in, receiver)))
        # Memory of oneself, or no answer at one end: neither shows who influences whom.
        if i == j or sent is None or reply is None:
            continue
        # The first four FEATURES, in their order: one of the receiver, then three of the sender.
        samples[i][0].append(float(reply == sent))
        samples[j][1].append(float(reply == sent))
        # Only a receiver that had an answer before it heard this one can follow it or leave it.
        before = answer_of(turns.get((heard_in - 1, receiver)))
        if before is not None and before != sent:
            samples[j][2].append(float(reply == sent))
        elif before is not None:
            samples[j][3].append(float(reply != sent))


METHOD = Method(
    "anomaly",
    "complete graph without those that behaved least like the others in unlabelled discussions",
    lambda context: silenced(context, anomaly),
    needs_calibration=True,
)
