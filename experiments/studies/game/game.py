"""Plays attacks against defences. The game is solved on training questions and judged on evaluated ones."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from actors.messages import derive_seed
from experiments.analysis.rounding import rounded
from experiments.analysis.run_facts import Metrics
from experiments.analysis.scores import by_method
from experiments.analysis.worst_case import solve, worst_cases
from experiments.attacks.kind import AttackSettings
from experiments.datasets.item import Item
from experiments.running.evaluation import evaluate
from experiments.running.run_context import RunContext
from experiments.studies.game.attacker import best_response, label, without_search
from topologies.topology import Renamed, Topology
from topologies.wiring import Floats

ROUNDS = 3  # most best responses to the mix of defences that enter the game
TOLERANCE = 0.02  # least gain of one that enters


class Matches:
    """Utilities of defences under attacks, on the same questions. What a killed run has recorded is not done again.

    prefix: begins the names of the evaluations. failed: utility of an answer with a failed turn.
    """

    def __init__(self, context: RunContext, items: Sequence[Item], prefix: str, failed: float) -> None:
        self._context = context
        self._items = items
        self._prefix = prefix
        self._failed = failed
        self._evaluated: set[str] = set()

    async def utilities(self, defences: Sequence[Topology], attacks: Sequence[AttackSettings]) -> Floats:
        """Plays every defence against every attack, float [defences, attacks, items]."""
        names = []
        with self._context.usage.phase("playing"):
            for defence in defences:
                for attack in attacks:
                    names.append(f"{self._prefix}{defence.method}.{label(attack)}")
                    await self._evaluate(names[-1], defence, attack)
        answers = by_method(self._context.recorder.run, failed=True)
        utilities = [answers[name]["utility"].mask(answers[name]["failed_calls"] > 0, self._failed) for name in names]
        return np.array(utilities).reshape(len(defences), len(attacks), -1)

    async def _evaluate(self, name: str, defence: Topology, attack: AttackSettings) -> None:
        if name not in self._evaluated:
            context = replace(self._context, attack=self._context.attack.under(attack))
            await evaluate(Renamed(defence, name), context, self._items, counted=False)
            self._evaluated.add(name)


async def play(context: RunContext, defences: Sequence[Topology], training_items: Sequence[Item]) -> Metrics:
    """Returns the content of game.json."""
    # A failed turn is no gain for an attacker in training, and no answer in the evaluation.
    training = Matches(context, training_items, "train.", failed=1.0)
    evaluation = Matches(context, list(context.dataset.evaluate()), "", failed=np.nan)

    async def respond(mix: Floats, start: AttackSettings) -> tuple[AttackSettings, float]:
        """Finds the best response in training to a mix of defences, float [defences], and the utility left."""
        mixed = [defence for defence, share in zip(defences, mix, strict=True) if share]

        async def utility(attack: AttackSettings) -> float:
            utilities = await training.utilities(mixed, [attack])
            return float(mix[mix > 0] @ utilities.mean(axis=(1, 2)))

        return await best_response(context.plan, start, utility)

    attacks = without_search(context.plan)
    trained = (await training.utilities(defences, attacks)).mean(axis=2)
    # Double oracle (McMahan et al. 2003): the best response to the mix enters the game until it gains no more.
    for number in range(ROUNDS + 1):
        value, shares, attack_shares = solve(trained)
        response, utility = await respond(shares, attacks[int((shares @ trained).argmin())])
        if value - utility < TOLERANCE or number == ROUNDS:
            break
        attacks.append(response)
        response_utilities = await training.utilities(defences, [response])
        trained = np.hstack([trained, response_utilities.mean(axis=2)])

    adaptive = []
    for number, defence_alone in enumerate(np.eye(len(defences))):
        adaptive_attack, _ = await respond(defence_alone, attacks[int(trained[number].argmin())])
        adaptive.append(adaptive_attack)
    # In this order, which is that of the records.
    utilities = await evaluation.utilities(defences, [AttackSettings(), *attacks, response])
    adaptive_utilities = []
    for defence, attack in zip(defences, adaptive, strict=True):
        adaptive_utilities.append(await evaluation.utilities([defence], [attack]))

    *against_mix, against_response = (shares @ np.nanmean(utilities, axis=2))[1:]
    mixed_value = attack_shares @ against_mix
    # The last column is each defence under its own best response, in place of the one to the mix.
    utilities[:, -1:] = np.concatenate(adaptive_utilities)
    names = ["none", *map(label, attacks), "adaptive"]
    rows = _defence_rows(defences, names, utilities, derive_seed(context.config.seed, "game"))
    usual = trained[:, : len(context.config.game.attacks)].argmin(axis=1) + 1
    for number, row in enumerate(rows.values()):
        row["share"] = shares[number]
        row["response"] = label(adaptive[number])
        row["usual"] = names[usual[number]]
        row["gain"] = row["utilities"][row["usual"]] - row["utilities"]["adaptive"]
    game = {
        "trained": value,
        "value": mixed_value,
        "response": label(response),
        "gain": np.mean([row["gain"] for row in rows.values()]),
        "exploitability": mixed_value - against_response,
        "attacks": dict(zip(names[1:-1], attack_shares, strict=True)),
        "defences": rows,
    }
    return dict(rounded(game))


def _defence_rows(
    defences: Sequence[Topology], names: Sequence[str], utilities: Floats, seed: int
) -> dict[str, dict[str, Any]]:
    """Makes a row per defence: its mean utility without an attack and under each, and its worst case."""
    means = np.nanmean(utilities, axis=2)
    worst = worst_cases(utilities[:, 1:, None], seed)
    rows = {}
    for defence, defence_means, case in zip(defences, means, worst, strict=True):
        rows[defence.method] = {
            "utilities": dict(zip(names, defence_means, strict=True)),
            "worst": case.mean,
            "ci95": case.ci95,
        }
    return rows
