"""A testbed with known truth: it measures how well learners find harmful edges when every edge's effect is known.

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
from experiments.studies.planted.settings import Influence, PlantedSettings
from experiments.studies.planted.truth import Truth, best_reachable, random_wirings, true_effects, utility
from topologies.learning.learner import Learner
from topologies.learning.peers import VARIANTS, Peer
from topologies.learning.settings import LearnerSettings, PruningSettings
from topologies.topology import Wiring, needed_turns
from topologies.wiring import Bools, Edges, Floats, Wirings


@dataclass(frozen=True)
class World:
    """One team and its questions, both determined by `number`, with one adversary or none."""

    conformity: float
    distraction: float
    number: int
    adversary: int | None
    influence: Influence = Influence.ANSWERS


@dataclass(frozen=True)
class Outcome:
    """One learner, or one baseline, in one world.

    auc_adversary: probability that an edge of the adversary ranks below one of another agent, both to honest
    agents. auc_harmful, auc_costly: the same of all edges with a negative true effect, on the receiver or on the
    final answer. utility: mean over answers along the graph; share: its ratio to the best reachable. turns,
    readings: cost of one discussion (`price`). training: mean tokens of a training discussion; edges: left after
    it; wrongly: edges that were cut as certain to harm and help both their receiver and the final answer. regret:
    best reachable minus own utility, by the number of questions learned from. learner: an estimator, a peer, `full`
    (everyone hears everyone, in random orders), `by_hand` (the same without the adversary) or `best` (greedy
    removal by the true effects).
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
    training: float | None = None
    edges: int | None = None
    wrongly: int | None = None

    @property
    def tokens(self) -> int:
        """The cost in units of one message: a turn's own prompt counts as much as a message that it reads."""
        return self.turns + self.readings


