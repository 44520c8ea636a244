"""The choice of an attack."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from actors.settings import at_least
from actors.settings import share as a_share


@dataclass
class AttackSettings:
    """An attack and its attackers. `attack=response` is short for `attack.kind=response`."""

    kind: str = "none"
    """`none`, one of `attacks.catalogue.ATTACKS`, or one of your own as `package.module:Class`."""
    agents: list[Any] = field(default_factory=list)
    """Positions in the team (from 0) or role names, such as [0, visual_critic]; empty: `number` of them, by seed."""
    number: int = at_least(1, default=1)
    """The number of compromised agents where `agents` names none."""
    when: Literal["train", "evaluate", "both"] = "both"
    share: float = a_share(0.5)
    """tamper: the share of messages that are rewritten (of those that `agents` send, of all where it is empty)."""
    source: Literal["text", "image"] = "text"
    """poison: the kind of source that is planted, a passage or a picture of which there is only a caption."""
    from_round: int = at_least(1, default=2)
    """sleeper: the first round in which it is no longer honest ..."""
    from_question: int = at_least(0, default=0)
    """... and the number of questions of a phase that it answers honestly first."""
