"""A testbed with known truth: how well learners find harmful edges of teams whose every edge's effect is known.

Teams of the opinion model (opinions.py), with an adversary at every position in turn and without one, over several
strengths of conformity and distraction. True effects come from a randomised run far larger than a learner's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from actors.messages import derive_seed
from experiments.metrics.ranking import auc
from experiments.studies.planted.opinions import Team
from experiments.studies.planted.settings import PlantedSettings
from experiments.studies.planted.truth import Truth, best_reachable, random_wirings, true_effects, utility
from topologies.learning.learner import Learner
from topologies.learning.peers import VARIANTS
from topologies.learning.settings import LearnerSettings, PruningSettings
from topologies.topology import Wiring, needed_turns
from topologies.wiring import Bools, Edges, Floats, Wirings


@dataclass(frozen=True)
class World:
    """One team and its questions, all of it from `number`, with one adversary or none."""

    conformity: float
    distraction: float
    number: int
    adversary: int | None


@dataclass(frozen=True)
class Outcome:
    """One learner, or one baseline, in one world.

    auc_adversary: how surely one of the adversary's edges ranks below another's, both to honest agents.
    auc_harmful, auc_costly: the same of all edges with a negative true effect, on the receiver or on the final answer.
    utility: of answers along the graph; share: of the best reachable utility. turns, readings: what one discussion
    takes (`price`). regret: best reachable minus own utility, had learning stopped after so many questions.
    learner: an estimator, a peer, `full` (everyone hears everyone, in random orders), `by_hand` (the same without the
    adversary) or `best` (greedy removal by the true effects).
    """

    world: World
    learner: str
    utility: float
    share: float
    turns: int
    readings: int
    auc_adversary: float | None = None
    auc_harmful: float | None = None
    auc_costly: float | None = None
    regret: dict[int, float] = field(default_factory=dict)

    @property
    def tokens(self) -> int:
        """In units of one message: a turn's own prompt counts as much as a message that it reads."""
        return self.turns + self.readings


def worlds(settings: PlantedSettings) -> list[World]:
    """All that are to be explored. Raises ValueError on settings that make no sense."""
    _check(settings)
    agents = settings.opinions.text + settings.opinions.visual
    return [
        World(conformity, distraction, number, number % agents if attacked else None)
        for conformity, distraction in settings.strengths
        for attacked in (True, False)
        for number in range(settings.seeds)
    ]


def explore(
    world: World,
    settings: PlantedSettings,
    learner: LearnerSettings,
    pruning: PruningSettings,
    samples: int = 10,
    seed: int = 0,
) -> list[Outcome]:
    """Every baseline and every learner in one world; `learner` says how they learn, all but the estimator."""
    opinions = replace(settings.opinions, conformity=world.conformity, distraction=world.distraction)
    adversaries = [] if world.adversary is None else [world.adversary]
    team = Team(opinions, derive_seed(seed, "planted", world.number), adversaries)
    truth = true_effects(team, settings.truth)
    best, best_utility = best_reachable(team, truth, settings.evaluated)
    full = random_wirings(team, settings.evaluated, 0, chance=1.0)
    graphs = {"full": full, "by_hand": without(full, world.adversary), "best": best}

    def outcome(name: str, wirings: Wirings, p: Edges[Floats] | None = None, **measured: Any) -> Outcome:
        score = best_utility if name == "best" else utility(team, wirings, p, settings.evaluated)
        turns, readings = price(wirings)
        return Outcome(world, name, score, score / best_utility, turns, readings, **measured)

    outcomes = [outcome(name, wirings) for name, wirings in graphs.items()]
    learners = {str(estimator): (replace(learner, estimator=estimator), pruning) for estimator in settings.estimators}
    learners |= {str(peer): VARIANTS[peer].settings(learner, pruning) for peer in settings.peers}
    for name, (learned, pruned) in learners.items():
        student = Learner(
            team.modalities,
            rounds=team.settings.rounds,
            seed=team.seed,
            settings=learned,
            pruning=pruned,
        )
        regret = {}
        for used in learn(student, team, samples):
            if used in settings.checkpoints:
                now = stopped(student)
                graph, p = now.inference_wirings(), now.probabilities()
                regret[used] = best_utility - utility(team, graph, p, settings.evaluated)
        ranked = ranking(student.edge_scores(), truth, world.adversary)
        outcomes.append(outcome(name, student.inference_wirings(), student.probabilities(), **ranked, regret=regret))
    return outcomes


