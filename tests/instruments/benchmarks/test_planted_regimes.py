"""The twin of a planted team is made of repeated answers with the stated chances."""

import pytest
import torch

from tests.instruments.benchmarks.planted_regimes import Regime, opinion_team, plurality


def test_one_answer_is_right_as_often_as_the_skill_says_and_the_plurality_of_many_nearly_always() -> None:
    skill = torch.full((20_000,), 0.4)
    assert plurality(skill, answers=1, options=8, seed=0) == pytest.approx(0.4, abs=0.02)
    # Three answers: two right ones or more, or one right one among three different ones, drawn at random.
    three = 0.4**3 + 3 * 0.4**2 * 0.6 + 3 * 0.4 * 0.6**2 * (6 / 7) / 3
    assert plurality(skill, answers=3, options=8, seed=0) == pytest.approx(three, abs=0.02)
    assert plurality(skill[:1_000], answers=200, options=8, seed=0) > 0.99


def test_agents_that_see_a_part_of_the_evidence_know_that_part_of_what_they_would_know() -> None:
    whole = opinion_team(Regime(liars=2), number=3)
    half = opinion_team(Regime(liars=2, evidence=0.5), number=3)
    assert torch.equal(half.skill, whole.skill / 2)
    assert half.special == whole.special == [3, 7]
