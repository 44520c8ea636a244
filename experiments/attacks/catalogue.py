"""Attacks that a configuration can name."""

from functools import cache

from actors.errors import UserError
from actors.lookup import find
from experiments.attacks.arguing import Collude, Contagion, Late, Response, Sabotage, Sleeper
from experiments.attacks.input_and_memory import Input, Memory
from experiments.attacks.kind import AttackKind, NoAttack
from experiments.attacks.poison import Corpus, Picture, Poison
from experiments.attacks.transit import Delay, Drop, Duplicate, Impersonate, Misroute, Tamper

# In the order of `help=attacks`.
ATTACKS: tuple[type[AttackKind], ...] = (
    NoAttack,
    Input,
    Response,
    Collude,
    Sleeper,
    Late,
    Sabotage,
    Contagion,
    Memory,
    Tamper,
    Impersonate,
    Drop,
    Delay,
    Duplicate,
    Misroute,
    Poison,
    Corpus,
    Picture,
)


@cache  # the measures of every attacked discussion look it up
def attack_kind(name: str) -> type[AttackKind]:
    """Finds an attack: one of `ATTACKS`, an installed package's, or `package.module:Class`. Raises UserError."""
    kind = find(name, {kind.name: kind for kind in ATTACKS}, "attacks", "attack")
    if not (isinstance(kind, type) and issubclass(kind, AttackKind)):
        raise UserError(f"attack={name} is no subclass of experiments.attacks.kind.AttackKind")
    return kind