def worlds(settings: PlantedSettings) -> list[World]:
    """All worlds to explore. Raises ValueError on settings that make no sense."""
    _check(settings)
    agents = settings.opinions.text + settings.opinions.visual
    return [
        World(conformity, distraction, number, number % agents if attacked else None, Influence(influence))
        for influence in settings.influences
        for conformity, distraction in settings.strengths[: None if influence == Influence.ANSWERS else 1]
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
    """Every baseline and every learner in one world; `learner` has the settings that are not a method's own."""
    opinions = replace(
        settings.opinions,
        conformity=world.conformity,
        distraction=world.distraction,
        influence=world.influence,
    )
    adversaries = [] if world.adversary is None else [world.adversary]
    # The seed does not depend on strengths or adversary, so worlds of one number have the same skills and questions.
    team = Team(opinions, derive_seed(seed, "planted", world.number), adversaries)
    truth = true_effects(team, settings.truth)
    best, best_utility = best_reachable(team, truth, settings.evaluated)
    # With chance 1 every edge is taken, in random speaking orders, as in a run before anything is learned.
    full = random_wirings(team, settings.evaluated, 0, chance=1.0)
    graphs = {"full": full, "by_hand": without(full, world.adversary), "best": best}

    def outcome(name: str, wirings: Wirings, p: Edges[Floats] | None = None, **measured: Any) -> Outcome:
        # Evaluated already.
        score = best_utility if name == "best" else utility(team, wirings, p, settings.evaluated)
        turns, readings = price(wirings)
        return Outcome(world, name, score, score / best_utility, turns, readings, **measured)

    outcomes = [outcome(name, wirings) for name, wirings in graphs.items()]
    learners = {str(peer): VARIANTS[Peer(peer)].settings(learner, pruning) for peer in settings.learners}
    for name, (learned, pruned) in learners.items():
        student = Learner(
            team.modalities,
            rounds=team.settings.rounds,
            seed=team.seed,
            settings=learned,
            pruning=pruned,
        )
        regret, spent = {}, []
        for used, tokens in learn(student, team, samples):
            spent.append(tokens)
            if used in settings.checkpoints:
                # On a copy, so that measuring changes nothing in the learning that goes on.
                now = stopped(student)
                graph, p = now.inference_wirings(), now.probabilities()
                regret[used] = best_utility - utility(team, graph, p, settings.evaluated)
        ranked = ranking(student.edge_scores(), truth, world.adversary)
        learned_from = {"training": float(np.mean(spent)), "edges": sum(student.edges_left().values())}
        measured = {**ranked, **learned_from, "wrongly": wrongly_cut(student, truth), "regret": regret}
        outcomes.append(outcome(name, student.inference_wirings(), student.probabilities(), **measured))
    return outcomes


def learn(learner: Learner, team: Team, samples: int) -> Iterator[tuple[int, float]]:
    """Learns all stages, one new question a step; yields the number of questions used after each, and the mean tokens
    of its discussions, in which every turn is taken."""
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
            # Before the yield, so that the state after the last question is that of a finished stage.
            if step + 1 == steps:
                learner.next_stage()
            edges = sum(int(taken.sum()) for taken in (wirings.spatial, wirings.temporal, wirings.decision))
            yield used, team.agents * team.settings.rounds + edges / samples


def stopped(learner: Learner) -> Learner:
    """A copy of a learner that ends its learning here, in any stage."""
    copy = Learner(
        learner.modalities, rounds=learner.rounds, seed=learner.seed, settings=learner.settings, pruning=learner.pruning
    )
    copy.load(learner.state())
    # Each `next_stage` prunes with the scores so far, as the end of a stage does.
    while not copy.finished:
        copy.next_stage()
    return copy


def wrongly_cut(learner: Learner, truth: Truth) -> int | None:
    """Edges that were cut as certain to harm, although they help their receiver and the final answer; None of a learner
    that is never certain."""
    cut = learner.certain_harm()
    if cut is None:
        return None
    return sum(
        int((sure & (receiver > 0) & (answer > 0)).sum())
        for sure, receiver, answer in zip(cut, truth.on_receiver, truth.on_answer, strict=True)
    )


def without(wirings: Wirings, agent: int | None) -> Wirings:
    """Copies of wirings in which nobody hears an agent, the decision agent included."""
    if agent is None:
        return wirings
    spatial, temporal, decision = wirings.spatial.copy(), wirings.temporal.copy(), wirings.decision.copy()
    spatial[:, :, agent], temporal[:, :, agent], decision[:, agent] = False, False, False
    return replace(wirings, spatial=spatial, temporal=temporal, decision=decision)


def price(wirings: Wirings) -> tuple[int, int]:
    """Turns taken in one discussion, and messages read in them and by the decision agent.

    A turn from which no path of messages and memories leads to the decision agent is not taken.
    """
    # The first stands for all: baselines and learned graphs differ between discussions in speaking order at most.
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
        # Edges to an adversary do nothing, because it hears nobody: they have no rank to be right about.
        compared[:, adversary] = False
        costs["auc_adversary"] = Edges(*[np.arange(agents)[:, None].repeat(agents, 1) == adversary] * 2)
    aucs = {
        name: [auc(score[bad & compared], score[~bad & compared]) for bad, score in zip(kinds, scores, strict=True)]
        for name, kinds in costs.items()
    }
    # A kind without harmful edges, or with nothing else, has no AUC and is left out.
    return {name: mean([value for value in values if value is not None]) for name, values in aucs.items()}


def mean(values: Sequence[float]) -> float | None:
    """The mean, or None of no values."""
    return float(np.mean(values)) if values else None


def _check(settings: PlantedSettings) -> None:
    # Two evaluated at least: half of them choose the best graph.
    least = {"seeds": 1, "truth": 1, "evaluated": 2}
    for name, smallest in least.items():
        if getattr(settings, name) < smallest:
            raise ValueError(f"planted {name} must be at least {smallest}, got {getattr(settings, name)}")
    if not settings.strengths or any(len(pair) != 2 or min(pair) < 0 for pair in settings.strengths):
        raise ValueError(f"planted strengths must be pairs of conformity and distraction, got {settings.strengths}")
