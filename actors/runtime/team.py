"""The runtime as a topology uses it: `ask(turn) -> Message`, wherever the agents live."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Iterable, Mapping
from contextlib import suppress
from copy import copy
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Protocol, Self

from actors.errors import AgentLost
from actors.messages import Message, Turn, Usage
from actors.runtime.agents import role_of_each
from actors.runtime.batching import Batcher, Results

TurnResult = tuple[Message, Usage]


class AgentTransport(Protocol):
    """The calls of one agent."""

    def take(self, turns: list[tuple[int, Turn]], closed: list[str]) -> AsyncIterator[Results[TurnResult]]:
        """Forgets discussions that are `closed`, then yields the results of turns as they finish. Raises AgentLost."""

    def drop(self, ids: list[int]) -> None:
        """Takes back turns that nobody waits for any more."""

    def close(self) -> None:
        """Ends the connection to it."""


class NamedTeam:
    """Agents by name, with what each has spent since the team was made.

    Args:
        roles: whose agents they are; an agent that is the only one of its role has the role's name.
        name: tells this team's discussions from those that others hold with the same agents; only the agents see it,
            before the discussion's id.
        instances: the role of each agent that is one of several of it.
    """

    recorded = False

    def __init__(self, roles: Iterable[str], name: str, instances: Mapping[str, str]) -> None:
        self._name = name
        self._role_of = role_of_each(roles, instances)
        self.usage: dict[str, Usage] = {agent: Usage() for agent in self._role_of}

    async def ask(self, turn: Turn) -> Message:
        """The answer of the agent that is named in the turn.

        Raises:
            MemoryLost, AgentLost: the discussion has to be replayed; with the same seeds it ends the same.
        """
        message, usage = await self._take(replace(turn, discussion=self._own(turn.discussion)) if self._name else turn)
        # Only what was answered: a turn that is lost with its process tells no usage.
        self.usage[turn.agent] += usage
        return message

    def metered(self) -> Self:
        """The same agents over the same connections, for one of several phases that go on side by side: what is spent
        through it is in its own `usage` alone."""
        metered = copy(self)
        metered.usage = {agent: Usage() for agent in self._role_of}
        return metered

    def _own(self, discussion: str) -> str:
        """The discussion's id as the agents know it."""
        return f"{self._name}/{discussion}" if self._name else discussion

    def _take(self, turn: Turn) -> Awaitable[TurnResult]:
        """The agent's answer to a turn in which the discussion has its own id."""
        raise NotImplementedError


class RemoteTeam(NamedTeam):
    """Agents by name, those of one role asked for many turns at once in batches.

    The agents are told that a discussion has ended with their next batch, so that forgetting costs no call of its own.
    """

    def __init__(
        self,
        agents: Mapping[str, AgentTransport],
        name: str = "",
        instances: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        super().__init__(agents, name, instances)
        self._agents = dict(agents)
        self._closed: dict[str, list[str]] = {name: [] for name in agents}
        self._batchers: dict[str, Batcher[Turn, TurnResult]] = {
            name: Batcher(partial(self._send, name), drop=agent.drop) for name, agent in agents.items()
        }

    def _send(self, agent: str, turns: list[tuple[int, Turn]]) -> AsyncIterator[Results[TurnResult]]:
        # Taken out before the call: what is closed meanwhile goes with the next one.
        closed, self._closed[agent] = self._closed[agent], []
        return self._agents[agent].take(turns, closed)

    def _take(self, turn: Turn) -> Awaitable[TurnResult]:
        return self._batchers[self._role_of[turn.agent]](turn)

    def close(self, discussion: str) -> None:
        """Let all agents forget a discussion; no more turns of it may come."""
        for closed in self._closed.values():
            closed.append(self._own(discussion))

    async def part(self) -> None:
        """Let agents that other teams go on asking forget the discussions that were closed since their last batch, and
        leave them.

        An agent whose process has died has nothing to forget.
        """
        for name, agent in self._agents.items():
            if self._closed[name]:
                with suppress(AgentLost):
                    async for _ in self._send(name, []):
                        pass
            agent.close()
