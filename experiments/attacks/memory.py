"""Memory injection: a turn that an agent never took and believes it did."""

from __future__ import annotations

from dataclasses import replace

from actors.errors import UserError
from actors.messages import Message, Turn
from experiments.attacks.kind import AttackContext, AttackKind
from experiments.attacks.persuasion import CLAIM, CONFIDENCE


class Memory(AttackKind):
    """Memory injection: agents whose first turn is replaced in their memory by one that states the target.

    The attacker writes once into the memory of the compromised agents, after the first round, and is told the target,
    not the gold. It sees and changes no message: colleagues heard what the agent really said, and the agent has no
    instruction. Follows MINJA (arXiv 2503.03704), which gets there by queries alone; here write access is given.
    """

    name = "memory"
    acts_on = "memory"

    def check_phases(self, rounds: int | None, questions: int | None) -> None:
        if rounds == 1:
            raise UserError("attack=memory needs a second round, in which agents remember: set topology.rounds=2")

    def change(self, turn: Turn, context: AttackContext) -> Turn:
        said = CLAIM.format(target=context.target)
        planted = Message(f"1/{turn.agent}", turn.agent, 1, said, context.target, CONFIDENCE)
        return replace(turn, memories=(planted,)) if turn.round > 1 else turn
