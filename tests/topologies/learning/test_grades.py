"""Learners that grade whole agents: whom they cut, what they compare, and what they cannot see."""

import numpy as np
import pytest
import torch
from scipy.stats import t

from topologies.learning.effects import among_peers
from topologies.learning.grades import heard_turns, relative_grades
from topologies.learning.learner import Learner
from topologies.learning.sampling import with_removals
from topologies.learning.variants import C3, COMPETENCE, LEAVE_ONE_OUT, Variant
from topologies.wiring import Wirings

TEAM = ["text"] * 3 + ["visual"] * 2
LIAR = 1


def learned(variant: Variant, own: bool, final: bool, steps: int = 12) -> Learner:
    """A learner of a liar that answers wrong itself (own), or lowers answers where it is heard (final)."""
    learner, generator = Learner(TEAM, seed=3, variant=variant), np.random.default_rng(0)
    for _ in range(2 * steps):
        if learner.step == steps:
            learner.next_stage()
        wirings = learner.sample(11)
        scores = (generator.random((11, 2, 5)) < 0.6).astype(float)
        scores[:, :, LIAR] *= not own
        harm = 0.4 * heard_turns(wirings)[:, :, LIAR].double().mean(1).numpy() * final
        learner.learn(wirings, scores, generator.random() * 0.3 + 0.5 - harm)
    learner.next_stage()
    return learner


def silent(learner: Learner) -> set[int]:
    """Agents that no other agent hears, nor the decision agent."""
    left = learner.inference_wirings()
    return set(np.flatnonzero(~heard_turns(left)[0].any(0).numpy()).tolist())


def test_competence_cuts_who_answers_worse_than_its_modality_and_no_other() -> None:
    assert silent(learned(COMPETENCE, own=True, final=False)) == {LIAR}
    assert silent(learned(COMPETENCE, own=False, final=False)) == set()


@pytest.mark.parametrize("variant", [LEAVE_ONE_OUT, C3])
def test_removal_cuts_who_lowers_answers_whatever_its_own(variant: Variant) -> None:
    assert silent(learned(variant, own=False, final=True)) == {LIAR}
    assert silent(learned(variant, own=True, final=False)) == set()


def test_competence_does_not_see_a_hypocrite() -> None:
    assert silent(learned(COMPETENCE, own=False, final=True)) == set()


@pytest.mark.parametrize("variant", [LEAVE_ONE_OUT, C3])
def test_samples_of_a_question_differ_from_the_first_in_one_agent_or_turn(variant: Variant) -> None:
    learner = Learner(TEAM, seed=1, variant=variant)
    wirings = learner.sample(12, questions=2)
    hears = heard_turns(wirings).numpy()
    removed = {tuple(turn) for turn in np.argwhere(~hears)}
    for question in (0, 6):
        assert hears[question].all()
        for sample in range(question + 1, question + 6):
            assert (wirings.order[sample] == wirings.order[question]).all()
            gone = [(t, agent) for one, t, agent in removed if one == sample]
            assert len({agent for _, agent in gone}) == 1
            assert len(gone) == (2 if variant is LEAVE_ONE_OUT else 1)
            apart = wirings.spatial[sample] != wirings.spatial[question]
            assert {(t, sender) for t, sender, _ in np.argwhere(apart)} <= set(gone)
    rest = Learner(TEAM, seed=1, variant=variant)
    tried = {(t, agent) for one, t, agent in np.argwhere(~heard_turns(rest.sample(11)).numpy())}
    assert tried == {(t, agent) for t in range(2) for agent in range(5)}


def test_all_turns_before_the_removed_one_are_equal() -> None:
    whole = Learner(TEAM, seed=1, variant=COMPETENCE).sample(4)
    changed = with_removals(whole, 4, step=2, turns=True)
    turns = [np.argwhere(~heard_turns(one).numpy()) for one in (whole, changed)]
    assert len(turns[1]) >= len(turns[0])
    last: Wirings = changed
    assert not (last.spatial & ~last.allowed.spatial).any()
    # Step 2 of three removals each begins with turn 6: agent 1 in the second round, before which nothing differs.
    assert (last.spatial[1:, 0] == last.spatial[0, 0]).all()


def test_grades_are_t_statistics_of_differences_within_the_modality() -> None:
    scores = torch.tensor([1.0, 0.0, 0.5, 1.0, 0.0]).double()
    visual = torch.tensor([False, False, False, True, True])
    np.testing.assert_allclose(among_peers(scores, visual), [0.5, -0.5, 0, 0.5, -0.5])
    assert among_peers(scores[:1], visual[:1]).tolist() == [0]
    drawn = torch.from_numpy(np.random.default_rng(0).normal(0.3, 1, (20, 1)))
    expected = float(drawn.mean() / (drawn.std() / 20**0.5) / t.isf(0.05, 19))
    graded = relative_grades(drawn.sum(0), (drawn**2).sum(0), torch.tensor([20.0]), 0.05)
    assert graded[0] == pytest.approx(expected)
    # One question has no variance: its difference ranks agents, and is never significant.
    assert -1 < relative_grades(*torch.tensor([[-1.0], [1.0], [1.0]]), 0.05)[0] < 0
