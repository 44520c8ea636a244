"""A sleeper: an agent that argues for a wrong answer after a time of honesty."""

from __future__ import annotations

from actors.messages import Turn
from experiments.attacks.kind import AttackContext, AttackKind
from experiments.attacks.response import argue


class Sleeper(AttackKind):
    """A sleeper agent: as `response`, from the round `attack.from_round` of a discussion and the question
    `attack.from_question` of a phase on. Several attackers share the target.
    """

    name = "sleeper"
    reads = ("from_round", "from_question")

    def change(self, turn: Turn, context: AttackContext) -> Turn:
        # Questions count from 0, rounds from 1; both conditions must hold.
        awake = context.number >= self.settings.from_question and turn.round >= self.settings.from_round
        return argue(turn, context.target) if awake else turn
