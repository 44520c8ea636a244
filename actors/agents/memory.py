"""Remembers the turns of a discussion's agents (the s_i of Eq. 1), while it is open."""

from dataclasses import replace

from actors.errors import UserError
from actors.messages import Message, Turn


class Memory:
    """Messages by discussion, agent and round.

    Whoever holds the discussion has it. An agent needs nothing but a turn, so that any process of its role can take it.
    """

    def __init__(self) -> None:
        self._messages: dict[str, dict[str, dict[int, Message]]] = {}

    def __len__(self) -> int:
        return len(self._messages)

    def recalled(self, turn: Turn) -> Turn:
        """Returns the turn with the messages that its agent recalls, oldest first.

        Raises UserError unless there are `turn.recall` of them from earlier rounds.
        """
        if not turn.recall:
            return turn  # even if there are some: concurrent turns would recall whichever happened to be first
        by_round = self._messages.get(turn.discussion, {}).get(turn.agent, {})
        messages = [by_round[round] for round in sorted(by_round) if round < turn.round]
        if len(messages) != turn.recall:
            raise UserError(f"{turn.id}: the method recalls {turn.recall} earlier turns, and there are {len(messages)}")
        return replace(turn, recall=0, memories=(*messages, *turn.memories))

    def remember(self, turn: Turn, message: Message) -> None:
        """Adds the message of a turn. A failed turn counts, too."""
        self._messages.setdefault(turn.discussion, {}).setdefault(turn.agent, {})[turn.round] = message

    def forget(self, discussion: str) -> None:
        """Drops all turns of a discussion, known or not."""
        self._messages.pop(discussion, None)
