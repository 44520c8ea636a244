"""One discussion, started again when an agent's process dies."""

from __future__ import annotations

import asyncio
from typing import Protocol

from actors.errors import AgentLost, MemoryLost
from actors.messages import Message, Question, Trace, Turn, Usage
from topologies.topology import Topology, discussion_id

REPLAYS = 6  # with pauses that double from 0.2 s, 12.6 s in all: a process has started again by then


class Team(Protocol):
    """Agents to ask: processes, a recorded run, or stand-ins.

    `usage`: each agent's tokens and calls so far. `recorded`: the answers are those of an earlier run, with
    the effect of its attacks, which must not be applied again.
    """

    usage: dict[str, Usage]

    @property
    def recorded(self) -> bool:
        """True for the answers of an earlier run."""

    async def ask(self, turn: Turn) -> Message:
        """The agent's message for one turn."""

    def close(self, discussion: str) -> None:
        """Ends a discussion: its agents may forget it."""


async def run_discussion(topology: Topology, question: Question, team: Team, seed: int, sample: int = 0) -> Trace:
    """Holds one discussion and restarts it when an agent is lost; with the same seeds the result is the same.

    Raises:
        AgentLost: an agent was lost every time.
    """
    for replay in range(REPLAYS + 1):
        if replay:
            await asyncio.sleep(0.1 * 2**replay)  # the agent's process is being started again
        try:
            return await topology.answer(question, team.ask, seed, sample)
        # Turns run in a TaskGroup, which raises a group even for one lost agent. MemoryLost: the agent's process was
        # started again in the middle of the discussion, and its earlier turns are gone.
        except* (AgentLost, MemoryLost) as lost:
            reason = str(lost.exceptions[0])
        finally:
            # After success and failure alike: memories are freed, and a new attempt starts from empty ones.
            team.close(discussion_id(topology.method, question, sample))
    raise AgentLost(f"{question.id}: agents were lost {REPLAYS + 1} times, last: {reason}")
