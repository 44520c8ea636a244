"""Suspicion by disagreement: agents that agree least with the rest in unlabelled discussions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from actors.messages import Message, Status, Trace
from topologies.answers import normalised
from topologies.defences.silenced import silenced
from topologies.method import Method
from topologies.wiring import Floats


def disagreement(traces: Sequence[Trace]) -> Floats:
    """One minus the mean share of other agents with the same last answer as the agent, float [agents].

    The idea of Krum (Blanchard et al. 2017) with answers in place of gradients: what is farthest from the rest goes.
    Only the last word of each agent in each discussion counts; one without an answer agrees with nobody. It sees
    answers only. Zero for everybody where nothing was watched.
    """
    shares = [_shares(trace) for trace in traces]
    return 1.0 - np.mean(shares, axis=0) if shares else np.zeros(0)


def _shares(trace: Trace) -> Floats:
    # Traces list turns round by round, so a later turn replaces an earlier one.
    last: dict[str, Message] = {turn.agent: turn for turn in trace.turns}
    answers = [answer_of(last.get(agent)) for agent in trace.agents]
    # A team of one has nobody to agree with: 0 / 1, not 0 / 0.
    others = max(1, len(answers) - 1)
    return np.array([0.0 if own is None else (answers.count(own) - 1) / others for own in answers])


def answer_of(message: Message | None) -> str | None:
    """The normal form of an answer that can be heard; None for no message, a failed one, or one without an answer."""
    return normalised(message.answer) if message is not None and message.status is Status.OK else None


METHOD = Method(
    "agreement",
    "complete graph without those that agreed least in unlabelled discussions",
    lambda context: silenced(context, disagreement),
    needs_calibration=True,
)
