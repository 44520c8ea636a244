"""Contract of a topology, discussions along a wiring (section 3 and Eqs. 1, 5, 6, 9, 10), and their replay."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from graphlib import TopologicalSorter
from typing import Any, Protocol, runtime_checkable

import numpy as np

from actors.messages import Heard, Message, Question, Status, Trace, Turn, Usage, derive_seed
from topologies.wiring import Ints, Wiring, into, needed_turns, weighed_senders

Ask = Callable[[Turn], Awaitable[Message]]
Suspicion = tuple[tuple[float, ...], ...]
"""A defence's scores of a discussion, by round and agent (`Trace.suspicion`)."""
Noted = Callable[[Turn, float, Usage], None]
"""Gets each answered turn, when it was asked (of the monotonic clock), and what it has used."""
DECISION_AGENT = "decision"
SINGLE_AGENT = "single"  # answers alone


class Topology(Protocol):
    """Answers a question with agents. Of the runtime it knows `ask` alone; it never sees a label."""

    method: str

    async def answer(self, question: Question, ask: Ask, seed: int, sample: int = 0) -> Trace:
        """Holds one discussion. Randomness comes from `seed` and the question's id; in the wiring from `sample` too."""


@runtime_checkable
class InBlocks(Protocol):
    """Topology that learns from scores of its discussions, between blocks of `block` of them (0: it learns nothing)."""

    block: int

    def after(self, suspicion: Sequence[Suspicion]) -> Topology:
        """Returns the topology of the next block; suspicion: of each discussion of this one, in order."""


@dataclass(frozen=True)
class Discussion:
    """Makes the turns and the trace of one discussion; `question` is as its agents see it."""

    method: str
    question: Question
    seed: int
    sample: int

    def turn(self, agent: str, number: int, heard: Iterable[Heard] = (), **rest: Any) -> Turn:
        """Returns an agent's turn of round `number`, from 1; `rest` are other fields of `Turn`."""
        name = discussion_id(self.method, self.question, self.sample)
        # Neither method nor sample is part of the seed: equal turns of several discussions are answered once.
        seed = derive_seed(self.seed, self.question.id, number, agent)
        return replace(Turn(name, self.question, agent, number, seed, tuple(heard)), **rest)

    def trace(self, agents: Iterable[str], turns: Sequence[Message], **rest: Any) -> Trace:
        """Returns the record; answer and status are those of the last turn, unless `rest` has others."""
        fields = {"question": self.question.id, "method": self.method, "sample": self.sample, "seed": self.seed}
        fields["evidence"] = tuple(source.id for source in self.question.evidence)
        if turns:
            fields |= {"answer": turns[-1].answer, "status": turns[-1].status}
        return Trace(agents=tuple(agents), turns=tuple(turns), **{**fields, **rest})


