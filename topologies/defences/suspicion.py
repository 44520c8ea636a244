"""Defences by suspicion: the complete graph without agents that stood out in unlabelled discussions."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product

import numpy as np

from actors.messages import Message, Question, Status, Trace
from topologies.baselines import constant_wiring
from topologies.defences.online import answer_of, most_suspicious, outliers, robust_z
from topologies.graphs import complete
from topologies.method import Method, MethodContext
from topologies.topology import Wired
from topologies.wiring import Bools, Edges, Floats

Questions = Mapping[str, Question]
Suspicion = Callable[[Sequence[Trace], Questions], Floats]
# Its answer agrees with one heard, is agreed with, is followed by those who had another, is left by those who had the
# same, repeats its last; its confidence, and number of words; it gives no answer.
FEATURES = ("agrees", "agreed", "followed", "left", "repeats", "confidence", "words", "silent")
Z_MOST = 5.0  # a feature that hardly varies would otherwise decide alone


def silenced(context: MethodContext, suspicion: Suspicion) -> Wired:
    """Discussions without the agents that were most suspicious in watched, unlabelled ones.

    They are the `outliers` where `defence.dropped` has no number, and take no turn. Raises ValueError if none is left.
    """
    scores = suspicion(context.watched, context.asked)
    if context.defence.dropped is None:
        silent = outliers(scores)
    else:
        silent = most_suspicious(scores, context.defence.dropped)
    return without(context, scores, silent)


def without(context: MethodContext, scores: Floats, silent: Bools) -> Wired:
    """Makes discussions of the complete graph without its `silent` agents, bool [agents].

    scores: the suspicion of each, float [agents], which the traces have. Raises ValueError if no agent is left.
    """
    agents = len(scores)
    # Silent agents may still hear, but no answer depends on their turns, so these are left out.
    edges = Edges(*(pairs[~silent[pairs[:, 0]]] for pairs in complete(agents)))
    wiring = constant_wiring(edges, agents, context.rounds, decision=~silent)
    rounds = context.rounds
    return Wired(
        context.method,
        context.agents,
        wiring,
        suspicion=(tuple(np.round(scores, 6).tolist()),) * rounds,
        weights=(tuple(np.where(silent, 0.0, 1.0).tolist()),) * rounds,
    )


def disagreement(traces: Sequence[Trace], questions: Questions) -> Floats:
    """One minus the mean share of others with the agent's last answer, float [agents].

    Krum's idea (Blanchard et al. 2017) with answers in place of gradients: the farthest from the rest goes. An agent
    without an answer agrees with no other. It sees answers only. Empty where no discussion was watched.
    """
    if not traces:
        return np.zeros(0)
    shares = []
    for trace in traces:
        # Traces list turns round by round, so a later turn replaces an earlier one.
        last_turns: dict[str, Message] = {turn.agent: turn for turn in trace.turns}
        answers = [answer_of(questions[trace.question], last_turns.get(agent)) for agent in trace.agents]
        agreeing = np.array([0 if answer is None else answers.count(answer) - 1 for answer in answers])
        # A team of one has no other to agree with: 0 / 1, not 0 / 0.
        shares.append(agreeing / max(1, len(answers) - 1))
    scores: Floats = 1.0 - np.mean(shares, axis=0)
    return scores


def anomaly(traces: Sequence[Trace], questions: Questions) -> Floats:
    """Returns the root mean square of each agent's robust z-scores over `FEATURES`, float [agents].

    An anomaly detector on message graphs that learns nothing; G-Safeguard (Wang et al. 2025) learns from labelled
    attacks, BlindGuard (Miao et al. 2025) without labels. It sees messages and their receivers. It takes a minority for
    the anomaly, right or wrong.
    """
    scores = np.clip(robust_z(features(traces, questions)), -Z_MOST, Z_MOST)
    rms: Floats = np.sqrt(np.mean(scores**2, axis=1))
    return rms


def features(traces: Sequence[Trace], questions: Questions) -> Floats:
    """Mean of each of `FEATURES` over all occasions, float [agents, features]; NaN where there was none.

    Raises ValueError when the traces are not of the same agents.
    """
    agents = traces[0].agents if traces else ()
    values: dict[tuple[str, str], list[float]] = {}
    for trace in traces:
        if trace.agents != agents:
            raise ValueError(f"discussions of different agents: {list(agents)} and {list(trace.agents)}")
        for agent, feature, value in observations(trace, questions[trace.question]):
            values.setdefault((agent, feature), []).append(value)

    means = [np.mean(values.get(occasion, np.nan)) for occasion in product(agents, FEATURES)]
    return np.array(means).reshape(-1, len(FEATURES))


def observations(trace: Trace, question: Question) -> Iterator[tuple[str, str, float]]:
    """Yields each occasion of a discussion: agent, feature and value."""
    # By round and agent, to look up the answer at either end of an edge.
    answers = {(turn.round, turn.agent): answer_of(question, turn) for turn in trace.turns}
    for turn in trace.turns:
        answer = answers[turn.round, turn.agent]
        yield turn.agent, "silent", answer is None
        if turn.confidence is not None:
            yield turn.agent, "confidence", turn.confidence
        if turn.status is Status.OK:
            yield turn.agent, "words", len(turn.content.split())
        answer_before = answers.get((turn.round - 1, turn.agent))
        if answer_before is not None:
            yield turn.agent, "repeats", answer == answer_before

    # (round in which it was sent, round in which it was heard, sender, receiver)
    edges = [(round, round, sender, receiver) for round, sender, receiver in trace.spatial]
    edges += [(round - 1, round, sender, receiver) for round, sender, receiver in trace.temporal]
    for sent_in, heard_in, j, i in edges:
        sender = trace.agents[j]
        receiver = trace.agents[i]
        sent = answers.get((sent_in, sender))
        reply = answers.get((heard_in, receiver))
        # Memory of oneself, or no answer at one end: neither shows influence.
        if i == j or sent is None or reply is None:
            continue

        agrees = reply == sent
        yield receiver, "agrees", agrees
        yield sender, "agreed", agrees
        # Only a receiver that had an answer before it heard this one can follow it or leave it.
        answer_before = answers.get((heard_in - 1, receiver))
        if answer_before == sent:
            yield sender, "left", not agrees
        elif answer_before is not None:
            yield sender, "followed", agrees


METHODS = (
    Method(
        "agreement",
        "complete graph without the agents that agreed least in unlabelled discussions",
        lambda context: silenced(context, disagreement),
        needs_calibration=True,
        reads=("defence.dropped",),
    ),
    Method(
        "anomaly",
        "complete graph without the agents that behaved least like the others in unlabelled discussions",
        lambda context: silenced(context, anomaly),
        needs_calibration=True,
        reads=("defence.dropped",),
    ),
)
