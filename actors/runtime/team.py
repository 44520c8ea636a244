"""The runtime as a topology sees it: `ask(turn) -> Message`, wherever the agents live."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Protocol

from actors.errors import AgentLost
from actors.messages import Message, Turn, Usage
from actors.runtime.batching import Batcher, Results

Said = tuple[Message, Usage]


class Sender(Protocol):
    """One agent: a call of this is one call of it. `drop` tells it of turns that nobody waits for any more."""

    def __call__(self, call: int, turns: list[Turn], closed: list[str], /) -> AsyncIterator[Results[Said]]: ...

    def drop(self, places: list[tuple[int, int]], /) -> None: ...


class RemoteTeam:
    """Agents by name. `senders[name](call, turns, closed)` is one call of that agent.

    `closed` are discussions that ended since the agent's last call: their memory is let go with the next batch,
    so that forgetting costs no call of its own. `usage` sums what each agent has spent since the team was made.

    Args:
        name: tells this team's discussions from those that other processes hold with the same agents; the agents
            see it before the discussion's id, and nobody else does.
    """

    recorded = False

    def __init__(self, senders: Mapping[str, Sender], name: str = "") -> None:
        self._name = name
        self._senders = dict(senders)
        self.usage: dict[str, Usage] = {name: Usage() for name in senders}
        self._closed: dict[str, list[str]] = {name: [] for name in senders}
        self._mailboxes = {
            name: Batcher(self._sender(name, sender), drop=sender.drop) for name, sender in senders.items()
        }

    def _sender(self, name: str, sender: Sender) -> Callable[[int, list[Turn]], AsyncIterator[Results[Said]]]:
        def send(call: int, turns: list[Turn]) -> AsyncIterator[Results[Said]]:
            closed, self._closed[name] = self._closed[name], []
            return sender(call, turns, closed)

        return send

    async def ask(self, turn: Turn) -> Message:
        """What the agent named in the turn says.

        Raises:
            MemoryLost, AgentLost: the discussion has to be replayed; with the same seeds it ends the same.
        """
        if self._name:
            turn = replace(turn, discussion=f"{self._name}/{turn.discussion}")
        message, usage = await self._mailboxes[turn.agent](turn)
        self.usage[turn.agent] += usage
        return message

    def close(self, discussion: str) -> None:
        """No more turns of this discussion will come."""
        if self._name:
            discussion = f"{self._name}/{discussion}"
        for closed in self._closed.values():
            closed.append(discussion)

    async def part(self) -> None:
        """Have agents that others go on asking forget what was closed since they were last asked.

        An agent whose process has died has nothing to forget.
        """
        for name, sender in self._senders.items():
            closed, self._closed[name] = self._closed[name], []
            if closed:
                with suppress(AgentLost):
                    async for _ in sender(0, [], closed):
                        pass
