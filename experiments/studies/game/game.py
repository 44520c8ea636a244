"""Plays attacks against defences. The game is solved on training questions and judged on evaluated ones."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import numpy as np

from actors.messages import derive_seed
from experiments.analysis.rounding import rounded
from experiments.analysis.run_facts import Metrics
from experiments.analysis.scores import by_method
from experiments.analysis.worst_case import solve, worst_cases
from experiments.attacks.kind import AttackSettings
from experiments.datasets.item import Item
from experiments.running.discussions import Discussions
from experiments.running.evaluation import evaluate
from experiments.studies.game.attacker import best_response, label, without_search
from topologies.topology import Renamed, Topology
from topologies.wiring import Floats

ROUNDS, TOLERANCE = 3, 0.02  # most best responses to the mix of defences that enter the game, and their least gain


async def play(discussions: Discussions, defences: Sequence[Topology], training: Sequence[Item]) -> Metrics:
    """Returns the content of game.json. What a killed run has recorded is not done again."""
    context, done, evaluated = discussions.context, set[str](), list(discussions.context.dataset.evaluate())

    async def utilities(attacks: Sequence[AttackSettings], items: Sequence[Item], *places: int) -> Floats:
        """Utilities, float [defences, attacks, items]. A failed turn is NaN, in training 1: no gain."""
        asked, names = [defences[n] for n in places or range(len(defences))], []
        with context.usage.phase("playing"):
            for defence, by in product(asked, map(context.attack.under, attacks)):
                names.append(f"{'train.' * (items is training)}{defence.method}.{label(by.settings)}")
                if names[-1] not in done:
                    own = replace(context, attack=by)
                    await evaluate(Renamed(defence, names[-1]), own, items, counted=False)
                    done.add(names[-1])
        recorded, lost = by_method(context.recorder.run, failed=True), 1.0 if items is training else np.nan
        found = [recorded[name]["utility"].mask(recorded[name]["failed_calls"] > 0, lost) for name in names]
        return np.array(found).reshape(len(asked), len(attacks), -1)

    async def respond(mix: Floats, start: AttackSettings) -> tuple[AttackSettings, float]:
        """Finds the best response in training to a mix of defences, float [defences], and the utility left."""
        asked = np.flatnonzero(mix).tolist()

        async def utility(attack: AttackSettings) -> float:
            return float(mix[asked] @ (await utilities([attack], training, *asked)).mean(axis=(1, 2)))

        return await best_response(context.plan, start, utility)

    attacks = without_search(context.plan)
    trained = (await utilities(attacks, training)).mean(axis=2)
    # Double oracle (McMahan et al. 2003): the best response to the mix enters the game until it gains no more.
    for number in range(ROUNDS + 1):
        value, shares, mix = solve(trained)
        response, least = await respond(shares, attacks[int((shares @ trained).argmin())])
        if value - least < TOLERANCE or number == ROUNDS:
            break
        attacks.append(response)
        trained = np.hstack([trained, (await utilities([response], training)).mean(axis=2)])
    best, usual = trained.argmin(axis=1), trained[:, : len(context.config.game.attacks)].argmin(axis=1) + 1
    adaptive = [(await respond(alone, attacks[best[n]]))[0] for n, alone in enumerate(np.eye(len(defences)))]
    held = await utilities([AttackSettings(), *attacks, response], evaluated)
    own = np.concatenate([await utilities([by], evaluated, n) for n, by in enumerate(adaptive)])
    names, played = ["none", *map(label, attacks), "adaptive"], np.concatenate([held[:, :-1], own], axis=1)
    means, against = np.nanmean(played, axis=2), shares @ np.nanmean(held, axis=2)
    worst = worst_cases(played[:, 1:, None], derive_seed(context.config.seed, "game"))
    gains = means[np.arange(len(usual)), usual] - means[:, -1]
    rows = {
        defence.method: {
            "utilities": dict(zip(names, means[n], strict=True)),
            "worst": worst[n].mean,
            "ci95": worst[n].ci95,
            "share": shares[n],
            "response": label(adaptive[n]),
            "usual": names[usual[n]],
            "gain": gains[n],
        }
        for n, defence in enumerate(defences)
    }
    found = {"trained": value, "value": mix @ against[1:-1], "response": label(response), "gain": gains.mean()}
    found |= {"exploitability": found["value"] - against[-1], "attacks": dict(zip(names[1:-1], mix, strict=True))}
    return dict(rounded({**found, "defences": rows}))
