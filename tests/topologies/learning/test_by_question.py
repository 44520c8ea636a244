"""Graphs by question: an agent that helps on some questions and harms on others is heard where it helps."""

from typing import Any

import numpy as np
import pytest
import torch

from actors.messages import Kind, Question, Source
from actors.runtime.inline import Local
from topologies.baselines import random_like
from topologies.learning.learned_topology import LearnedTopology, features_of
from topologies.learning.learner import Learner, PruningSettings
from topologies.learning.question_model import Deviations
from topologies.learning.variants import COMMON, EFFECTS, M3PRUNE
from topologies.wiring import Wirings

TEAM = ["text", "text", "text", "visual"]
LEADER = 1
KINDS = np.eye(2)
PRUNING = PruningSettings(steps=25, rate=0.0)


def scores_of(wirings: Wirings, effect: float, draw: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Answers that hearing the leader changes by `effect`."""
    hears = wirings.spatial[:, :, LEADER] | wirings.temporal[:, :, LEADER]
    hears[:, :, LEADER] = False
    scores = (draw.random(hears.shape) < 0.5 + effect * hears).astype(float)
    return scores, scores[:, -1].mean(1)


def taught(effects: tuple[float, float], seen: np.ndarray = KINDS, seed: int = 0, **options: Any) -> Learner:
    """A learner after questions of two kinds in turn, with the leader's effect on each."""
    learner = Learner(TEAM, pruning=PRUNING, seed=seed, **{"variant": EFFECTS, "features": 2, **options})
    draw = np.random.default_rng(seed)
    while not learner.finished:
        kind = learner.step % 2
        wirings = learner.sample(20, features=seen[[kind]])
        learner.learn(wirings, *scores_of(wirings, effects[kind], draw))
    return learner


def heard(wirings: Wirings) -> np.ndarray:
    """Share of the leader's edges to others that each wiring has."""
    others = [agent for agent in range(len(TEAM)) if agent != LEADER]
    return wirings.temporal[:, 1, LEADER][:, others].mean(1)


def test_a_leader_is_heard_on_the_questions_that_it_is_right_on() -> None:
    learner = taught((0.3, -0.3))
    assert heard(learner.inference_wirings(KINDS)).tolist() == [1, 0]
    right, wrong = learner.reading(KINDS).temporal[:, 1, LEADER, 0]
    assert right > 0.95
    assert wrong < 0.05
    # One of the two kinds lacks the edge.
    scores = [learner.edge_scores(features).temporal[LEADER, 0] for features in (None, KINDS)]
    assert scores[0] - scores[1] == 0.5
    again = Learner(TEAM, pruning=PRUNING, variant=EFFECTS, features=2)
    again.load(learner.state())
    for one, other in zip(
        learner.inference_wirings(KINDS).spatial, again.inference_wirings(KINDS).spatial, strict=True
    ):
        assert np.array_equal(one, other)
    # In the second stage each question draws from its own edges.
    drawn = again.sample(40, features=KINDS[::-1].copy(), questions=2)
    assert heard(drawn)[:20].max() == 0 < heard(drawn)[20:].max()
    assert np.array_equal(drawn.features, np.repeat(KINDS[::-1], 20, axis=0))


def test_embeddings_show_the_kind_too() -> None:
    directions = np.random.default_rng(3).normal(size=(2, 300))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    learner = taught((0.3, -0.3), directions, features=300)
    assert heard(learner.inference_wirings(directions)).tolist() == [1, 0]


@pytest.mark.parametrize(
    "effects", [(-0.3, -0.3), *(pytest.param(pair, marks=pytest.mark.slow) for pair in ((0.0, 0.0), (0.2, 0.2)))]
)
def test_where_no_effect_depends_on_the_question_it_is_the_common_learner(effects: tuple[float, float]) -> None:
    learner, common = taught(effects), taught(effects, variant=COMMON, features=0)
    mine, theirs = learner.state(), common.state()
    assert {name: mine[name].tobytes() for name in theirs} == {name: theirs[name].tobytes() for name in theirs}
    [one] = common.inference_wirings().temporal
    assert all(np.array_equal(each, one) for each in learner.inference_wirings(KINDS).temporal)


def test_without_features_it_is_the_common_learner_and_other_learners_ignore_them() -> None:
    learner = Learner(TEAM, variant=EFFECTS, pruning=PRUNING)
    common = Learner(TEAM, variant=COMMON, pruning=PRUNING)
    assert np.array_equal(learner.sample(4).spatial, common.sample(4).spatial)
    gradient = Learner(TEAM, variant=M3PRUNE)
    seen, unseen = gradient.sample(4, features=KINDS[:1]), gradient.sample(4)
    assert np.array_equal(seen.spatial, unseen.spatial)
    assert unseen.features is None
    assert gradient.inference_wirings(KINDS).spatial.shape[0] == 2


def test_the_chance_of_no_dependence_is_uniform_where_there_is_none() -> None:
    draw = torch.Generator().manual_seed(1)
    below = []
    for _ in range(400):
        x = torch.randn(60, 5, generator=draw).double() * torch.tensor([3.0, 1, 1, 0.3, 0.3])
        y = torch.randn(60, 4, generator=draw).double()
        x -= x.mean(0)
        spread = (x.T @ x).expand(4, 5, 5)
        *each, together = Deviations(x[:4], y.T @ x, spread, torch.ones(4).double()).chances()
        below.append([float(each[0] < 0.1), float(together < 0.1)])
    assert np.abs(np.mean(below, axis=0) - 0.1).max() < 0.05


def test_a_deviation_is_shrunk_to_none_where_sums_are_as_small_as_by_chance() -> None:
    spread, mean = torch.eye(2).double().expand(2, 2, 2) * 50, torch.zeros(2, 2).double()
    total = torch.tensor([[5.0, 5.0], [100.0, 0.0]]).double()
    found = Deviations(mean, total, spread, torch.ones(2).double()).at(torch.tensor([1.0, 0.0]).double())
    assert found.mean[0] == found.variance[0] == 0
    assert 1.5 < found.mean[1] < 2  # least squares give 2


def test_features_are_the_direction_of_the_embedding_and_the_kinds_of_evidence() -> None:
    evidence = tuple(Source(str(kind), "d", kind, "", "") for kind in (Kind.TEXT, Kind.IMAGE))
    question = Question("q", "?", evidence=evidence)
    assert features_of(question, np.array([3.0, 4.0])).tolist() == [0.6, 0.8, 1, 0, 1]
    assert features_of(question, np.array([[1.0, 0.0], [0.0, 1.0]]))[:2] == pytest.approx([0.5**0.5] * 2)


async def test_a_topology_answers_each_question_along_its_own_wiring() -> None:
    async def features(question: Question) -> np.ndarray:
        return KINDS[int(question.text)]

    learner = taught((0.3, -0.3))
    topology = LearnedTopology("effects", TEAM, Local(learner), "threshold", features)
    await topology.freeze()
    right, wrong = [await topology.wiring(Question(f"q{kind}", str(kind))) for kind in range(2)]
    assert LEADER in right.temporal[:, 1]
    assert LEADER not in wrong.temporal[:, 1]
    drawn = random_like(topology.common, seed=0)(Question("q", ""))
    assert len(drawn.temporal) == len(topology.common.temporal)
