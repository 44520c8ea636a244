"""A team whose turns count as progress, so that a slow model shows life before its first discussion has ended."""

from __future__ import annotations

from actors.messages import Message, Turn
from experiments.records.progress import Bar
from topologies.topology import Team


class CountedTeam:
    """The team, with every turn that ends counted by a bar; turns of a discussion that is held again count again."""

    def __init__(self, team: Team, bar: Bar) -> None:
        self.recorded, self.usage = team.recorded, team.usage
        self._team = team
        self._bar = bar

    async def ask(self, turn: Turn) -> Message:
        message = await self._team.ask(turn)
        self._bar.turn()
        return message

    def close(self, discussion: str) -> None:
        self._team.close(discussion)
