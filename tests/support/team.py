"""Real agents with the embedded reader, in this process."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from random import Random
from typing import ClassVar, Self

from actors.agents.role_agent import RoleAgent
from actors.errors import ModelError
from actors.messages import Completion, Message, Request, Role, Turn, Usage
from actors.reader.reader import Reader, ReaderSettings
from actors.settings import AgentSettings


class Unreachable:
    """A model that refuses every request."""

    async def complete(self, request: Request) -> Completion:
        raise ModelError("the connection was refused")


class ReaderTeam:
    """Agents by role over one reader; `turns` and `requests` are all that they were asked, in order.

    Args:
        failing: the agent whose model cannot be reached.
        delays: how long each turn takes; by default one pass of the event loop.
    """

    recorded: ClassVar[bool] = False

    def __init__(
        self,
        roles: Iterable[Role],
        reader: ReaderSettings | None = None,
        agents: AgentSettings | None = None,
        failing: str = "",
        delays: Random | None = None,
    ) -> None:
        self.usage: dict[str, Usage] = {}
        self.turns: list[Turn] = []
        self.requests: list[Request] = []
        self._reader = Reader(reader or ReaderSettings())
        self._delays = delays
        self._agents = {
            role.name: RoleAgent(role, Unreachable() if role.name == failing else self, agents) for role in roles
        }

    async def complete(self, request: Request) -> Completion:
        self.requests.append(request)
        return await self._reader.complete(request)

    def metered(self) -> Self:
        """Itself: it does not count what is spent."""
        return self

    async def ask(self, turn: Turn) -> Message:
        for _ in range(self._delays.randrange(4) if self._delays else 1):
            await asyncio.sleep(0)
        self.turns.append(turn)
        return (await self._agents[turn.agent].take(turn))[0]

    def close(self, discussion: str) -> None:
        for agent in self._agents.values():
            agent.memory.forget([discussion])
