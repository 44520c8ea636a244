"""The learner of candidate edges in lists: with all pairs as candidates it learns as the one of matrices does."""

from __future__ import annotations

import asyncio
import tracemalloc
from dataclasses import replace

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.errors import UserError
from actors.messages import Question
from actors.runtime.inline import Local
from tests.topologies.test_discussion import Recording
from topologies import graphs
from topologies.graphs import acyclic, acyclic_pairs, complete, small_world
from topologies.learning.learned_topology import LearnedTopology, split
from topologies.learning.learner import Learner
from topologies.learning.learner_settings import Inference, LearnerSettings, PruningSettings
from topologies.learning.making import candidates_along
from topologies.learning.sparse_learner import CandidateEdges, SparseLearner
from topologies.learning.variants import AGENTDROPOUT, EFFECTS, RLOO, Rule, Variant
from topologies.wiring import Edges, ListedWirings, Wirings

TEAM = ["text"] * 3 + ["visual"] * 2
UTILITY_ALONE = LearnerSettings(rank_weight=0, noise_weight=0, align_weight=0)
TOGETHER = replace(RLOO, staged=False)


def listed(**options: object) -> SparseLearner:
    defaults = {
        "candidates": candidates_along(complete(len(TEAM))),
        "variant": RLOO,
        "settings": UTILITY_ALONE,
        "seed": 3,
    }
    return SparseLearner(TEAM, **(defaults | options))  # type: ignore[arg-type]


def as_matrices(wirings: ListedWirings) -> Wirings:
    """The same wirings, as a learner of matrices takes them."""
    k, rounds, _ = wirings.spatial.shape
    agents = wirings.decision.shape[1]

    def dense(kind: str, taken: np.ndarray) -> np.ndarray:
        filled = np.zeros((k, rounds, agents, agents), dtype=bool)
        filled[..., *getattr(wirings.pairs, kind).T] = taken
        return filled

    spatial, temporal = dense("spatial", wirings.spatial), dense("temporal", wirings.temporal)
    allowed = Edges(dense("spatial", wirings.allowed.spatial), dense("temporal", wirings.allowed.temporal))
    order = np.zeros((k, rounds, agents), dtype=np.int64)
    return Wirings(spatial, temporal, allowed, order, wirings.decision, wirings.decision_allowed)


@pytest.mark.parametrize("rule", [Rule.PROGRESSIVE, Rule.ONCE])
def test_with_all_pairs_as_candidates_it_learns_and_prunes_as_matrices_do(rule: Rule) -> None:
    pruning, variant = PruningSettings(steps=6, rate=0.3), replace(RLOO, rule=rule, staged=rule is Rule.PROGRESSIVE)
    lists = listed(variant=variant, pruning=pruning)
    matrices = Learner(TEAM, seed=3, variant=variant, settings=UTILITY_ALONE, pruning=pruning)
    scores = np.random.default_rng(0)
    while not lists.finished:
        wirings, utilities = lists.sample(8), scores.random(8)
        said = lists.learn(wirings, np.zeros((8, 2, 5)), utilities)
        expected = matrices.learn(as_matrices(wirings), np.zeros((8, 2, 5)), utilities)
        assert said.edges == expected.edges
        if lists.step >= 6 and not lists.finished:
            lists.next_stage(), matrices.next_stage()
    for mine, theirs in zip(lists.probabilities(), matrices.probabilities(), strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-5)
    [wiring] = split(lists.inference_wirings(), lists.reading())
    [other] = split(matrices.inference_wirings(), matrices.reading())
    assert np.array_equal(wiring.spatial, other.spatial)
    assert np.array_equal(wiring.temporal, other.temporal)


def test_sampled_edges_are_candidates_along_an_order_and_none_lead_into_the_first_round() -> None:
    learner = listed(candidates=candidates_along(graphs.ring(5)))
    wirings = learner.sample(50)
    assert not wirings.temporal[:, 0].any()
    assert 0.2 < wirings.allowed.spatial.mean() < 0.5
    for walk in split(wirings, learner.chances()):
        for number in range(2):
            pairs = walk.spatial[walk.spatial[:, 0] == number, 1:]
            assert nx.is_directed_acyclic_graph(nx.DiGraph(pairs.tolist()))
        assert {(j, i) for _, j, i in walk.temporal.tolist()} <= {(j, i) for j, i in graphs.ring(5).temporal.tolist()}
        assert walk.spatial_p is not None
        assert np.allclose(walk.spatial_p, 0.5)


