"""Response attack: agents that argue for a wrong answer, each for another one."""

from __future__ import annotations

from actors.messages import Turn
from experiments.attacks.kind import AttackContext, AttackKind
from experiments.attacks.persuasion import argue


class Response(AttackKind):
    """Response attack: an agent that argues for a wrong answer.

    The attacker sees all that its role sees: question, evidence, colleagues' messages, its earlier turns. It receives
    the target, not the gold answer, and changes its own messages only. Several attackers do not know of each other, and
    each argues for another wrong answer.
    """

    name = "response"
    several_targets = True

    def change(self, turn: Turn, context: AttackContext) -> Turn:
        # One shared target would let attackers agree, which is what `collude` measures.
        return argue(turn, context.own_targets[turn.agent], self.settings)
