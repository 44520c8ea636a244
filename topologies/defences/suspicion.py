"""Defences by suspicion: the complete graph without agents that stood out in unlabelled discussions."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from actors.messages import Message, Question, Status, Trace
from topologies.baselines import constant_wiring
from topologies.defences.online import answer_of, most_suspicious, outliers, robust_z
from topologies.graphs import complete
from topologies.method import Method, MethodContext
from topologies.topology import Wired
from topologies.wiring import Edges, Floats

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
    scores, dropped = suspicion(context.watched, context.asked), context.defence.dropped
    silent = outliers(scores) if dropped is None else most_suspicious(scores, dropped)
    # Silent agents may still hear, but no answer depends on their turns, so these are left out.
    heard = Edges(*(pairs[~silent[pairs[:, 0]]] for pairs in complete(len(silent))))
    wiring = constant_wiring(heard, len(silent), context.rounds, decision=~silent)
    topology = Wired(context.method, context.agents, wiring)
    topology.judged = (tuple(np.round(scores, 6).tolist()),) * context.rounds, (tuple(1.0 - silent),) * context.rounds
    return topology


def disagreement(traces: Sequence[Trace], asked: Questions) -> Floats:
    """One minus the mean share of others with the agent's last answer, float [agents].

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


def anomaly(traces: Sequence[Trace], asked: Questions) -> Floats:
    """Returns the root mean square of each agent's robust z-scores over `FEATURES`, float [agents].

    An anomaly detector on message graphs that learns nothing; G-Safeguard (Wang et al. 2025) learns from labelled
    attacks, BlindGuard (Miao et al. 2025) without labels. It sees messages and their receivers. It takes a minority for
    the anomaly, right or wrong.
    """
    scores = robust_z(features(traces, asked))
    rms: Floats = np.sqrt(np.mean(np.clip(scores, -Z_MOST, Z_MOST) ** 2, axis=1))
    return rms


def features(traces: Sequence[Trace], asked: Questions) -> Floats:
    """Mean of each of `FEATURES` over all occasions, float [agents, features]; NaN where there was none.

    Raises ValueError when the traces are not of the same agents.
    """
    agents = traces[0].agents if traces else ()
    occasions: dict[tuple[str, str], list[float]] = {}

    def seen(agent: str, **values: float | None) -> None:
        for name, value in values.items():
            if value is not None:
                occasions.setdefault((agent, name), []).append(float(value))

    for trace in traces:
        if trace.agents != agents:
            raise ValueError(f"discussions of different agents: {list(agents)} and {list(trace.agents)}")
        # By round and agent, to look up the answer at either end of an edge.
        answers = {(turn.round, turn.agent): answer_of(asked[trace.question], turn) for turn in trace.turns}
        for turn in trace.turns:
            answer, before = answers[turn.round, turn.agent], answers.get((turn.round - 1, turn.agent))
            repeats = None if before is None else answer == before
            words = len(turn.content.split()) if turn.status is Status.OK else None
            seen(turn.agent, repeats=repeats, confidence=turn.confidence, words=words, silent=answer is None)
        # (round in which it was sent, round in which it was heard, sender, receiver)
        heard = [(t, t, j, i) for t, j, i in trace.spatial] + [(t - 1, t, j, i) for t, j, i in trace.temporal]
        for sent_in, heard_in, j, i in heard:
            sent, reply = answers.get((sent_in, agents[j])), answers.get((heard_in, agents[i]))
            # Memory of oneself, or no answer at one end: neither shows influence.
            if i == j or sent is None or reply is None:
                continue
            seen(agents[i], agrees=reply == sent)
            # Only a receiver that had an answer before it heard this one can follow it or leave it.
            before = answers.get((heard_in - 1, agents[i]))
            follows, leaves = (reply == sent, None) if before != sent else (None, reply != sent)
            seen(agents[j], agreed=reply == sent, **({} if before is None else {"followed": follows, "left": leaves}))
    means = [[np.mean(occasions.get((agent, name), np.nan)) for name in FEATURES] for agent in agents]
    # Without agents the array would have one dimension only.
    return np.array(means).reshape(-1, len(FEATURES))


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
