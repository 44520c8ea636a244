"""A testbed with known truth: it measures how well learners find harmful edges when every edge's effect is known.

Teams of the opinion model (opinions.py), with an adversary at every position in turn and without one, over several
strengths of conformity and distraction. True effects come from a randomised run far larger than a learner's.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import torch

from actors.messages import derive_seed
from experiments.metrics.ranking import auc
from experiments.studies.planted.opinions import Team
from experiments.studies.planted.settings import Influence, PlantedSettings
from experiments.studies.planted.truth import Truth, best_reachable, random_wirings, true_effects, utility
from experiments.studies.planted.turns import different_turns
from topologies.edge_lists import Wiring, into, needed_turns
from topologies.learning.learner import Learner
from topologies.learning.learner_settings import LearnerSettings, PruningSettings
from topologies.learning.making import make_learner
from topologies.learning.spec import LearnerSpec, shared_training
from topologies.learning.variants import VARIANTS, LearnedMethod
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
    readings: cost of one discussion (`price`). training: mean tokens of a training discussion, 0 where they were
    another's; edges: left after it (in a round, where rounds differ); wrongly: edges that were cut as certain to harm
    and help both their receiver and the final answer. joined: of the turns of training, those that are the same as
    another's on the question, and are answered with it. By the number of questions learned from, regret: best reachable
    minus own utility; reached: that utility; ranked: `auc_adversary`, or without one `auc_harmful`; spent: what the
    discussions have cost until then, joined turns once, whoever held them.
    learner: a peer, one `from` another (it learned from that one's discussions), `full` (everyone hears everyone, in
    random orders), `by_hand` (the same without the adversary) or `best` (greedy removal by the true effects).
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
    edges: float | None = None
    wrongly: int | None = None
    joined: float | None = None
    reached: dict[int, float] = field(default_factory=dict)
    ranked: dict[int, float] = field(default_factory=dict)
    spent: dict[int, float] = field(default_factory=dict)

    @property
    def tokens(self) -> int:
        """The cost in units of one message: a turn's own prompt counts as much as a message that it reads."""
        return self.turns + self.readings


