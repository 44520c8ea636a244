"""Sleeper: an agent that is honest for some rounds or questions."""

from __future__ import annotations

from actors.errors import UserError
from actors.messages import Turn
from experiments.attacks.kind import AttackContext, AttackKind
from experiments.attacks.persuasion import argue


class Sleeper(AttackKind):
    """Sleeper agent: as `response`, after a time of honesty. Several attackers share the target.

    It wakes in the round `attack.from_round` of a discussion, from the question `attack.from_question` of a phase on.
    """

    name = "sleeper"

    def check_phases(self, rounds: int | None, questions: int | None) -> None:
        settings = self.settings
        waking = ("round", settings.from_round, rounds), ("question", settings.from_question + 1, questions)
        for name, begins, last in waking:
            if last is not None and begins > last:
                raise UserError(
                    f"attack.from_{name}={getattr(settings, f'from_{name}')}: no discussion would be attacked: there "
                    f"are only {last} {name}s; lower it"
                )

    def change(self, turn: Turn, context: AttackContext) -> Turn:
        # Questions count from 0, rounds from 1; both conditions must hold.
        awake = context.number >= self.settings.from_question and turn.round >= self.settings.from_round
        return argue(turn, context.target, self.settings) if awake else turn