class Wired:
    """Topology along a wiring, one for all questions or `wire(question)`: an agent speaks after all its senders.

    A failed turn is recorded, and no agent hears it. The answer is the decision agent's. Turns on which it does not
    depend are left out, with the edges into them, unless `every_turn` is set: learning scores every agent's own answer.
    """

    def __init__(
        self, method: str, agents: Sequence[str], wire: Wiring | Callable[[Question], Wiring], every_turn: bool = False
    ) -> None:
        self.method = method
        self.agents = tuple(agents)
        self._wire = wire
        self._every_turn = every_turn
        self.judged: tuple[Suspicion, Suspicion] = (), ()  # suspicion and weights of a defence that chose the wiring

    async def answer(self, question: Question, ask: Ask, seed: int, sample: int = 0) -> Trace:
        """Holds the discussion of a question. Raises ValueError when spatial edges close a cycle."""
        agents, held = self.agents, Discussion(self.method, question, seed, sample)
        wiring = self._wire if isinstance(self._wire, Wiring) else self._wire(question)
        rounds, n = wiring.rounds, wiring.agents
        needed = wiring.taking_part if self._every_turn else needed_turns(wiring)
        spatial = weighed_senders(wiring.spatial, wiring.spatial_p, n)
        temporal = weighed_senders(wiring.temporal, wiring.temporal_p, n)
        turns: dict[tuple[int, int], asyncio.Task[Message]] = {}
        # Turns that wait for each other would wait forever.
        TopologicalSorter({(t, i): [(t, j) for j in senders] for (t, i), senders in spatial.items()}).prepare()

        async def speak(t: int, i: int) -> Message:
            """Waits for the turns that this one hears or remembers, and takes it."""
            heard = []
            for before, senders in ((0, spatial.get((t, i), {})), (1, temporal.get((t, i), {}))):
                for j, weight in senders.items():
                    message = await turns[t - before, j]
                    if message.status is Status.OK:
                        heard.append(Heard(message, weight, bool(before)))
            own = np.flatnonzero(needed[:t, i]).tolist()
            if own:
                await turns[own[-1], i]
            return await ask(held.turn(agents[i], t + 1, heard, recall=len(own)))

        async with asyncio.TaskGroup() as group:
            # By round, then agent: also the order of turns in the trace, independent of timing.
            for t, i in np.argwhere(needed).tolist():
                turns[t, i] = group.create_task(speak(t, i))
        spoken = {place: turn.result() for place, turn in turns.items()}
        last = [spoken[rounds - 1, i] for i in range(n) if wiring.decision[i]]
        # Shares of all agents read: a failed turn does not raise the weight of the others, as inside a round.
        heard = [Heard(message, 1 / len(last)) for message in last if message.status is Status.OK]
        decision = await ask(held.turn(DECISION_AGENT, rounds + 1, heard))
        return held.trace(
            agents,
            (*spoken.values(), decision),
            # Edges into turns that are not taken are dropped; senders of needed turns are needed themselves.
            spatial=_from_one(wiring.spatial[into(needed, wiring.spatial)]),
            temporal=_from_one(wiring.temporal[into(needed, wiring.temporal)]),
            allowed_spatial=_from_one(wiring.spatial if wiring.allowed_spatial is None else wiring.allowed_spatial),
            allowed_temporal=_from_one(wiring.temporal if wiring.allowed_temporal is None else wiring.allowed_temporal),
            decision=tuple(agents[i] for i in range(n) if wiring.decision[i]),
            suspicion=self.judged[0],
            weights=self.judged[1],
        )


class Renamed:
    """Topology that answers as another one, with discussions and records under its own name."""

    def __init__(self, topology: Topology, method: str) -> None:
        self.method = method
        self._topology = topology
        self.block = topology.block if isinstance(topology, InBlocks) else 0

    def after(self, suspicion: Sequence[Suspicion]) -> "Renamed":
        """Returns the renamed topology of the next block."""
        assert isinstance(self._topology, InBlocks)
        return Renamed(self._topology.after(suspicion), self.method)

    async def answer(self, question: Question, ask: Ask, seed: int, sample: int = 0) -> Trace:
        name = discussion_id(self.method, question, sample)
        trace = await self._topology.answer(question, lambda turn: ask(replace(turn, discussion=name)), seed, sample)
        return replace(trace, method=self.method)


def discussion_id(method: str, question: Question, sample: int) -> str:
    """Name of one discussion, the key of the agents' memories."""
    return f"{method}/{question.id}/{sample}"


def heard_equally(messages: Iterable[Message]) -> tuple[Heard, ...]:
    """Weighs the messages that a turn hears equally; failed ones are left out."""
    read = [message for message in messages if message.status is Status.OK]
    return tuple(Heard(message, 1 / len(read)) for message in read)


class Team(Protocol):
    """Agents to ask: processes, a recorded run, or simulated ones; `usage` has each one's tokens and calls so far."""

    usage: dict[str, Usage]

    @property
    def recorded(self) -> bool:
        """True for the answers of an earlier run, whose attacks must not be applied again."""

    async def ask(self, turn: Turn) -> Message:
        """Returns the agent's message for one turn."""

    def close(self, discussion: str) -> None:
        """Ends a discussion: its agents may forget it."""


async def run_discussion(topology: Topology, question: Question, team: Team, seed: int, sample: int = 0) -> Trace:
    """Holds one discussion. Its agents' memories are freed at the end."""
    try:
        return await topology.answer(question, team.ask, seed, sample)
    finally:
        team.close(discussion_id(topology.method, question, sample))


def _from_one(edges: Ints) -> tuple[tuple[int, int, int], ...]:
    # Traces count rounds from 1.
    return tuple((t + 1, j, i) for t, j, i in edges.tolist())
