"""Learning among candidate edges, and with one logit for all edges between the same two roles."""

from dataclasses import replace

import networkx as nx
import numpy as np
import pytest

from actors.errors import UserError
from actors.messages import Question
from actors.runtime.inline import Local
from tests.topologies.test_discussion import Recording
from topologies import graphs
from topologies.graphs import candidates_along
from topologies.learning.course import Course
from topologies.learning.learned_topology import LearnedTopology, split
from topologies.learning.learner import Learner
from topologies.learning.learner_settings import PruningSettings
from topologies.learning.variants import AGENTDROPOUT, AGENTPRUNE, EFFECTS, GPTSWARM, M3PRUNE, RLOO, Variant

TEAM = ["text"] * 3 + ["visual"] * 2
ROLES = ["critic", "critic", "critic", "looker", "looker"]
RING = candidates_along(graphs.ring(5))
ALL = candidates_along(graphs.complete(5))


@pytest.mark.parametrize("variant", [M3PRUNE, RLOO, EFFECTS, AGENTPRUNE, GPTSWARM, AGENTDROPOUT])
def test_all_pairs_as_candidates_change_nothing(variant: Variant) -> None:
    learners = [
        Learner(TEAM, seed=3, variant=variant, pruning=PruningSettings(steps=4), candidates=candidates)
        for candidates in (None, ALL)
    ]
    scores = np.random.default_rng(0)
    while not learners[0].finished:
        turns, utilities = scores.random((8, 2, 5)), scores.random(8)
        reports = [learner.learn(learner.sample(8), turns, utilities) for learner in learners]
        assert reports[0] == reports[1]
    for mine, theirs in zip(learners[0].state().values(), learners[1].state().values(), strict=True):
        assert np.array_equal(mine, theirs, equal_nan=True)


@pytest.mark.parametrize("variant", [RLOO, EFFECTS, AGENTDROPOUT])
def test_only_candidates_are_drawn_learned_ranked_and_answered_with(variant: Variant) -> None:
    learner = Learner(TEAM, variant=variant, candidates=RING, pruning=PruningSettings(steps=2))
    places = {kind: {(j, i) for j, i in pairs.tolist()} for kind, pairs in RING._asdict().items()}
    scores = np.random.default_rng(0)
    while not learner.finished:
        wirings = learner.sample(6)
        for walk in split(wirings, learner.chances()):
            for number in range(2):
                pairs = walk.spatial[walk.spatial[:, 0] == number, 1:]
                assert nx.is_directed_acyclic_graph(nx.DiGraph(pairs.tolist()))
            assert {(j, i) for _, j, i in walk.spatial.tolist()} <= places["spatial"]
            assert {(j, i) for _, j, i in walk.temporal.tolist()} <= places["temporal"]
        learner.learn(wirings, scores.random((6, 2, 5)), scores.random(6))
    for kind, values in learner.edge_scores()._asdict().items():
        assert {(j, i) for j, i in np.argwhere(values > -np.inf).tolist()} == places[kind]
    [answering] = split(learner.inference_wirings(), learner.reading())
    assert {(j, i) for _, j, i in answering.spatial.tolist()} <= places["spatial"]


def test_a_logit_for_each_role_alone_learns_as_one_for_each_agent() -> None:
    names = ["a", "b", "c", "d", "e"]
    alone, tied = (Learner(TEAM, seed=3, variant=M3PRUNE, roles=roles) for roles in (None, names))
    for _ in range(5):
        wirings, utilities = alone.sample(6), np.random.default_rng(1).random(6)
        again = tied.sample(6)
        assert np.array_equal(wirings.spatial, again.spatial)
        assert np.array_equal(wirings.temporal, again.temporal)
        assert alone.learn(wirings, np.zeros((6, 2, 5)), utilities) == tied.learn(again, np.zeros((6, 2, 5)), utilities)
    assert np.array_equal(alone.state()["logits.spatial"], tied.state()["logits.spatial"])


def test_tied_logits_are_one_for_each_pair_of_roles_and_learn_from_all_their_edges() -> None:
    learner = Learner(TEAM, roles=ROLES, variant=replace(RLOO, staged=False))
    assert learner.state()["logits.spatial"].shape == (1, 2, 2)
    scores = np.random.default_rng(0)
    for _ in range(20):
        wirings = learner.sample(10)
        helps = wirings.spatial[:, :, :3, :3]  # critics who hear critics
        learner.learn(wirings, np.zeros((10, 2, 5)), helps.sum((1, 2, 3)) + 0.1 * scores.random(10))
    p = learner.probabilities().spatial
    critics = p[:3, :3][~np.eye(3, dtype=bool)]
    assert len(set(critics.tolist())) == 1
    assert critics[0] > 0.8
    assert critics[0] > p[0, 3]
    assert not p.diagonal().any()
    assert sum(learner.edges_left().values()) == 5 * 4 + 5 * 5
    assert (learner.edge_scores().spatial.diagonal() == -np.inf).all()


@pytest.mark.parametrize("variant", [EFFECTS, AGENTDROPOUT])
def test_variants_that_learn_each_edge_by_itself_are_refused_with_ties(variant: Variant) -> None:
    with pytest.raises(UserError, match=str(variant.name)):
        Learner(TEAM, variant=variant, roles=ROLES)


async def test_a_run_answers_along_the_candidates_of_tied_roles() -> None:
    names = [f"a{number}" for number in range(5)]
    learner = Learner(TEAM, variant=RLOO, candidates=RING, roles=ROLES)
    topology = LearnedTopology("agentprune", names, Local(learner), "threshold")
    progress = await anext(Course(Local(learner), samples=3).steps())
    assert len(topology.along(progress.steps[0])) == 3
    await topology.freeze()
    trace = await topology.answer(Question("q", "?"), Recording().ask, seed=1)
    assert [(t, j, i) for t, j, i in trace.spatial] == [(t + 1, j, i) for t, j, i in topology.common.spatial.tolist()]
