"""Collusion: several agents that argue together for one wrong answer."""

from __future__ import annotations

from collections.abc import Sequence

from actors.errors import UserError
from actors.messages import Turn
from experiments.attacks.kind import AttackContext, AttackKind
from experiments.attacks.response import argue


class Collude(AttackKind):
    """As `response`, with attackers that know of each other and share the target."""

    name = "collude"

    def check(self, attackers: Sequence[str]) -> None:
        if len(attackers) < 2:
            raise UserError(
                "attack=collude needs two agents at least: set attack.number=2, or name two in attack.agents"
            )

    def change(self, turn: Turn, context: AttackContext) -> Turn:
        return argue(turn, context.target, [name for name in context.attackers if name != turn.agent])
