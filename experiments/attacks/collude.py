"""Collusion: agents that argue for the same wrong answer and know of each other."""

from __future__ import annotations

from collections.abc import Sequence

from actors.errors import UserError
from actors.messages import Turn
from experiments.attacks.kind import AttackContext, AttackKind
from experiments.attacks.persuasion import argue


class Collude(AttackKind):
    """Collusion: as `response`, with attackers that know of each other and share the target."""

    name = "collude"

    def check(self, attackers: Sequence[str]) -> None:
        if len(attackers) < 2:
            raise UserError("attack=collude needs two agents: set attack.number=2, or name two in attack.agents")

    def change(self, turn: Turn, context: AttackContext) -> Turn:
        return argue(turn, context.target, self.settings, [name for name in context.attackers if name != turn.agent])
