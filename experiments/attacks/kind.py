"""The protocol of an attack: its threat model, and what it changes of a discussion."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from actors.messages import Message, Question, Turn
from experiments.attacks.settings import AttackSettings

NONE = "none"


@dataclass(frozen=True, slots=True)
class AttackContext:
    """An attack's knowledge of the discussion that it attacks. The gold answer is no part of it.

    target: the wrong answer that the attack is after; empty for an attack that is after none.
    attackers: names of the compromised agents, in the team's order.
    own_targets: a wrong answer for each of them, where the attack has `several_targets`.
    number: the question's position among those of the phase, from 0.
    """

    target: str
    attackers: tuple[str, ...]
    number: int
    seed: int
    own_targets: Mapping[str, str] = field(default_factory=dict)


class AttackKind:
    """No attack.

    The base of all: a subclass says in its docstring what the attacker sees and what it changes.

    name: as in the configuration and in traces.
    acts_on: `turns` of the agents under its control, `messages` of everybody on the wire, or `evidence`.
    aimed: whether it is after a wrong answer; without one there is no success rate.
    several_targets: whether each compromised agent argues for a wrong answer of its own.
    spreads: whether agents that are not compromised may pass it on.
    reads: names of the settings of its own that it goes by.
    """

    name: ClassVar[str] = NONE
    acts_on: ClassVar[Literal["turns", "messages", "evidence"]] = "turns"
    aimed: ClassVar[bool] = True
    several_targets: ClassVar[bool] = False
    spreads: ClassVar[bool] = False
    reads: ClassVar[tuple[str, ...]] = ()

    def __init__(self, settings: AttackSettings) -> None:
        self.settings = settings

    def check(self, attackers: Sequence[str]) -> None:
        """Raises UserError for settings, or a number of attackers, that make no sense."""

    def change(self, turn: Turn, context: AttackContext) -> Turn:
        """The turn as it is taken; only turns of compromised agents come here, unless the attack is on the wire."""
        return turn

    def evidence(self, question: Question, context: AttackContext) -> Question:
        """The question with the evidence that the discussion is given."""
        return question

    @staticmethod
    def carries(message: Message, target: str) -> bool:
        """True for a message that passes the attack on."""
        return False
