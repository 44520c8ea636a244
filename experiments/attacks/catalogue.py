"""The attacks that a configuration can name."""

from __future__ import annotations

from functools import cache

from actors.errors import UserError
from actors.lookup import find
from experiments.attacks.collude import Collude
from experiments.attacks.contagion import Contagion
from experiments.attacks.input import Input
from experiments.attacks.kind import AttackKind
from experiments.attacks.poison import Poison
from experiments.attacks.response import Response
from experiments.attacks.sleeper import Sleeper
from experiments.attacks.tamper import Tamper

ATTACKS: tuple[type[AttackKind], ...] = (AttackKind, Input, Response, Collude, Sleeper, Tamper, Poison, Contagion)


@cache  # the measures of every attacked discussion look it up
def attack_kind(name: str) -> type[AttackKind]:
    """The attack of a name: one of `ATTACKS`, an installed package's, or `package.module:Class`.

    Raises UserError, with the nearest name, when there is none.
    """
    kind = find(name, {kind.name: kind for kind in ATTACKS}, "attacks", "attack")
    if not (isinstance(kind, type) and issubclass(kind, AttackKind)):
        raise UserError(f"attack={name} is no subclass of experiments.attacks.kind.AttackKind")
    return kind
