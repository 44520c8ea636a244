"""Contract of a topology, discussions along a wiring (section 3 and Eqs. 1, 5, 6, 9, 10), and their replay."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from graphlib import TopologicalSorter
from typing import Any, Protocol, runtime_checkable

import numpy as np

from actors.errors import AgentLost, MemoryLost
from actors.messages import Heard, Message, Question, Status, Trace, Turn, TurnResult, derive_seed
from topologies.wiring import Bools, Ints, Wiring, into, needed_turns, weighed_senders

Ask = Callable[[Turn], Awaitable[Message]]
Suspicion = tuple[tuple[float, ...], ...]
"""A defence's scores of a discussion, by round and agent (`Trace.suspicion`)."""
DECISION_AGENT = "decision"
SINGLE_AGENT = "single"  # answers alone
REPLAYS = 6  # with pauses that double from 0.2 s, 12.6 s in all: time for a process to start again


class Topology(Protocol):
    """Answers a question with agents. Of the runtime it knows `ask` alone; it never sees a label."""

    method: str

    async def answer(self, question: Question, ask: Ask, seed: int, sample: int = 0) -> Trace:
        """Holds one discussion. Randomness comes from `seed` and the question's id; in the wiring from `sample` too."""


@runtime_checkable
class InBlocks(Protocol):
    """Topology that learns from scores of its discussions, between blocks of them.

    block: the least number of discussions of a block, which is made of whole clusters (0: it learns nothing).
    """

    block: int

    def after(self, suspicion: Sequence[Sequence[Suspicion]]) -> Topology:
        """Returns the topology of the next block; suspicion: of each discussion of each cluster of this one."""


@dataclass(frozen=True)
class Discussion:
    """Makes the turns and the trace of one discussion; `question` is as its agents see it."""

    method: str
    question: Question
    seed: int
    sample: int

    def turn(
        self, agent: str, number: int, heard: Iterable[Heard] = (), question: Question | None = None, **rest: Any
    ) -> Turn:
        """Returns an agent's turn of round `number`, from 1, about the discussion's question or a part of it.

        `rest` are other fields of `Turn`.
        """
        name = discussion_id(self.method, self.question, self.sample)
        # Neither method nor sample is part of the seed: equal turns of several discussions are answered once.
        seed = derive_seed(self.seed, self.question.id, number, agent)
        return Turn(name, question or self.question, agent, number, seed, tuple(heard), **rest)

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
        self,
        method: str,
        agents: Sequence[str],
        wire: Wiring | Callable[[Question], Wiring],
        every_turn: bool = False,
        suspicion: Suspicion = (),
        weights: Suspicion = (),
    ) -> None:
        """suspicion, weights: of a defence that chose the wiring, for the traces."""
        self.method = method
        self.agents = tuple(agents)
        self._wire = wire
        self._every_turn = every_turn
        self._suspicion = suspicion
        self._weights = weights

    async def answer(self, question: Question, ask: Ask, seed: int, sample: int = 0) -> Trace:
        """Holds the discussion of a question. Raises ValueError when spatial edges close a cycle."""
        discussion = Discussion(self.method, question, seed, sample)
        wiring = self._wire if isinstance(self._wire, Wiring) else self._wire(question)
        is_needed = wiring.taking_part if self._every_turn else needed_turns(wiring)
        turns = await self._take_turns(discussion, wiring, is_needed, ask)

        readable = np.flatnonzero(wiring.decision).tolist()
        last_messages = [turns[wiring.rounds - 1, i] for i in readable]
        # Shares of all agents read: a failed turn does not raise the weight of the others, as inside a round.
        heard_messages = [
            Heard(message, 1 / len(last_messages)) for message in last_messages if message.status is Status.OK
        ]
        decision = await ask(discussion.turn(DECISION_AGENT, wiring.rounds + 1, heard_messages))

        allowed_spatial = wiring.spatial if wiring.allowed_spatial is None else wiring.allowed_spatial
        allowed_temporal = wiring.temporal if wiring.allowed_temporal is None else wiring.allowed_temporal
        return discussion.trace(
            self.agents,
            (*turns.values(), decision),
            # Edges into turns that are not taken are dropped; senders of needed turns are needed themselves.
            spatial=_from_one(wiring.spatial[into(is_needed, wiring.spatial)]),
            temporal=_from_one(wiring.temporal[into(is_needed, wiring.temporal)]),
            allowed_spatial=_from_one(allowed_spatial),
            allowed_temporal=_from_one(allowed_temporal),
            decision=tuple(self.agents[i] for i in readable),
            suspicion=self._suspicion,
            weights=self._weights,
        )

    async def _take_turns(
        self, discussion: Discussion, wiring: Wiring, is_needed: Bools, ask: Ask
    ) -> dict[tuple[int, int], Message]:
        """Takes the needed turns, bool [rounds, agents]. Returns their messages by round and agent, in this order."""
        spatial = weighed_senders(wiring.spatial, wiring.spatial_p, wiring.agents)
        temporal = weighed_senders(wiring.temporal, wiring.temporal_p, wiring.agents)
        tasks: dict[tuple[int, int], asyncio.Task[Message]] = {}
        # Turns that wait for each other would wait forever.
        sorter: TopologicalSorter[tuple[int, int]] = TopologicalSorter()
        for (t, i), senders in spatial.items():
            sorter.add((t, i), *((t, j) for j in senders))
        sorter.prepare()

        async def speak(t: int, i: int) -> Message:
            """Waits for the turns that this one hears or remembers, and takes it."""
            heard_messages = []
            for rounds_before, senders in enumerate((spatial, temporal)):
                for j, weight in senders.get((t, i), {}).items():
                    message = await tasks[t - rounds_before, j]
                    if message.status is Status.OK:
                        heard_messages.append(Heard(message, weight, rounds_before > 0))
            remembered = np.flatnonzero(is_needed[:t, i]).tolist()
            if remembered:
                await tasks[remembered[-1], i]
            return await ask(discussion.turn(self.agents[i], t + 1, heard_messages, recall=len(remembered)))

        async with asyncio.TaskGroup() as group:
            # By round, then agent: also the order of turns in the trace, independent of timing.
            for t, i in np.argwhere(is_needed).tolist():
                tasks[t, i] = group.create_task(speak(t, i))
        return {place: task.result() for place, task in tasks.items()}


