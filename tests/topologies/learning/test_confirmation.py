"""Confirmation of a cut: a worse one is undone, a better one stays, and a killed confirmation goes on."""

import numpy as np
import pytest

from actors.errors import UserError
from topologies.learning.confirmation import GRAPHS, PRUNED, decided, leads, places
from topologies.learning.learner import Learner
from topologies.learning.learner_settings import LearnerSettings, PruningSettings
from topologies.learning.spec import NONE
from topologies.learning.variants import AGENTDROPOUT
from topologies.wiring import Wirings

TEAM = ["text"] * 4
LIAR = 2


def made(confirm: float = 0.45) -> Learner:
    return Learner(TEAM, seed=3, pruning=PruningSettings(steps=30), settings=LearnerSettings(confirm=confirm))


def taught(learner: Learner, worth: float, draw: np.random.Generator, steps: int = 1000) -> Learner:
    """Receivers of the liar answer worse; the final answer's utility changes by `worth` for each edge from the liar."""
    for _ in range(steps):
        if learner.finished:
            break
        wirings = learner.sample(len(GRAPHS) if learner.confirming else 8)
        heard = wirings.spatial[:, :, LIAR] | wirings.temporal[:, :, LIAR]
        own = 0.7 - 0.4 * heard + 0.1 * draw.standard_normal(heard.shape)
        # In exploration the utility goes along with own answers, so that these stand for it.
        honest = np.delete(wirings.temporal, LIAR, 2).any((1, 2, 3))
        final = own.mean((1, 2)) if not learner.confirming else 0.3 + 0.3 * honest + worth * heard.sum((1, 2)) / 8
        learner.learn(wirings, own, final + 0.02 * draw.standard_normal(len(final)))
    return learner


def from_liar(wirings: Wirings) -> int:
    others = [agent for agent in range(len(TEAM)) if agent != LIAR]
    return int(wirings.spatial[0, 0, LIAR, others].sum() + wirings.temporal[0, 1, LIAR, others].sum())


def test_a_cut_that_is_worse_is_undone_and_one_that_is_better_stays() -> None:
    undone = taught(made(), 0.4, np.random.default_rng(0))
    kept = taught(made(), -0.4, np.random.default_rng(0))
    assert undone.finished
    assert from_liar(undone.inference_wirings()) > 0
    assert len(undone.doubts()) == 1
    assert from_liar(kept.inference_wirings()) == 0
    assert kept.doubts() == ()
    # What was learned of the edges ranks them all the same.
    assert (undone.edge_scores().temporal[LIAR] < np.delete(undone.edge_scores().temporal, LIAR, 0).max(0)).all()


def test_a_cut_is_not_confirmed_where_no_question_is_held_back() -> None:
    learner = taught(made(confirm=0), 0.4, np.random.default_rng(0))
    assert learner.finished
    assert from_liar(learner.inference_wirings()) == 0
    with pytest.raises(UserError, match=r"learner\.confirm"):
        Learner(TEAM, variant=AGENTDROPOUT, settings=LearnerSettings(confirm=0.2))


def test_each_question_is_answered_along_all_graphs() -> None:
    learner = taught(made(), 0.0, np.random.default_rng(1), steps=20)
    while not learner.confirming:
        taught(learner, 0.0, np.random.default_rng(1), steps=1)
    wirings = learner.sample(2 * len(GRAPHS), questions=2)
    edges = wirings.temporal[:, 1].sum((1, 2)).reshape(2, -1)
    assert sorted(edges[0]) == sorted(edges[1])
    lowest, middle, highest = sorted(edges[0])
    assert (lowest, highest) == (0, len(TEAM) ** 2)
    assert lowest < middle < highest


