"""Worlds with known truth, in which learners are to find harmful edges.

Teams of the opinion model (opinions.py), with an adversary at every position in turn and without one, over several
strengths of conformity and distraction. True effects come from a randomised run far larger than a learner's.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from actors.messages import derive_seed
from experiments.config.config import Config
from experiments.config.study_settings import EASY, Influence, PlantedSettings
from experiments.studies.planted import measures, regimes
from experiments.studies.planted.opinion_model import OpinionModel
from experiments.studies.planted.opinions import OpinionTeam
from experiments.studies.planted.scenarios import SCENARIOS, unheard
from experiments.studies.planted.steps import PlantedStep, learn
from experiments.studies.planted.truth import Truth, best_reachable, random_wirings, true_effects, utility
from topologies.learning.learned_topology import make_learner
from topologies.learning.learner import Learner
from topologies.learning.spec import LearnerSpec, shared_training
from topologies.learning.variants import VARIANTS
from topologies.wiring import Edges, Floats, Wirings

Curves = dict[str, dict[int, float]]  # measures of an `Outcome`, by the number of questions learned from


@dataclass(frozen=True)
class PlantedWorld:
    """One team and its questions, both determined by `number`, with one adversary or none.

    adversary: the first of the special agents, in a scenario that has others (scenarios.py).
    """

    conformity: float
    distraction: float
    number: int
    adversary: int | None
    influence: Influence = Influence.ANSWERS


@dataclass(frozen=True)
class Outcome:
    """One learner, or one baseline, in one world.

    learner: a learned method; one `from` another, whose discussions it learned from; `full` (everyone hears everyone,
        in random orders), `none` (no agent hears another), `by_hand` (cut by the world's author, mostly without the
        adversary) or `best` (greedy removal by the true effects).
    utility: mean over answers along the graph; share: its ratio to the best reachable.
    turns, readings: cost of one discussion (`price`).
    auc_adversary: probability that an edge of the adversary ranks below (`saint`: above) one of another agent, both to
        honest agents.
    auc_harmful, auc_costly: the same of all edges with a negative true effect, on the receiver or on the final answer.
    training: mean tokens of a training discussion, 0 where they were another's.
    edges: left after training (in a round, where rounds differ).
    wrongly: edges that were cut as certain to harm although they help both their receiver and the final answer.
    joined: share of the turns of training that equal another's on the question, and are answered with it.
    reported: evaluated questions after which the monitor reports a special agent as worse than in training (None: not
        within the first `measures.MONITORED`); alarms: number of other agents that it reports.
    random: utility of random graphs with as many edges; gain: own utility minus the best of `full`, `none` and this.
    regret: best reachable minus own utility, by the number of questions learned from (of a regime by its budget in
        training questions of the paper's ten samples); reached: that utility; ranked:
        `auc_adversary`, or else `auc_harmful`; spent: cost of the discussions until then, equal turns once.
    """

    world: PlantedWorld
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
    edges: int | float | None = None
    wrongly: int | None = None
    joined: float | None = None
    reported: int | None = None
    alarms: int | None = None
    random: float | None = None
    gain: float | None = None
    reached: dict[int, float] = field(default_factory=dict)
    ranked: dict[int, float] = field(default_factory=dict)
    spent: dict[int, int] = field(default_factory=dict)

    @property
    def tokens(self) -> int:
        """Cost in messages: a turn's own prompt counts as one."""
        return self.turns + self.readings


def worlds(settings: PlantedSettings, agents: int) -> list[PlantedWorld]:
    """Returns all worlds to explore. Easy ones have teams with and without adversary, but with `chance`, where it could
    do nothing; hard ones have teams with their special agents alone."""
    seeds = settings.seeds
    # Agents are ordered by modality: the first ones alone would be of one.
    adversaries = [number * agents // seeds if seeds < agents else number % agents for number in range(seeds)]
    return [
        PlantedWorld(conformity, distraction, number, adversaries[number] if attacked else None, Influence(influence))
        for influence in settings.influences
        for conformity, distraction in settings.strengths[: None if influence == Influence.ANSWERS else 1]
        for attacked in (True, False)
        if attacked == (SCENARIOS[Influence(influence)].ranked != "neither") or (influence in EASY and not attacked)
        for number in range(seeds)
    ]


def explore(world: PlantedWorld, config: Config, model: OpinionModel) -> list[Outcome]:
    """Measures baselines and learners in one world, with `training.share` also learners from others' discussions."""
    return asyncio.run(_explore(world, config, model))


async def _explore(world: PlantedWorld, config: Config, model: OpinionModel) -> list[Outcome]:
    settings = config.planted
    model = replace(model, conformity=world.conformity, distraction=world.distraction, influence=world.influence)
    adversaries = SCENARIOS[world.influence].chosen(world.adversary, model.text + model.visual)
    # The seed does not depend on strengths or adversary, so worlds of one number have the same skills and questions.
    team = OpinionTeam(model, derive_seed(config.seed, "planted", world.number), adversaries)
    truth = true_effects(team, settings.truth)
    best, best_utility = best_reachable(team, truth, settings.evaluated)
    # With chance 1 every edge is present, in random speaking orders, as in a run before anything is learned.
    full = random_wirings(team, settings.evaluated, 0, chances=(1.0, 1.0, 1.0))
    kind = team.questions(settings.evaluated, "evaluation").kind
    by_hand = team.scenario.by_hand(full, team.special, kind)
    graphs = {"full": full, "none": unheard(full), "by_hand": by_hand, "best": best}
    bench = _Bench(world, settings, team, truth, best_utility, full)
    outcomes = [bench.outcome(name, wirings) for name, wirings in graphs.items()]
    simple = max(outcome.utility for outcome in outcomes[:2])
    learner = partial(LearnerSpec, team.modalities, model.rounds, team.seed)
    specs = {
        variant.name: learner(variant, config.learner, config.pruning, features=len(model.kinds) * variant.by_question)
        for variant in map(VARIANTS.__getitem__, settings.learners)
    }
    shared: list[Outcome] = []
    sources = shared_training(specs) if config.training.share else {}
    for name, spec in specs.items():
        own = make_learner(spec)
        others = {
            f"{other} from {name}": make_learner(specs[other]) for other, source in sources.items() if source == name
        }
        learners = {name: own, **others}
        curves: dict[str, Curves] = {each: {} for each in learners}
        steps: list[PlantedStep] = []
        async for step in learn(own, team, config.training.samples, list(others.values())):
            steps.append(step)
            # After learning has stopped early, later checkpoints measure the same graph.
            last = own.stages * own.pruning.steps if own.finished else step.used
            for used in settings.checkpoints:
                if step.used <= used <= last:
                    for each, learning in learners.items():
                        # On a copy, so that measuring changes nothing in the learning that goes on.
                        bench.add_point(curves[each], used, measures.stopped(learning), steps)
        for each, learning in learners.items():
            row = bench.learned(each, learning, steps, learning is own, curves[each])
            (outcomes if learning is own else shared).append(row)
    for name, regime in regimes.REGIMES.items() if settings.budgets else ():
        of_regime: Curves = {}
        for budget in (budget for budget in settings.budgets if budget <= regime.most):
            spec, samples = regime.grown(learner(regime.variant, config.learner, config.pruning), budget)
            own = make_learner(spec)
            steps = [step async for step in learn(own, team, samples * config.training.samples)]
            bench.add_point(of_regime, budget * own.stages * config.pruning.steps, own, steps)
        outcomes.append(bench.learned(name, own, steps, True, of_regime))
    rows = [*outcomes, *shared]
    return [row if row.random is None else replace(row, gain=row.utility - max(simple, row.random)) for row in rows]


@dataclass(frozen=True)
class _Bench:
    """One world with its truth, on which graphs and learners are measured. full: the graph of all edges."""

    world: PlantedWorld
    settings: PlantedSettings
    team: OpinionTeam
    truth: Truth
    best_utility: float
    full: Wirings

    def outcome(self, name: str, wirings: Wirings, p: Edges[Floats] | None = None, **measured: Any) -> Outcome:
        # The best graph is evaluated already.
        score = self.best_utility if name == "best" else utility(self.team, wirings, p, self.settings.evaluated)
        turns, readings = measures.price(wirings)
        return Outcome(self.world, name, score, score / self.best_utility, turns, readings, **measured)

    def add_point(self, curves: Curves, used: int, learner: Learner, steps: Sequence[PlantedStep]) -> None:
        """Adds a learner's measures after so many questions."""
        evaluated = self.settings.evaluated
        reached = utility(self.team, *measures.along(learner, self.team, evaluated), evaluated)
        found = measures.ranking(learner.edge_scores(), self.truth, self.team)
        spent = sum(step.computed for step in steps)
        point = (self.best_utility - reached, reached, found.get("auc_adversary", found["auc_harmful"]), spent)
        for measure, value in zip(("regret", "reached", "ranked", "spent"), point, strict=True):
            if value is not None:
                curves.setdefault(measure, {})[used] = value

    def learned(self, name: str, learner: Learner, steps: Sequence[PlantedStep], own: bool, curves: Curves) -> Outcome:
        """Measures a learner after its steps. own: whether their discussions followed its wirings."""
        evaluated, graph = self.settings.evaluated, learner.inference_wirings()
        turns, different = (sum(getattr(step, count) for step in steps) for count in ("turns", "different"))
        sparse = random_wirings(self.team, evaluated, 1, measures.shares(graph, self.full))
        reported = measures.watched(learner, self.team, [step.scores for step in steps])
        shown = [after for agent, (_, after) in reported.items() if agent in self.team.special]
        measured: dict[str, Any] = {
            **measures.ranking(learner.edge_scores(), self.truth, self.team),
            **curves,
            "training": float(np.mean([step.tokens for step in steps])) if own else 0.0,
            "edges": measures.edges_left(learner),
            "joined": 1 - different / turns,
            "wrongly": measures.wrongly_cut(learner, self.truth),
            "reported": min(shown, default=None),
            "alarms": len(reported.keys() - {*self.team.special, self.team.agents}),
            "random": utility(self.team, sparse, None, evaluated),
        }
        return self.outcome(name, *measures.along(learner, self.team, evaluated), **measured)