def worlds(settings: PlantedSettings) -> list[World]:
    """All worlds to explore: where all is chance without an adversary, who could do nothing there.

    Raises ValueError on settings that make no sense.
    """
    _check(settings)
    agents, seeds = settings.opinions.text + settings.opinions.visual, settings.seeds
    # Agents stand by modality: the first ones alone would be of one.
    adversaries = [number * agents // seeds if seeds < agents else number % agents for number in range(seeds)]
    return [
        World(conformity, distraction, number, adversaries[number] if attacked else None, Influence(influence))
        for influence in settings.influences
        for conformity, distraction in settings.strengths[: None if influence == Influence.ANSWERS else 1]
        for attacked in ((False,) if influence == Influence.CHANCE else (True, False))
        for number in range(seeds)
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
    specs = {
        str(name): LearnerSpec(
            team.modalities, team.settings.rounds, team.seed, VARIANTS[LearnedMethod(name)], learner, pruning
        )
        for name in settings.learners
    }
    shared: list[Outcome] = []
    sources = shared_training(specs) if settings.share else {}
    for name, spec in specs.items():
        own = make_learner(spec)
        beside = {
            f"{other} from {name}": make_learner(specs[other]) for other, source in sources.items() if source == name
        }
        students = {name: own, **beside}
        curves = {each: _Curve() for each in students}
        steps: list[_Step] = []
        for step in learn(own, team, samples, list(beside.values())):
            steps.append(step)
            # Where learning has stopped early, it stays as it is.
            last = own.stages * own.pruning.steps if own.finished else step.used
            spent = sum(each.computed for each in steps)
            for used in settings.checkpoints:
                if step.used <= used <= last:
                    for each, learning in students.items():
                        # On a copy, so that measuring changes nothing in the learning that goes on.
                        now = stopped(learning)
                        reached = utility(team, now.inference_wirings(), now.reading(), settings.evaluated)
                        found = ranking(now.edge_scores(), truth, world.adversary)
                        curves[each].add(used, reached, best_utility, found, spent)
        turns, different = (sum(getattr(step, name) for step in steps) for name in ("turns", "different"))
        for each, learned in students.items():
            ranked = ranking(learned.edge_scores(), truth, world.adversary)
            training = float(np.mean([step.tokens for step in steps])) if learned is own else 0.0
            learned_from = {"training": training, "edges": edges_left(learned), "joined": 1 - different / turns}
            measured = {**ranked, **learned_from, "wrongly": wrongly_cut(learned, truth), **vars(curves[each])}
            row = outcome(each, learned.inference_wirings(), learned.reading(), **measured)
            (outcomes if learned is own else shared).append(row)
    return [*outcomes, *shared]


@dataclass
class _Curve:
    """How learning went, by the number of questions learned from; as in an `Outcome`."""

    regret: dict[int, float] = field(default_factory=dict)
    reached: dict[int, float] = field(default_factory=dict)
    ranked: dict[int, float] = field(default_factory=dict)
    spent: dict[int, float] = field(default_factory=dict)

    def add(self, used: int, reached: float, best: float, found: Mapping[str, float | None], spent: float) -> None:
        self.regret[used], self.reached[used], self.spent[used] = best - reached, reached, spent
        auc = found.get("auc_adversary", found["auc_harmful"])
        if auc is not None:
            self.ranked[used] = auc


class _Step(NamedTuple):
    """used: questions until now, this one included. tokens: the mean of a discussion, in which every turn is taken;
    turns: of all discussions, different: those that differ; computed: what these cost."""

    used: int
    tokens: float
    turns: int
    different: int
    computed: int


def learn(learner: Learner, team: Team, samples: int, beside: Sequence[Learner] = ()) -> Iterator[_Step]:
    """Learns all stages, one new question a step, as do those `beside` from the same discussions, until their last step
    or until all has settled."""
    used = 0
    while not learner.finished:
        steps = learner.pruning.steps
        questions = team.questions(steps, "learning", learner.stage)
        for step in range(steps):
            wirings = learner.sample(samples)
            index = torch.full((samples,), step)
            scores, utilities = team.discuss(questions, index, wirings, learner.chances())
            used += 1
            for student in (learner, *beside):
                student.learn(wirings, scores.numpy(), utilities.numpy())
            over = step + 1 == steps or all(student.may_stop() for student in (learner, *beside))
            # Before the yield, so that the state after the last question is that of a finished stage.
            for student in (learner, *beside) if over else ():
                student.next_stage()
            edges = sum(int(taken.sum()) for taken in (wirings.spatial, wirings.temporal, wirings.decision))
            everybody = samples * team.agents * team.settings.rounds
            turns = everybody if wirings.speaks is None else int(wirings.speaks.sum())
            different, read = different_turns(wirings)
            yield _Step(used, (edges + turns) / samples, turns + samples, different, different + read)
            if over:
                break


def edges_left(learner: Learner) -> float:
    """The edges that a learner has left; of those that rounds have apart, the mean over rounds."""
    of_blocks: dict[str, list[int]] = {}
    for name, left in learner.edges_left().items():
        of_blocks.setdefault(name.partition(", round ")[0], []).append(left)
    return sum(statistics.mean(left) for left in of_blocks.values())


def stopped(learner: Learner) -> Learner:
    """A copy of a learner that ends its learning here, in any stage."""
    copy = make_learner(learner.spec)
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
    speaks = None if wirings.speaks is None else wirings.speaks[0]
    wiring = Wiring.of_matrices(wirings.spatial[0], wirings.temporal[0], wirings.decision[0], speaks=speaks)
    taken = needed_turns(wiring)
    heard = sum(int(into(taken, edges).sum()) for edges in (wiring.spatial, wiring.temporal))
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
    # A learner without temporal edges, or without those between modalities, says nothing of them.
    ranked = [compared & np.isfinite(score) for score in scores]
    aucs = {
        name: [auc(s[bad & at], s[~bad & at]) for bad, at, s in zip(kinds, ranked, scores, strict=True)]
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
