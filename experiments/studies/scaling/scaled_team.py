"""One team of `job=scaling`: the number of discussions that the law names, and that each learner needs."""

import asyncio
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

import numpy as np

from actors.messages import derive_seed
from experiments.config.config import Config
from experiments.studies.planted.measures import mean_auc
from experiments.studies.planted.opinion_model import OpinionModel
from experiments.studies.planted.opinions import OpinionTeam
from experiments.studies.planted.steps import learn, learner_spec
from experiments.studies.planted.truth import Truth, true_effects
from experiments.studies.scaling.law import information_on, needed
from topologies.learning.learned_topology import make_learner
from topologies.learning.learner import Learner
from topologies.learning.variants import VARIANTS
from topologies.wiring import Edges, Floats

OWN_LAW = "law, own answers"
FINAL_LAW = "law, final answer"
LAWS = (OWN_LAW, FINAL_LAW)
HELD = 4  # an AUC that was reached after n discussions has to last until HELD n


@dataclass(frozen=True)
class ScaledTeam:
    """A team of `agents`, determined by them and by `number`."""

    agents: int
    number: int


@dataclass(frozen=True)
class Reached:
    """Discussions that a learner needed, or that the law names. None: more than `scaling.discussions`, or unknown."""

    world: ScaledTeam
    learner: str
    discussions: int | None


def measure(world: ScaledTeam, config: Config) -> list[Reached]:
    """Measures the law and every learner of the settings in one team."""
    settings = config.scaling
    model = OpinionModel(
        text=world.agents,
        visual=0,
        rounds=settings.rounds,
        influence=settings.influence,
        skill_own=settings.accuracy,
        # Agents of text know the answers to questions on pictures less often.
        kinds=(1 - settings.pictures, settings.pictures, 0.0),
    )
    liars = [(world.number + place * world.agents // settings.liars) % world.agents for place in range(settings.liars)]
    team = OpinionTeam(model, derive_seed(config.seed, "planted", world.number), liars)

    outcomes = []
    truth = true_effects(team, settings.truth)
    for name, effects, variance in (
        (OWN_LAW, truth.on_receiver, truth.receiver_variance),
        (FINAL_LAW, truth.on_answer, truth.answer_variance),
    ):
        outcomes.append(Reached(world, name, law(truth, effects, variance, team.special, settings.auc)))
    for name in settings.learners:
        outcomes.append(Reached(world, name, asyncio.run(train(learner_of(name, team, config), team, config))))
    return outcomes


def law(truth: Truth, effects: Edges[Floats], variance: float, liars: Collection[int], target: float) -> int | None:
    """Returns the discussions that the law names for the liars' edges, by their mean information."""
    honest = [agent for agent in range(len(truth.readers)) if agent not in liars]
    information = [information_on(truth, effects, variance, liar, honest) for liar in liars]
    discussions = needed(float(np.mean(information)), target)
    return None if discussions is None else max(1, round(discussions))


def learner_of(name: str, team: OpinionTeam, config: Config) -> Learner:
    """Makes an untrained learner, with as many steps as `scaling.discussions` allow."""
    # By the settings of the run alone: every learner has the same discussions.
    spec = learner_spec(replace(VARIANTS[name], samples=None), team, config)
    steps = max(1, config.scaling.discussions // (config.training.samples * spec.stages))
    return make_learner(replace(spec, pruning=replace(spec.pruning, steps=steps)))


async def train(learner: Learner, team: OpinionTeam, config: Config) -> int | None:
    """Trains a learner; returns the discussions from which on the AUC of the liars' edges lasted."""
    samples = config.training.samples
    checks = checkpoints()
    check = next(checks)
    reached = None
    async for step in learn(learner, team, samples):
        if step.used < check:
            continue
        check = next(checks)
        if auc_of_liars(learner.edge_scores(), team.special) < config.scaling.auc:
            reached = None
        elif reached is None:
            reached = step.used
        elif step.used >= HELD * reached:
            break
    return None if reached is None else reached * samples


def checkpoints() -> Iterator[int]:
    """Yields numbers of questions, each a fifth above the one before or the next."""
    questions = 1
    while True:
        yield questions
        questions = max(questions + 1, round(1.2 * questions))


def auc_of_liars(scores: Edges[Floats], liars: Collection[int]) -> float:
    """Chance that a liar's edge to an honest agent ranks below an honest agent's. By chance .5."""
    agents = len(scores.spatial)
    is_liar = np.isin(np.arange(agents), list(liars))
    from_liar = is_liar[:, None].repeat(agents, 1)
    between_different = ~np.eye(agents, dtype=bool)
    area = mean_auc(scores, Edges(from_liar, from_liar), between_different & ~is_liar)
    return 0.5 if area is None else area
