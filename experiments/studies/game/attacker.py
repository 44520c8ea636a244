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
    defaults = asdict(AttackSettings(settings.kind, when=settings.when))
    parts = [settings.kind]
    for name, value in asdict(settings).items():
        if value != defaults[name]:
            parts.append(f"{name}{value}")
    return re.sub(r"[^\w.]+", "-", "-".join(parts)).strip("-")


def without_search(plan: Plan) -> list[AttackSettings]:
    """Returns a game's attacks, by agents that the run's seed draws. Raises UserError for one that cannot be."""
    config = plan.config
    agents = plan.roles.attackable
    attackers = choose_attackers(AttackSettings("response", number=config.game.number), agents, config.seed)
    places = [agents.index(name) for name in attackers]
    attacks = []
    for name in config.game.attacks:
        attack = AttackSettings(name, places, when="evaluate")
        choose_attackers(attack, agents, config.seed)
        attack_kind(name)(attack).check_phases(config.topology.rounds, None)
        attacks.append(attack)
    return attacks


def moves(plan: Plan, settings: AttackSettings) -> Iterator[AttackSettings]:
    """Yields the settings with another value of each effective one, within the same budget."""
    number = plan.config.game.number
    team = range(len(plan.roles.attackable))
    values: dict[str, Sequence[Any]] = {
        "agents": [list(team[start : start + number]) for start in range(len(team) - number + 1)],
        "from_round": range(1, plan.config.topology.rounds + 1),
        "target": range(3),
        "confidence": (0.6, 1.0),
        "share": (1.0,),
        # The embedded reader takes a directive in place of an appeal.
        "phrasing": () if plan.asks_reader else tuple(APPEALS),
    }
    for name, setting_values in values.items():
        if f"attack.{name}" in attack_kind(settings.kind).reads:
            for value in setting_values:
                yield replace(settings, **{name: value})
    for attack in without_search(plan):
        yield replace(attack, agents=settings.agents)


async def best_response(
    plan: Plan, start: AttackSettings, utility: Callable[[AttackSettings], Awaitable[float]]
) -> tuple[AttackSettings, float]:
    """Finds settings of least utility by local search. It ends where no move improves, or after `game.tries`."""
    best = start
    least_utility = await utility(start)
    labels = {label(start)}
    candidates = moves(plan, start)
    while len(labels) <= plan.config.game.tries:
        candidate = next(candidates, None)
        if candidate is None:
            break
        if label(candidate) in labels:
            continue
        labels.add(label(candidate))
        candidate_utility = await utility(candidate)
        if candidate_utility < least_utility:
            best = candidate
            least_utility = candidate_utility
            candidates = moves(plan, candidate)
    return best, least_utility
