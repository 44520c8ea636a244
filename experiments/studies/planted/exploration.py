"""Measures simple graphs and learners in one planted world.

True effects come from a randomised run far larger than a learner's.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from actors.messages import derive_seed
from experiments.config.config import Config
from experiments.studies.planted import measures
from experiments.studies.planted.opinion_model import OpinionModel
from experiments.studies.planted.opinions import OpinionTeam
from experiments.studies.planted.regimes import REGIMES
from experiments.studies.planted.scenarios import SCENARIOS, without_agents, without_messages
from experiments.studies.planted.steps import PlantedStep, learn, learner_spec
from experiments.studies.planted.truth import best_reachable, random_wirings, true_effects, utility
from experiments.studies.planted.worlds import Outcome, PlantedWorld
from topologies.learning.learned_topology import make_learner
from topologies.learning.learner import Learner
from topologies.learning.spec import shared_training
from topologies.learning.variants import VARIANTS


def explore(world: PlantedWorld, config: Config, model: OpinionModel) -> list[Outcome]:
    """Measures baselines and learners in one world, with `training.share` also learners from others' discussions."""
    exploration = Exploration(world, config, model)
    baselines = exploration.baselines()
    learners, shared = asyncio.run(exploration.learners())
    regimes = asyncio.run(exploration.regimes())

    full, none, readers, *_ = baselines
    outcomes = []
    for outcome in (*baselines, *learners, *regimes, *shared):
        if outcome.random is not None:
            simple = max(full.utility, none.utility, readers.utility, outcome.random)
            outcome = replace(outcome, gain=outcome.utility - simple)
        outcomes.append(outcome)
    return outcomes


class Point(NamedTuple):
    """A learner's measures after so many questions, as in an `Outcome`."""

    questions: int
    reached: float
    ranked: float | None
    spent: int


