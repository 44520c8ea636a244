"""The compromised agents: named by position or role, or drawn by seed. Only agents that discuss can be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from actors.errors import UserError
from actors.lookup import near_miss
from actors.messages import derive_seed
from experiments.attacks.catalogue import attack_kind
from experiments.attacks.kind import NONE
from experiments.attacks.settings import AttackSettings
from experiments.attacks.sleeper import Sleeper


def choose_attackers(settings: AttackSettings, agents: Sequence[str], seed: int) -> tuple[str, ...]:
    """Names of the compromised agents, in the team's order.

    For an attack on messages they are those whose messages are rewritten; none named means anybody's.
    Raises UserError for an attack or an agent that does not exist, an agent named twice, and numbers that make no
    sense.
    """
    kind = attack_kind(settings.kind)
    if settings.kind == NONE:
        return ()
    if settings.agents or kind.acts_on != "turns":
        # Without names, an attack on messages or evidence compromises nobody in particular.
        named = [_name(agent, agents) for agent in settings.agents]
    else:
        if not 1 <= settings.number <= len(agents):
            raise UserError(f"attack.number={settings.number}: expected 1 to {len(agents)}, as many as agents discuss")
        # An order by seed: a larger number adds attackers to those of a smaller one.
        named = sorted(agents, key=lambda name: derive_seed(seed, "attackers", name))[: settings.number]
    times = Counter(named)  # looked up below: a team may have a hundred thousand agents
    if twice := [name for name in agents if times[name] > 1]:
        raise UserError(f"attack.agents names {twice[0]} twice: name each agent once")
    # Last, since an attack checks the number of its attackers.
    kind(settings).check(named)
    # In the team's order, so that the order in `attack.agents` changes nothing.
    return tuple(name for name in agents if name in times)


def check_phases(settings: AttackSettings, rounds: int | None, questions: int | None) -> None:
    """Raises UserError where a sleeper would never wake: discussions have so many `rounds` and a phase so many
    `questions`, None where that is not known."""
    if settings.kind != Sleeper.name:
        return
    for name, begins, last in (
        ("from_round", settings.from_round, rounds),
        ("from_question", settings.from_question + 1, questions),
    ):
        if last is not None and begins > last:
            raise UserError(
                f"attack.{name}={getattr(settings, name)}: nobody would ever be attacked, as there are only {last} "
                f"{name.removeprefix('from_')}s; lower it"
            )


def _name(agent: object, agents: Sequence[str]) -> str:
    """The name of an agent given by position or by name."""
    if isinstance(agent, int) and not isinstance(agent, bool):  # True is an int as well
        if not 0 <= agent < len(agents):
            raise UserError(f"attack.agents: no agent at position {agent}; they go from 0 to {len(agents) - 1}")
        return agents[agent]
    if agent in agents:
        return str(agent)
    hint = near_miss(str(agent), agents)
    raise UserError(f"attack.agents: no agent {str(agent)!r} discusses.{hint} Known: {', '.join(agents)}")
