"""Adaptive attacker: searches its budget for the most harm to a defence."""

import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import asdict, replace
from typing import Any

from experiments.attacks.attack import choose_attackers
from experiments.attacks.catalogue import attack_kind
from experiments.attacks.kind import AttackSettings
from experiments.attacks.persuasion import APPEALS
from experiments.planning.plan import Plan


def label(settings: AttackSettings) -> str:
    """Names settings by their kind and what differs from the defaults. Its characters fit a file's name."""
    usual = asdict(AttackSettings(settings.kind, when=settings.when))
    changed = [f"{name}{value}" for name, value in asdict(settings).items() if value != usual[name]]
    return re.sub(r"[^\w.]+", "-", "-".join([settings.kind, *changed])).strip("-")


def without_search(plan: Plan) -> list[AttackSettings]:
    """Returns a game's attacks, by agents that the run's seed draws. Raises UserError for one that cannot be."""
    agents, config = plan.roles.attackable, plan.config
    drawn = choose_attackers(AttackSettings("response", number=config.game.number), agents, config.seed)
    places, attacks = [agents.index(name) for name in drawn], []
    for name in config.game.attacks:
        attacks.append(AttackSettings(name, places, when="evaluate"))
        choose_attackers(attacks[-1], agents, config.seed)
        attack_kind(name)(attacks[-1]).check_phases(config.topology.rounds, None)
    return attacks


def moves(plan: Plan, settings: AttackSettings) -> Iterator[AttackSettings]:
    """Yields the settings with another value of each effective one, within the same budget."""
    number, team = plan.config.game.number, range(len(plan.roles.attackable))
    values: dict[str, Sequence[Any]] = {
        "agents": [list(team[first : first + number]) for first in team[: len(team) - number + 1]],
        "from_round": range(1, plan.config.topology.rounds + 1),
        "target": range(3),
        "confidence": (0.6, 1.0),
        "share": (1.0,),
        # The embedded reader takes a directive in place of an appeal.
        "phrasing": () if plan.asks_reader else tuple(APPEALS),
    }
    for name, value in ((name, value) for name, of in values.items() for value in of):
        moved = replace(settings, **{name: value})
        if f"attack.{name}" in attack_kind(settings.kind).reads:
            yield moved
    yield from (replace(other, agents=settings.agents) for other in without_search(plan))


async def best_response(
    plan: Plan, start: AttackSettings, utility: Callable[[AttackSettings], Awaitable[float]]
) -> tuple[AttackSettings, float]:
    """Finds settings of least utility by local search. It ends where no move improves, or after `game.tries`."""
    best, least, tried, moving = start, await utility(start), {label(start)}, moves(plan, start)
    while len(tried) <= plan.config.game.tries and (candidate := next(moving, None)):
        if label(candidate) not in tried:
            tried.add(label(candidate))
            if (found := await utility(candidate)) < least:
                best, least, moving = candidate, found, moves(plan, candidate)
    return best, least