def test_tied_logits_are_one_for_each_pair_of_roles_and_learn_from_all_their_edges() -> None:
    roles = ["critic", "critic", "critic", "looker", "looker"]
    learner = listed(roles=roles, variant=TOGETHER)
    assert learner.state()["logits.spatial"].shape == (1, 4)
    scores = np.random.default_rng(0)
    for _ in range(20):
        wirings = learner.sample(10)
        helps = wirings.spatial & (wirings.pairs.spatial < 3).all(1)  # critics who hear critics
        learner.learn(wirings, np.zeros((10, 2, 5)), helps.sum((1, 2)) + 0.1 * scores.random(10))
    p = learner.probabilities().spatial
    critics = p[:3, :3][~np.eye(3, dtype=bool)]
    assert len(set(critics.tolist())) == 1
    assert critics[0] > 0.8
    assert critics[0] > p[0, 3]
    assert sum(learner.edges_left().values()) == 5 * 4 + 5 * 5


def test_edges_share_a_logit_where_their_ends_have_the_same_roles() -> None:
    edges, visual = candidates_along(complete(4)), [False, False, True, True]
    roles = ["a", "a", "b", "b"]
    tied, free = (CandidateEdges.of(edges, visual, names) for names in (roles, None))
    assert [len(free.visual[kind]) for kind in ("spatial", "temporal", "decision")] == [12, 16, 4]
    assert [len(tied.visual[kind]) for kind in ("spatial", "temporal", "decision")] == [4, 4, 2]
    assert tied.counts("spatial").tolist() == [2, 4, 4, 2]
    assert tied.visual["spatial"].tolist() == [[False, False], [False, True], [True, False], [True, True]]


def test_a_state_is_taken_up_where_it_was_left() -> None:
    learner, again = listed(), listed()
    learner.learn(learner.sample(4), np.zeros((4, 2, 5)), np.arange(4.0))
    again.load(learner.state())
    one, other = learner.sample(3), again.sample(3)
    assert np.array_equal(one.spatial, other.spatial)
    assert np.array_equal(learner.state()["logits.spatial"], again.state()["logits.spatial"])


@pytest.mark.parametrize(
    ("variant", "settings", "told"),
    [
        (EFFECTS, UTILITY_ALONE, "effects"),
        (AGENTDROPOUT, UTILITY_ALONE, "agentdropout"),
        (RLOO, LearnerSettings(beginnings=2), "learner.beginnings"),
    ],
)
def test_variants_and_settings_that_need_all_pairs_are_refused(
    variant: Variant, settings: LearnerSettings, told: str
) -> None:
    with pytest.raises(UserError, match=told):
        listed(variant=variant, settings=settings)


async def test_a_run_answers_along_the_learned_lists() -> None:
    names = [f"a{number}" for number in range(5)]
    topology = LearnedTopology("agentprune", names, Local(listed()), Inference.THRESHOLD)
    wirings, walks = await topology.sample(3)
    assert len(walks) == len(wirings.spatial) == 3
    await topology.freeze()
    trace = await topology.answer(Question("q", "?"), Recording().ask, seed=1)
    assert [(t, j, i) for t, j, i in trace.spatial] == [(t + 1, j, i) for t, j, i in topology.wiring.spatial.tolist()]


@settings(max_examples=60)
@given(agents=st.integers(1, 9), seed=st.integers(0, 2**31), density=st.floats(0, 1))
def test_the_dag_of_a_list_is_that_of_the_matrix(agents: int, seed: int, density: float) -> None:
    draw = np.random.default_rng(seed)
    present, scores = draw.random((agents, agents)) < density, draw.integers(0, 4, (agents, agents)) / 4
    pairs = np.argwhere(present)
    kept = pairs[acyclic_pairs(pairs, scores[present], agents)]
    assert np.array_equal(kept, np.argwhere(acyclic(present, scores)))


@pytest.mark.slow
def test_ten_thousand_agents_learn_without_a_matrix_of_all_pairs() -> None:
    agents = 10_000
    tracemalloc.start()
    learner = SparseLearner(["text", "visual"] * (agents // 2), candidates=candidates_along(small_world(agents)))
    wirings = learner.sample(4)
    report = learner.learn(wirings, np.zeros((4, 2, agents)), np.arange(4.0))
    [wiring] = split(learner.inference_wirings(), learner.chances())
    assert tracemalloc.get_traced_memory()[1] < agents**2
    tracemalloc.stop()
    assert report.gradient_norm > 0
    assert len(wiring.spatial) <= 2 * 2 * agents
    with pytest.raises(ValueError, match="10000 agents are too many for a matrix"):
        learner.probabilities()


def test_discussions_of_sampled_lists_end() -> None:
    async def held() -> int:
        _, walks = await LearnedTopology("m", list("abcde"), Local(listed()), Inference.THRESHOLD).sample(2)
        traces = [await walk.answer(Question("q", "?"), Recording().ask, seed=0) for walk in walks]
        return sum(len(trace.turns) for trace in traces)

    assert asyncio.run(held()) == 2 * (2 * 5 + 1)