@pytest.mark.parametrize("skill", [0.0, 0.7])
def test_the_decision_agent_reads_in_simple_graphs_all_but_agents_whose_own_answers_are_worse(skill: float) -> None:
    # No edge has an effect on own answers, and the final answer is better where no agent hears another.
    draw = np.random.default_rng(7)
    learner = Learner(TEAM, seed=3, pruning=PruningSettings(steps=20), settings=LearnerSettings(confirm=0.5))
    while not learner.finished:
        wirings = learner.sample(len(GRAPHS) if learner.confirming else 8)
        own = (draw.random((len(wirings.spatial), 2, len(TEAM))) < 0.7).astype(float)
        own[:, :, LIAR] = draw.random(own[:, :, LIAR].shape) < skill
        edges = wirings.spatial.any((1, 2, 3)) | wirings.temporal.any((1, 2, 3))
        learner.learn(wirings, own, own.mean((1, 2)) / 2 + 0.5 * ~edges)
    assert sum(learner.edges_left().values()) == len(TEAM) - (skill == 0)
    [readers] = learner.inference_wirings().decision
    assert readers.tolist() == [agent != LIAR or skill > 0 for agent in range(len(TEAM))]
    [doubt] = learner.doubts()
    assert doubt.startswith("the pruned graph was not better than no edges (+0.4")


def test_a_confirmation_that_was_killed_goes_on_and_ends_the_same() -> None:
    whole = taught(made(), 0.1, np.random.default_rng(2), steps=24)
    assert whole.confirming
    again = made()
    again.load(whole.state())
    ends = [taught(learner, 0.1, np.random.default_rng(3)).state() for learner in (whole, again)]
    assert ends[0].keys() == ends[1].keys()
    for name, value in ends[0].items():
        assert np.array_equal(value, ends[1][name], equal_nan=True), name


def test_failed_discussions_count_neither_for_nor_against_a_graph_and_are_counted() -> None:
    learner = taught(made(), 0.0, np.random.default_rng(5), steps=16)
    assert learner.confirming
    steps = 0
    while not learner.finished:
        failed = places(learner.step, len(GRAPHS)) == GRAPHS.index(PRUNED)
        wirings, scores = learner.sample(len(GRAPHS)), np.zeros((len(GRAPHS), 2, len(TEAM)))
        # All others score 1: with failures as 0 the cut would be undone.
        learner.learn(wirings, scores, np.where(failed, np.nan, 1.0))
        steps += 1
    assert from_liar(learner.inference_wirings()) == 0
    assert learner.state()["confirm.failed"] == steps
    assert not learner.doubts()


@pytest.mark.parametrize("cut", [True, False])
def test_another_graph_needs_a_lead_of_a_standard_error_where_something_was_cut(cut: bool) -> None:
    learner = made()
    confirmation = learner._confirmation
    # Graphs of single questions lack edges that no mask lacks.
    confirmation.left = lambda: {kind: edges & (not cut) for kind, edges in learner._edges.mask.items()}
    confirmation.begin()
    for step, scores in enumerate(([0.5, 0.5, 0.5], [0.0, 0, 1], [1.0, 0, 0.5], [1.0, 0, 1.0])):
        utility = np.array(scores)[places(step, len(GRAPHS))]
        confirmation.learn(step, 1, utility, np.zeros(len(GRAPHS), dtype=bool))
    confirmation.decide()
    # Half a question of four is less than a standard error.
    mean, error = leads(confirmation.scores)
    assert 0 < mean[2] < error[2]
    assert confirmation.winner == (PRUNED if cut else NONE)
    assert len(confirmation.doubts()) == (not cut)


def test_tests_at_any_look_find_a_large_difference_and_no_difference_in_few_runs() -> None:
    draw = np.random.default_rng(4)
    equal = [decided((draw.random((40, 4)) < 0.5).astype(float), 0.05) for _ in range(200)]
    assert sum(equal) <= 10
    assert decided((draw.random((60, 4)) < [0.95, 0.3, 0.3, 0.3]).astype(float), 0.05)
    assert decided((draw.random((60, 4)) < [0.3, 0.95, 0.3, 0.3]).astype(float), 0.05)
    mean, error = leads(np.array([[0.0, 1.0, np.nan, 0.0]]))
    assert mean.tolist() == [0, 1, 0, 0]
    assert error[1] > 0.5
