"""The contract of a topology, and the walk of a discussion along a wiring (section 3 and Eqs. 1, 5, 6, 9, 10)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from actors.messages import Heard, Message, Question, Status, Trace, Turn, derive_seed
from topologies.wiring import Bools, Floats, receiver_weights

Ask = Callable[[Turn], Awaitable[Message]]
DECISION_AGENT = "decision"
# A scalar broadcasts to any matrix; the softmax of equal values gives every sender the same weight.
EQUAL: Floats = np.array(1.0)


class Topology(Protocol):
    """A way of answering a question with agents. Of the runtime it knows `ask` alone; it never sees a label."""

    method: str

    async def answer(self, question: Question, ask: Ask, seed: int, sample: int = 0) -> Trace:
        """One discussion. All that is random in it comes from `seed` and the question's id, and what is random in the
        wiring from `sample` too."""


@dataclass(frozen=True, slots=True)
class Wiring:
    """The edges of one discussion of N agents over T rounds. Matrices are [sender, receiver].

    spatial: bool [T, N, N]; acyclic in every round.
    temporal: bool [T, N, N]; row t: from round t-1 to t, so none in the first.
    decision: bool [N]; the agents that the decision agent reads after the last round.
    spatial_p, temporal_p: float [N, N]; probabilities, from which reading weights come (equal ones if None).
    allowed_spatial, allowed_temporal: bool [T, N, N]; the edges that could have been drawn (those drawn if None).
    """

    spatial: Bools
    temporal: Bools
    decision: Bools
    spatial_p: Floats | None = None
    temporal_p: Floats | None = None
    allowed_spatial: Bools | None = None
    allowed_temporal: Bools | None = None


class Wired:
    """A topology that follows a wiring: one for all questions, or `wire(question)`.

    `every_turn` as for `discuss`.
    """

    def __init__(
        self,
        method: str,
        agents: Sequence[str],
        wire: Wiring | Callable[[Question], Wiring],
        every_turn: bool = False,
    ) -> None:
        self.method = method
        self.agents = tuple(agents)
        self._wire = wire
        self._every_turn = every_turn

    async def answer(self, question: Question, ask: Ask, seed: int, sample: int = 0) -> Trace:
        wiring = self._wire if isinstance(self._wire, Wiring) else self._wire(question)
        return await discuss(self.method, self.agents, wiring, question, ask, seed, sample, self._every_turn)


def discussion_id(method: str, question: Question, sample: int) -> str:
    """The key of the agents' memories of one discussion."""
    return f"{method}/{question.id}/{sample}"


def needed_turns(wiring: Wiring) -> Bools:
    """The turns with a path to the decision agent, on which the answer depends, bool [T, N].

    An agent's own last turn counts as heard, because it remembers it. All that a needed turn hears is needed.
    """
    rounds, n = wiring.spatial.shape[:2]
    needed = np.ones((rounds, n), dtype=bool)
    after = np.asarray(wiring.decision, dtype=bool)
    # Everyone's last turn is needed, and through their own memories all earlier turns with it.
    if after.all():
        return needed
    for t in reversed(range(rounds)):
        while True:  # within a round a path may have several edges
            before = after | wiring.spatial[t][:, after].any(axis=1)
            if (before == after).all():
                break
            after = before
        needed[t] = after
        # `after` stays part of it: an agent whose turn is needed remembers its turn of the round before.
        after = after | wiring.temporal[t][:, after].any(axis=1)
    return needed


