"""Worlds in which it is known whether a team gains anything over one agent with its tokens, and over a placebo.

A discussion is right or wrong as a whole, with the probability of its question, and a team's with a larger one where
the world has a gain. Questions differ, so that the scores of a method and of its controls are correlated, as in runs.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from actors.messages import Message, Question, Trace, Turn, derive_seed
from experiments.analysis.paired import paired_tests
from experiments.analysis.run_facts import Metrics
from experiments.config.setting_groups import CompareSettings
from topologies.baselines import complete_wiring
from topologies.controls.placebo import Placebo, substitutes
from topologies.controls.twin import Twin, tokens_of
from topologies.topology import Renamed, Topology, Wired
from topologies.wiring import Floats

TEAM, TWIN, PLACEBO = "team", "team-twin", "team-placebo"


@dataclass(frozen=True)
class World:
    """What a discussion gains in the probability of being right: by hearing its own messages, and by hearing any.

    spread: concentration of the beta distribution of the questions' probabilities, whose mean is .4.
    """

    own: float = 0.0
    any: float = 0.0
    spread: float = 1.0

    def chances(self, questions: int, seed: int) -> Floats:
        """Draws the probability of each question."""
        return np.random.default_rng(derive_seed(seed, "chances")).beta(0.4 * self.spread, 0.6 * self.spread, questions)


def drawn_scores(world: World, questions: int, seed: int) -> dict[str, dict[str, float]]:
    """Draws the scores of a method and its controls, by method and question."""
    chances, draws = world.chances(questions, seed), np.random.default_rng(derive_seed(seed, "scores"))
    gains = {TEAM: world.own + world.any, TWIN: 0.0, PLACEBO: world.any}
    right = {name: (draws.random(questions) < chances + gain).astype(float) for name, gain in gains.items()}
    return {name: {f"q{number}": score for number, score in enumerate(of.tolist())} for name, of in right.items()}


def gains(scores: Mapping[str, Mapping[str, float]], seed: int) -> tuple[Metrics, Metrics]:
    """The tests of the coordination gain and of the hearing gain, as a run's metrics.json has them."""
    answers = {name: pd.DataFrame({"utility": pd.Series(of), "cluster": list(of)}) for name, of in scores.items()}
    coordination, hearing = paired_tests(
        answers, [(TEAM, TWIN), (TEAM, PLACEBO)], seed, "gains", CompareSettings.margin
    ).values()
    return coordination, hearing


def discussions(world: World, questions: int, seed: int) -> dict[str, list[Trace]]:
    """Holds the discussions of a team of three, of its twin and of its placebo, by their own topologies."""
    chances = world.chances(questions, seed).tolist()
    asked = [Question(f"q{number}", "When?") for number in range(questions)]
    team = Wired(TEAM, ("a", "b", "c"), complete_wiring(3, 1))

    async def ask(turn: Turn) -> Message:
        method, question, _ = turn.discussion.split("/")
        # A message of another question has that question in its id.
        own, foreign = (any((h.message.id.count("/") > 1) is there for h in turn.heard) for there in (False, True))
        chance = chances[int(question[1:])] + world.any * (own or foreign) + world.own * own
        answer = "right" if derive_seed(seed, method, question) / 2**63 < chance else "wrong"
        tokens = derive_seed(turn.seed, "tokens") % 300
        return Message(
            *(f"{turn.round}/{turn.agent}", turn.agent, turn.round, "word " * (tokens // 10), answer, 0.5),
            prompt_tokens=500 + 200 * len(turn.heard),
            completion_tokens=tokens,
        )

    async def unchanged(question: Question) -> Question:
        return question

    async def answers(topology: Topology) -> Sequence[Trace]:
        return [await topology.answer(question, ask, seed) for question in asked]

    async def hold() -> dict[str, list[Trace]]:
        method = await answers(team)
        tokens = {trace.question: tokens_of(trace.turns) for trace in method}
        controls = Twin(TWIN, tokens, {}, unchanged), Renamed(Placebo(team, substitutes(method, seed)), PLACEBO)
        return {topology.method: list(await answers(topology)) for topology in (team, *controls)}

    return asyncio.run(hold())