def learn(learner: Learner, team: Team, samples: int) -> Iterator[int]:
    """All stages on questions of their own, one question a step; yields the number of questions used after each."""
    used = 0
    while not learner.finished:
        steps = learner.pruning.steps
        questions = team.questions(steps, "learning", learner.stage)
        for step in range(steps):
            wirings = learner.sample(samples)
            index = torch.full((samples,), step)
            scores, utilities = team.discuss(questions, index, wirings, learner.chances())
            learner.learn(wirings, scores.numpy(), utilities.numpy())
            used += 1
            if step + 1 == steps:
                learner.next_stage()
            yield used


def stopped(learner: Learner) -> Learner:
    """A copy of a learner whose learning ends here, whatever its stage."""
    copy = Learner(
        learner.modalities, rounds=learner.rounds, seed=learner.seed, settings=learner.settings, pruning=learner.pruning
    )
    copy.load(learner.state())
    while not copy.finished:
        copy.next_stage()
    return copy


def without(wirings: Wirings, agent: int | None) -> Wirings:
    """The same wirings in which nobody hears an agent, the decision agent included."""
    if agent is None:
        return wirings
    spatial, temporal, decision = wirings.spatial.copy(), wirings.temporal.copy(), wirings.decision.copy()
    spatial[:, :, agent], temporal[:, :, agent], decision[:, agent] = False, False, False
    return replace(wirings, spatial=spatial, temporal=temporal, decision=decision)


def price(wirings: Wirings) -> tuple[int, int]:
    """Turns taken in one discussion, and messages read in them and by the decision agent.

    A turn from which no path of messages and memories leads to the decision agent is not taken.
    """
    wiring = Wiring(wirings.spatial[0], wirings.temporal[0], wirings.decision[0])
    taken = needed_turns(wiring)
    heard = sum(int((edges & taken[:, None, :]).sum()) for edges in (wiring.spatial, wiring.temporal))
    return int(taken.sum()), heard + int(wiring.decision.sum())


def ranking(scores: Edges[Floats], truth: Truth, adversary: int | None) -> dict[str, float | None]:
    """The three AUCs of an `Outcome`, each the mean over kinds of edges."""
    agents = len(scores.spatial)
    other = ~np.eye(agents, dtype=bool)
    costs: dict[str, Edges[Bools]] = {
        "auc_harmful": Edges(*(effect < 0 for effect in truth.on_receiver)),
        "auc_costly": Edges(*(effect < 0 for effect in truth.on_answer)),
    }
    compared = other.copy()
    if adversary is not None:
        compared[:, adversary] = False
        costs["auc_adversary"] = Edges(*[np.arange(agents)[:, None].repeat(agents, 1) == adversary] * 2)
    aucs = {
        name: [auc(score[bad & compared], score[~bad & compared]) for bad, score in zip(kinds, scores, strict=True)]
        for name, kinds in costs.items()
    }
    return {name: mean([value for value in values if value is not None]) for name, values in aucs.items()}


def mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None


def _check(settings: PlantedSettings) -> None:
    least = {"seeds": 1, "truth": 1, "evaluated": 2}
    for name, smallest in least.items():
        if getattr(settings, name) < smallest:
            raise ValueError(f"planted {name} must be at least {smallest}, got {getattr(settings, name)}")
    if not settings.strengths or any(len(pair) != 2 or min(pair) < 0 for pair in settings.strengths):
        raise ValueError(f"planted strengths must be pairs of conformity and distraction, got {settings.strengths}")
