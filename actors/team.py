"""The runtime as a topology sees it: `ask(turn) -> Message`, wherever the agents live."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping

from actors.batching import Batcher
from actors.messages import Message, Turn

Results = AsyncIterator[list[tuple[int, Message | Exception]]]


class AgentLost(Exception):
    """An agent's process died while it held turns; the runtime starts it again, without its memory."""


class Team:
    """Agents by name. `senders[name](turns, closed)` is one call of that agent.

    `closed` are discussions that ended since the agent's last call: their memory is let go with the next batch,
    so that forgetting costs no call of its own.
    """

    def __init__(self, senders: Mapping[str, Callable[[list[Turn], list[str]], Results]]) -> None:
        self._closed: dict[str, list[str]] = {name: [] for name in senders}
        self._mailboxes = {name: Batcher(self._sender(name, send)) for name, send in senders.items()}

    def _sender(self, name: str, send: Callable[[list[Turn], list[str]], Results]) -> Callable[[list[Turn]], Results]:
        def call(turns: list[Turn]) -> Results:
            closed, self._closed[name] = self._closed[name], []
            return send(turns, closed)

        return call

    async def ask(self, turn: Turn) -> Message:
        """What the agent named in the turn says.

        Raises:
            MemoryLost, AgentLost: the discussion has to be replayed; with the same seeds it ends the same.
        """
        return await self._mailboxes[turn.agent](turn)

    def close(self, discussion: str) -> None:
        """No more turns of this discussion will come."""
        for closed in self._closed.values():
            closed.append(discussion)