async def discuss(
    method: str,
    agents: Sequence[str],
    wiring: Wiring,
    question: Question,
    ask: Ask,
    seed: int,
    sample: int = 0,
    every_turn: bool = False,
) -> Trace:
    """Holds a discussion along a wiring: an agent speaks as soon as everyone it hears has spoken.

    A turn that failed is recorded and heard by nobody. The answer is the decision agent's. Turns on which it does not
    depend are left out of discussion and trace, with the edges into them, unless `every_turn` is set: learning scores
    every agent's own answer.
    """
    rounds, n = wiring.spatial.shape[:2]
    discussion = discussion_id(method, question, sample)
    needed = np.ones((rounds, n), dtype=bool) if every_turn else needed_turns(wiring)
    # Columns are receivers: edges into turns that are not taken go; senders of needed turns are needed themselves.
    taken_spatial = wiring.spatial & needed[:, None, :]
    taken_temporal = wiring.temporal & needed[:, None, :]
    spatial = _senders(taken_spatial, wiring.spatial_p)
    temporal = _senders(taken_temporal, wiring.temporal_p)
    # By round, then agent: also the order of turns in the trace, whichever ends first.
    speakers: list[tuple[int, int]] = [(t, i) for t, i in np.argwhere(needed).tolist()]
    spoken: dict[tuple[int, int], Message] = {}
    waiting: dict[tuple[int, int], int] = {}
    listeners: dict[tuple[int, int], list[tuple[int, int]]] = {speaker: [] for speaker in speakers}
    for t, i in speakers:
        # A set: an agent's temporal edge to itself is the same wait as the memory of its last turn.
        senders = {(t, j) for j, _ in spatial[t][i]} | {(t - 1, j) for j, _ in temporal[t][i]}
        if t:
            senders.add((t - 1, i))  # its own last turn, which it remembers
        waiting[t, i] = len(senders)
        for sender in senders:
            listeners[sender].append((t, i))

    # A turn's seed leaves method and sample out, so that equal turns of several discussions are answered once.
    def turn(agent: str, number: int, heard: list[Heard], recall: int) -> Turn:
        turn_seed = derive_seed(seed, question.id, number, agent)
        return Turn(discussion, question, agent, number, turn_seed, tuple(heard), recall)

    async def speak(t: int, i: int) -> None:
        heard = [Heard(spoken[t, j], w) for j, w in spatial[t][i] if spoken[t, j].status is Status.OK]
        heard += [Heard(spoken[t - 1, j], w, True) for j, w in temporal[t][i] if spoken[t - 1, j].status is Status.OK]
        spoken[t, i] = await ask(turn(agents[i], t + 1, heard, recall=t))
        for listener in listeners[t, i]:
            # Nothing is awaited between the count and its check, so exactly one sender starts the listener.
            waiting[listener] -= 1
            if not waiting[listener]:
                group.create_task(speak(*listener))

    # `speak` adds to this group, so when the block is left, everybody has spoken.
    async with asyncio.TaskGroup() as group:
        for t, i in [speaker for speaker, senders in waiting.items() if not senders]:
            group.create_task(speak(t, i))

    last = [spoken[rounds - 1, i] for i in range(n) if wiring.decision[i]]
    # Shares of all that are read: a failed turn does not raise the weight of the others, as inside a round.
    heard = [Heard(message, 1 / len(last)) for message in last if message.status is Status.OK]
    decision = await ask(turn(DECISION_AGENT, rounds + 1, heard, recall=0))
    return Trace(
        question=question.id,
        method=method,
        sample=sample,
        agents=tuple(agents),
        turns=(*(spoken[speaker] for speaker in speakers), decision),
        answer=decision.answer,
        status=decision.status,
        seed=seed,
        evidence=tuple(source.id for source in question.evidence),
        spatial=_edges(taken_spatial),
        temporal=_edges(taken_temporal),
        allowed_spatial=_edges(wiring.spatial if wiring.allowed_spatial is None else wiring.allowed_spatial),
        allowed_temporal=_edges(wiring.temporal if wiring.allowed_temporal is None else wiring.allowed_temporal),
        decision=tuple(agents[i] for i in range(n) if wiring.decision[i]),
    )


def _senders(present: Bools, probabilities: Floats | None) -> list[list[list[tuple[int, float]]]]:
    """The senders that each turn hears, with their weights: [round][receiver] -> (sender, weight) pairs."""
    weights = receiver_weights(EQUAL if probabilities is None else probabilities, present)
    rounds, n = present.shape[:2]
    heard: list[list[list[tuple[int, float]]]] = [[[] for _ in range(n)] for _ in range(rounds)]
    for t, j, i in np.argwhere(present).tolist():
        heard[t][i].append((j, float(weights[t, j, i])))
    return heard


def _edges(present: Bools) -> tuple[tuple[int, int, int], ...]:
    # Traces count rounds from 1.
    return tuple((t + 1, j, i) for t, j, i in np.argwhere(present).tolist())
