"""The attacks that a configuration can name."""

from __future__ import annotations

from functools import cache

from actors.errors import UserError
from actors.lookup import find
from experiments.attacks import collude, contagion, input, memory, poison, response, sleeper, transit
from experiments.attacks.kind import AttackKind

# In the order of `help=attacks`.
ATTACKS: tuple[type[AttackKind], ...] = (
    AttackKind,
    input.Input,
    response.Response,
    collude.Collude,
    sleeper.Sleeper,
    memory.Memory,
    transit.Tamper,
    transit.Drop,
    transit.Delay,
    transit.Duplicate,
    transit.Misroute,
    transit.Impersonate,
    poison.Poison,
    contagion.Contagion,
)


@cache  # the measures of every attacked discussion look it up
def attack_kind(name: str) -> type[AttackKind]:
    """Finds an attack: one of `ATTACKS`, an installed package's, or `package.module:Class`. Raises UserError."""
    kind = find(name, {kind.name: kind for kind in ATTACKS}, "attacks", "attack")
    if not (isinstance(kind, type) and issubclass(kind, AttackKind)):
        raise UserError(f"attack={name} is no subclass of experiments.attacks.kind.AttackKind")
    return kind