class Renamed:
    """Topology that answers as another one, with discussions and records under its own name."""

    def __init__(self, topology: Topology, method: str) -> None:
        self.method = method
        self._topology = topology
        self.block = topology.block if isinstance(topology, InBlocks) else 0

    def after(self, suspicion: Sequence[Sequence[Suspicion]]) -> "Renamed":
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


async def ask_together(ask: Ask, turns: Iterable[Turn]) -> list[Message]:
    """Takes turns at once and returns their messages in order. Where one fails, the others are cancelled."""

    async def take(turn: Turn) -> Message:
        return await ask(turn)

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(take(turn)) for turn in turns]
    return [task.result() for task in tasks]


def heard_equally(messages: Iterable[Message]) -> tuple[Heard, ...]:
    """Weighs the messages that a turn hears equally; failed ones are left out."""
    usable = [message for message in messages if message.status is Status.OK]
    return tuple(Heard(message, 1 / len(usable)) for message in usable)


class Speaker(Protocol):
    """Takes the turns of discussions: agents of the runtime, a record, a script, a simulation, or a wrapper of one."""

    async def take(self, turn: Turn) -> TurnResult:
        """Returns the message of the turn's agent, with what it has used and asked."""

    def close(self, discussion: str) -> None:
        """Ends a discussion: its agents may forget it."""


def ask_of(speaker: Speaker) -> Ask:
    """Returns what a topology knows of a speaker: its messages."""

    async def ask(turn: Turn) -> Message:
        return (await speaker.take(turn)).message

    return ask


async def run_discussion(topology: Topology, question: Question, speaker: Speaker, seed: int, sample: int = 0) -> Trace:
    """Holds one discussion and restarts it, with the same seeds, when an agent is lost.

    Raises AgentLost when one was lost every time.
    """
    for replay in range(REPLAYS + 1):
        if replay:
            await asyncio.sleep(0.1 * 2**replay)  # the agent's process is being started again
        try:
            return await topology.answer(question, ask_of(speaker), seed, sample)
        # Turns run in a TaskGroup, which raises a group even for one lost agent. MemoryLost: the agent's process was
        # started again in the middle of the discussion, and its earlier turns are gone.
        except* (AgentLost, MemoryLost) as lost:
            reason = str(lost.exceptions[0])
        finally:
            # After success and failure alike: memories are freed, and a new attempt starts from empty ones.
            speaker.close(discussion_id(topology.method, question, sample))
    raise AgentLost(f"{question.id}: agents were lost {REPLAYS + 1} times, last: {reason}")


def _from_one(edges: Ints) -> tuple[tuple[int, int, int], ...]:
    # Traces count rounds from 1.
    return tuple((t + 1, j, i) for t, j, i in edges.tolist())
