"""Holding one discussion: from its start again when an agent's process died meanwhile."""

from __future__ import annotations

import asyncio
from typing import Protocol

from actors.errors import AgentLost, MemoryLost
from actors.messages import Message, Question, Trace, Turn, Usage
from topologies.topology import Topology, discussion_id

REPLAYS = 6


class Team(Protocol):
    """Agents to ask, wherever they live: processes, a recorded run, or stand-ins.

    `usage` is what each agent has spent so far. `recorded` says that the answers are those of an earlier run: what was
    done to its turns then must not be done again.
    """

    usage: dict[str, Usage]

    @property
    def recorded(self) -> bool: ...

    async def ask(self, turn: Turn) -> Message: ...

    def close(self, discussion: str) -> None: ...


async def run_discussion(topology: Topology, question: Question, team: Team, seed: int, sample: int = 0) -> Trace:
    """One discussion, from its start again when an agent was lost: with the same seeds it ends the same.

    Raises:
        AgentLost: an agent was lost every time.
    """
    for replay in range(REPLAYS + 1):
        if replay:
            await asyncio.sleep(0.1 * 2**replay)  # the agent's process is being started again
        try:
            return await topology.answer(question, team.ask, seed, sample)
        except* (AgentLost, MemoryLost) as lost:
            reason = str(lost.exceptions[0])
        finally:
            team.close(discussion_id(topology.method, question, sample))
    raise AgentLost(f"{question.id}: agents were lost {REPLAYS + 1} times, last: {reason}")
