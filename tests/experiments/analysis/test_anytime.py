"""The anytime-valid test keeps its level however often one looks, and stops early where a difference is large."""

import numpy as np
import pytest
from scipy.stats import ttest_1samp

from experiments.analysis.looks import anytime_test, capitals

NULL = [1.0, 0.0, -1.0]


def test_looking_after_every_question_keeps_the_level_of_bets_and_not_that_of_a_fixed_test() -> None:
    generator = np.random.default_rng(0)
    studies = generator.choice(NULL, (400, 200), p=[0.2, 0.6, 0.2])
    bets = sum(bool((sum(capitals(study, np.zeros(1))) / 2 >= 20).any()) for study in studies)
    assert 0 < bets <= 20
    # A t test after every ten questions.
    peeked = [ttest_1samp(studies[:, :n], 0, axis=1).pvalue < 0.05 for n in range(20, 201, 10)]
    assert np.mean(np.any(peeked, axis=0)) > 0.12


def test_the_capital_against_the_true_mean_has_mean_one() -> None:
    generator = np.random.default_rng(1)
    ends = [capitals(generator.choice(NULL, 30, p=[0.5, 0.3, 0.2]), np.array([0.3]))[0][-1] for _ in range(8_000)]
    assert np.mean(ends) == pytest.approx(1, abs=0.08)


def test_an_interval_covers_and_agrees_with_its_p_value() -> None:
    generator = np.random.default_rng(2)
    covered = 0
    for _ in range(15):
        values = generator.choice(NULL, 120, p=[0.5, 0.3, 0.2])
        test = anytime_test(values)
        low, high = test["ci95"]
        covered += low <= 0.3 <= high
        assert low <= test["difference"] <= high
        assert (test["p_value"] < 0.05) == (not low <= 0 <= high)
        assert anytime_test(-values)["p_value"] == pytest.approx(test["p_value"])
    assert covered >= 13


def test_a_cluster_is_one_value_in_the_order_of_its_first_question() -> None:
    means = [*[1.0] * 7, -1.0]
    test = anytime_test(np.array(means * 2), list("hgfedcba") * 2)
    assert test["clusters"] == 8
    assert test["p_value"] == anytime_test(means)["p_value"] != anytime_test(means[::-1])["p_value"]
    copies = np.repeat([1.0, 0.0, 1.0], 5)
    assert anytime_test(copies, list(np.repeat([0, 1, 2], 5)))["p_value"] == anytime_test([1.0, 0.0, 1.0])["p_value"]


def test_not_worse_needs_a_bet_against_the_margin() -> None:
    nearly = [0.0] * 40
    assert anytime_test(nearly, margin=0.3)["p_margin"] < 0.05 < anytime_test(nearly, margin=0.02)["p_margin"]
    # Zeros say nothing of the sign.
    assert anytime_test(nearly)["p_value"] == 1.0
