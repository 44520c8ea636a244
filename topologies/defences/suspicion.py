"""Defences by suspicion: the complete graph without agents that stood out in unlabelled discussions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from actors.messages import Message, Question, Status, Trace
from topologies.answers import ballot
from topologies.baselines import constant_wiring
from topologies.graphs import complete
from topologies.method import Method, MethodContext
from topologies.topology import Wired
from topologies.wiring import Bools, Edges, Floats, Wiring

Questions = Mapping[str, Question]
Suspicion = Callable[[Sequence[Trace], Questions], Floats]
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
Answers = Mapping[tuple[int, str], str | None]  # by round and agent


def most_suspicious(suspicion: Floats, dropped: int) -> Bools:
    """Picks the `dropped` agents with the largest suspicion [agents], bool [agents]; of equal ones the first.

    Raises ValueError unless at least one agent is left.
    """
    if not 0 <= dropped < len(suspicion):
        raise ValueError(f"of {len(suspicion)} agents, 0 to {len(suspicion) - 1} can be silenced, not {dropped}")
    chosen = np.zeros(len(suspicion), dtype=bool)
    # Negated for the largest first; stable, so that the first of equal ones is dropped.
    chosen[np.argsort(-suspicion, kind="stable")[:dropped]] = True
    return chosen


def silencing(silent: Bools, rounds: int) -> Wiring:
    """Returns the complete graph in which no agent, nor the decision agent, hears the silent agents [agents]."""
    edges = complete(len(silent))
    # Silent agents may still hear, but no answer depends on their turns, so these are left out.
    heard = Edges(*(pairs[~silent[pairs[:, 0]]] for pairs in edges))
    return constant_wiring(heard, len(silent), rounds, decision=~silent)


def silenced(context: MethodContext, suspicion: Suspicion) -> Wired:
    """Discussions without the agents that were most suspicious in watched, unlabelled ones.

    The silenced take no turn at all. Raises ValueError unless at least one agent is left.
    """
    silent = most_suspicious(suspicion(context.watched, context.asked), context.defence.dropped)
    return Wired(context.method, context.agents, silencing(silent, context.rounds))


def disagreement(traces: Sequence[Trace], asked: Questions) -> Floats:
    """One minus the mean share of other agents with the same last answer as the agent, float [agents].

    Krum's idea (Blanchard et al. 2017) with answers in place of gradients: the farthest from the rest goes. An agent
    without an answer agrees with no other. It sees answers only. Empty where no discussion was watched.
    """
    shares = []
    for trace in traces:
        # Traces list turns round by round, so a later turn replaces an earlier one.
        last: dict[str, Message] = {turn.agent: turn for turn in trace.turns}
        answers = [answer_of(asked[trace.question], last.get(agent)) for agent in trace.agents]
        # A team of one has no other to agree with: 0 / 1, not 0 / 0.
        others = max(1, len(answers) - 1)
        shares.append([0.0 if own is None else (answers.count(own) - 1) / others for own in answers])
    return 1.0 - np.mean(shares, axis=0) if shares else np.zeros(0)


def answer_of(question: Question, message: Message | None) -> str | None:
    """Returns a message's answer in its form for comparisons; None for no message, a failed one, or no answer."""
    return ballot(question, message.answer) if message is not None and message.status is Status.OK else None


def anomaly(traces: Sequence[Trace], asked: Questions) -> Floats:
    """Returns the root mean square of each agent's robust z-scores over `FEATURES`, float [agents].

    An anomaly detector on message graphs that learns nothing; G-Safeguard (Wang et al. 2025) learns from labelled
    attacks, BlindGuard (Miao et al. 2025) without labels. It sees messages and their receivers. It takes a minority for
    the anomaly, right or wrong.
    """
    scores = robust_z(features(traces, asked))
    rms: Floats = np.sqrt(np.mean(np.clip(scores, -Z_MOST, Z_MOST) ** 2, axis=1))
    return rms


def robust_z(values: Floats) -> Floats:
    """Distance from the column's median in robust standard deviations, float [agents, features].

    The deviation is 1.4826 MAD, or, where more than half of a column are equal, 1.2533 times the mean absolute
    deviation (Iglewicz and Hoaglin 1993). NaN (no occasion) and columns without any deviation count 0.
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


def features(traces: Sequence[Trace], asked: Questions) -> Floats:
    """Mean of each of `FEATURES` over all occasions, float [agents, features]; NaN where there was none.

    Raises ValueError when the traces are not of the same agents.
    """
    agents = traces[0].agents if traces else ()
    samples: list[Samples] = [[[] for _ in FEATURES] for _ in agents]
    for trace in traces:
        if trace.agents != agents:
            raise ValueError(f"discussions of different agents: {list(agents)} and {list(trace.agents)}")
        # By round and agent, to look up the answer at either end of an edge.
        turns = {(turn.round, turn.agent): turn for turn in trace.turns}
        answers = {place: answer_of(asked[trace.question], turn) for place, turn in turns.items()}
        _of_turns(trace, answers, samples)
        _of_edges(trace, answers, samples)
    return np.array(
        [[np.mean(occasions) if occasions else np.nan for occasions in agent] for agent in samples]
        # Without agents the array would have one dimension only.
    ).reshape(-1, len(FEATURES))


def _of_turns(trace: Trace, answers: Answers, samples: list[Samples]) -> None:
    for i, agent in enumerate(trace.agents):
        # In the order of FEATURES: the last four describe an agent's own turns.
        *_, repeats, confidence, words, silent = samples[i]
        for turn in trace.turns:
            if turn.agent != agent:
                continue
            answer, before = answers[turn.round, agent], answers.get((turn.round - 1, agent))
            silent.append(float(answer is None))
            if turn.status is Status.OK:
                words.append(float(len(turn.content.split())))
            if turn.confidence is not None:
                confidence.append(turn.confidence)
            if before is not None:
                repeats.append(float(answer == before))


def _of_edges(trace: Trace, answers: Answers, samples: list[Samples]) -> None:
    # (round in which it was sent, round in which it was heard, sender, receiver)
    heard = [(t, t, j, i) for t, j, i in trace.spatial] + [(t - 1, t, j, i) for t, j, i in trace.temporal]
    for sent_in, heard_in, j, i in heard:
        sender, receiver = trace.agents[j], trace.agents[i]
        sent, reply = answers.get((sent_in, sender)), answers.get((heard_in, receiver))
        # Memory of oneself, or no answer at one end: neither shows influence.
        if i == j or sent is None or reply is None:
            continue
        # The first four FEATURES, in their order: one of the receiver, then three of the sender.
        samples[i][0].append(float(reply == sent))
        samples[j][1].append(float(reply == sent))
        # Only a receiver that had an answer before it heard this one can follow it or leave it.
        before = answers.get((heard_in - 1, receiver))
        if before is not None and before != sent:
            samples[j][2].append(float(reply == sent))
        elif before is not None:
            samples[j][3].append(float(reply != sent))


METHODS = (
    Method(
        "agreement",
        "complete graph without those that agreed least in unlabelled discussions",
        lambda context: silenced(context, disagreement),
        needs_calibration=True,
    ),
    Method(
        "anomaly",
        "complete graph without those that behaved least like the others in unlabelled discussions",
        lambda context: silenced(context, anomaly),
        needs_calibration=True,
    ),
)