class Exploration:
    """One world with its truth. Graphs and learners are measured in it."""

    def __init__(self, world: PlantedWorld, config: Config, model: OpinionModel) -> None:
        self._world = world
        self._config = config
        self._evaluated = config.planted.evaluated
        model = replace(model, conformity=world.conformity, distraction=world.distraction, influence=world.influence)
        adversaries = SCENARIOS[world.influence].special_agents(world.adversary, model.text + model.visual)
        # Strengths and adversary have no part in the seed: worlds of one number have the same skills and questions.
        self._team = OpinionTeam(model, derive_seed(config.seed, "planted", world.number), adversaries)
        self._truth = true_effects(self._team, config.planted.truth)
        self._best, self._best_utility = best_reachable(self._team, self._truth, self._evaluated)
        # With chance 1 every edge is present, in random speaking orders, as in a run before anything is learned.
        self._full = random_wirings(self._team, self._evaluated, 0, chances=(1.0, 1.0, 1.0))

    def baselines(self) -> list[Outcome]:
        """Measures the full graph, two without edges between agents, one cut by hand, and the best one."""
        team = self._team
        kind = team.questions(self._evaluated, "evaluation").kind
        worse_agents = measures.worse_agents(team, self._config.learner.error_rate)
        graphs = {
            "full": self._full,
            "none": without_messages(self._full),
            "readers": without_messages(without_agents(self._full, worse_agents)),
            "by_hand": team.scenario.by_hand(self._full, team.special, kind),
        }
        outcomes = []
        for name, graph in graphs.items():
            outcomes.append(self._outcome(name, measures.price(graph), utility(team, graph, None, self._evaluated)))
        return [*outcomes, self._outcome("best", measures.price(self._best), self._best_utility)]

    async def learners(self) -> tuple[list[Outcome], list[Outcome]]:
        """Measures the learners of the settings, and learners that share the training of another."""
        specs = {name: learner_spec(VARIANTS[name], self._team, self._config) for name in self._config.planted.learners}
        sources = shared_training(specs) if self._config.training.share else {}
        outcomes = []
        shared_outcomes = []
        for name, spec in specs.items():
            others = {}
            for sharer, source in sources.items():
                if source == name:
                    others[f"{sharer} from {name}"] = make_learner(specs[sharer])
            outcome, *further = await self._train(name, make_learner(spec), others)
            outcomes.append(outcome)
            shared_outcomes += further
        return outcomes, shared_outcomes

    async def regimes(self) -> list[Outcome]:
        """Measures the regimes of M3Prune's learner at each budget of the settings that is not too large for them."""
        config = self._config
        outcomes = []
        for name, regime in REGIMES.items():
            points = []
            for budget in config.planted.budgets:
                if budget > regime.most:
                    continue
                spec, factor = regime.grown(learner_spec(regime.variant, self._team, self._config), budget)
                learner = make_learner(spec)
                steps = [step async for step in learn(learner, self._team, factor * config.training.samples)]
                questions = budget * learner.stages * config.pruning.steps
                points.append(self._point(questions, learner, steps))
            if points:
                outcomes.append(self._learned(name, learner, steps, points))
        return outcomes

    async def _train(self, name: str, trained: Learner, others: Mapping[str, Learner]) -> list[Outcome]:
        """Trains a learner, and others from its discussions. Measures each."""
        learners = {name: trained, **others}
        points: dict[str, list[Point]] = {key: [] for key in learners}
        steps: list[PlantedStep] = []
        async for step in learn(trained, self._team, self._config.training.samples, list(others.values())):
            steps.append(step)
            # After learning has stopped early, later checkpoints measure the same graph.
            last_step = trained.stages * trained.pruning.steps if trained.finished else step.used
            for checkpoint in self._config.planted.checkpoints:
                if step.used <= checkpoint <= last_step:
                    for key, learner in learners.items():
                        # On a copy, so that measuring changes nothing in the learning that goes on.
                        points[key].append(self._point(checkpoint, measures.stopped(learner), steps))

        outcomes = [self._learned(key, learner, steps, points[key]) for key, learner in learners.items()]
        # The discussions of the others' training were the first one's.
        return [outcomes[0], *(replace(outcome, training=0.0, discussions=0) for outcome in outcomes[1:])]

    def _point(self, questions: int, learner: Learner, steps: Sequence[PlantedStep]) -> Point:
        wirings, reading = measures.learned_graph(learner, self._team, self._evaluated)
        ranking = measures.ranking(learner, self._truth, self._team, self._evaluated)
        return Point(
            questions,
            reached=utility(self._team, wirings, reading, self._evaluated),
            ranked=ranking.get("auc_adversary", ranking["auc_harmful"]),
            spent=sum(step.computed for step in steps),
        )

    def _outcome(self, name: str, price: tuple[int, int], reached: float) -> Outcome:
        turns, readings = price
        return Outcome(
            self._world, name, utility=reached, share=reached / self._best_utility, turns=turns, readings=readings
        )

    def _learned(self, name: str, learner: Learner, steps: Sequence[PlantedStep], points: Sequence[Point]) -> Outcome:
        """Measures a learner after its steps."""
        team = self._team
        wirings, reading = measures.learned_graph(learner, team, self._evaluated)
        outcome = self._outcome(name, measures.price(wirings), utility(team, wirings, reading, self._evaluated))
        ranking = measures.ranking(learner, self._truth, team, self._evaluated)
        turns = sum(step.turns for step in steps)
        different = sum(step.different for step in steps)
        common_graph = learner.inference_wirings()
        as_many_edges = measures.edge_shares(common_graph, self._full)
        random_graphs = random_wirings(team, self._evaluated, 1, as_many_edges)
        reports = measures.monitor_reports(learner, team, [step.scores for step in steps])
        special_reports = [questions for agent, (_, questions) in reports.items() if agent in team.special]
        return replace(
            outcome,
            auc_adversary=ranking.get("auc_adversary"),
            auc_harmful=ranking["auc_harmful"],
            auc_costly=ranking["auc_costly"],
            regret={point.questions: self._best_utility - point.reached for point in points},
            training=float(np.mean([step.tokens for step in steps])),
            discussions=sum(step.discussions for step in steps),
            warned=float(bool(learner.doubts())),
            edges=measures.edges_left(learner),
            wrongly=measures.wrongly_cut(learner, self._truth),
            joined=1 - different / turns,
            reported=min(special_reports, default=None),
            alarms=len(reports.keys() - {*team.special, team.agents}),
            random=utility(team, random_graphs, None, self._evaluated),
            reached={point.questions: point.reached for point in points},
            ranked={point.questions: point.ranked for point in points if point.ranked is not None},
            spent={point.questions: point.spent for point in points},
        )
