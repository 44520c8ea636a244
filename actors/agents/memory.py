"""An agent's memory: its own earlier turns (the s_i of Eq. 1), per discussion and only while that is open.

The instances of a role share one object and no turn: an agent recalls what it said under its own name.
"""

from __future__ import annotations

from collections.abc import Iterable

from actors.errors import MemoryLost
from actors.messages import Message, Turn


class Memory:
    """Own messages by discussion. Nothing outlives a discussion, or answers would depend on the order of questions."""

    def __init__(self) -> None:
        self._turns: dict[str, dict[str, dict[int, Message]]] = {}

    def __len__(self) -> int:
        return len(self._turns)

    def recall(self, turn: Turn) -> tuple[Message, ...]:
        """Own messages of the rounds before this turn's, oldest first; none where the turn asks for none.

        Raises:
            MemoryLost: there are not `turn.recall` of them.
        """
        if not turn.recall:
            return ()  # even if there are some: turns that run side by side would recall whatever happened to be first
        own = self._turns.get(turn.discussion, {}).get(turn.agent, {})
        recalled = tuple(own[r] for r in sorted(own) if r < turn.round)
        if len(recalled) != turn.recall:
            raise MemoryLost(f"{turn.id}: {len(recalled)} earlier turns remembered, {turn.recall} expected")
        return recalled

    def remember(self, turn: Turn, message: Message) -> None:
        """Keeps the message of a turn."""
        # By round, so that a turn that is replayed takes its own place and does not count twice.
        self._turns.setdefault(turn.discussion, {}).setdefault(turn.agent, {})[turn.round] = message

    def forget(self, discussions: Iterable[str]) -> None:
        """Drops all turns of these discussions, known or not."""
        for discussion in discussions:
            self._turns.pop(discussion, None)
