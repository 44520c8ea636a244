"""Who is compromised: named by position or role, or drawn by seed. Only agents that discuss can be."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from actors.errors import UserError
from actors.messages import derive_seed
from experiments.attacks.settings import AttackSettings

UNDER_ORDERS = ("input", "response", "collude", "sleeper", "contagion")


def choose_attackers(settings: AttackSettings, agents: Sequence[str], seed: int) -> tuple[str, ...]:
    """Names of the compromised agents, in the team's order.

    For `tamper` they are those whose messages are rewritten on their way, nobody's in particular if none is named.
    Raises UserError for an agent that is not there or named twice, and for numbers that make no sense.
    """
    if settings.kind == "none":
        return ()
    if not 0 <= settings.rate <= 1:
        raise UserError(f"attack.rate={settings.rate}: expected a number from 0 to 1")
    if settings.kind == "poison" and settings.agents:
        raise UserError("attack=poison plants a source that every agent of its modality reads: leave attack.agents out")
    if settings.agents or settings.kind not in UNDER_ORDERS:
        named = [_name(wanted, agents) for wanted in settings.agents]
    else:
        if not 1 <= settings.number <= len(agents):
            raise UserError(f"attack.number={settings.number}: expected 1 to {len(agents)}, as many as agents discuss")
        named = sorted(agents, key=lambda name: derive_seed(seed, "attackers", name))[: settings.number]
    if twice := [name for name in agents if named.count(name) > 1]:
        raise UserError(f"attack.agents names {twice[0]} twice: name each agent once")
    if settings.kind == "collude" and len(named) < 2:
        raise UserError("attack=collude needs two agents at least: set attack.number=2, or name two in attack.agents")
    return tuple(name for name in agents if name in named)


def _name(wanted: object, agents: Sequence[str]) -> str:
    if isinstance(wanted, int) and not isinstance(wanted, bool):
        if not 0 <= wanted < len(agents):
            raise UserError(f"attack.agents: no agent at position {wanted}; they go from 0 to {len(agents) - 1}")
        return agents[wanted]
    if wanted in agents:
        return str(wanted)
    near = difflib.get_close_matches(str(wanted), agents, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise UserError(f"attack.agents: no agent {str(wanted)!r} discusses.{hint} Known: {', '.join(agents)}")
