"""Intervals, paired tests and corrections, against known values and by simulation."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.analysis.statistics import bootstrap_interval, crossed_interval, holm, paired_test

steady = settings(derandomize=True)
scores = st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), min_size=1, max_size=60)


@steady
@given(scores, st.integers(0, 5))
def test_the_interval_is_ordered_within_range_and_repeatable(values: list[float], seed: int) -> None:
    low, high = bootstrap_interval(values, seed, draws=200)
    assert min(values) - 1e-12 <= low <= high <= max(values) + 1e-12
    assert (low, high) == bootstrap_interval(list(reversed(values)), seed, draws=200)
    narrow = bootstrap_interval(values, seed, level=0.5, draws=200)
    assert low <= narrow[0] <= narrow[1] <= high


def test_the_interval_agrees_with_the_normal_approximation() -> None:
    values = [1.0] * 300 + [0.0] * 700
    margin = 1.96 * math.sqrt(0.3 * 0.7 / 1000)
    assert bootstrap_interval(values, 0, draws=20_000) == pytest.approx((0.3 - margin, 0.3 + margin), abs=0.002)


def test_the_interval_covers_the_true_mean_about_as_often_as_it_says() -> None:
    generator = np.random.default_rng(1)
    covered = 0
    for seed in range(300):
        low, high = bootstrap_interval(generator.random(80), seed, draws=500)
        covered += low <= 0.5 <= high
    assert 0.90 <= covered / 300 <= 0.98


def test_an_interval_of_nothing_is_an_error() -> None:
    with pytest.raises(ValueError, match="at least one value"):
        bootstrap_interval([], 0)


def test_the_paired_test_agrees_with_the_exact_sign_test() -> None:
    a = [1.0] * 12 + [0.0] * 3 + [1.0] * 50
    b = [0.0] * 12 + [1.0] * 3 + [1.0] * 50
    exact = 2 * sum(math.comb(15, k) for k in range(12, 16)) / 2**15
    result = paired_test(a, b, seed=0, draws=100_000)
    assert result["p_value"] == pytest.approx(exact, abs=0.003)
    assert (result["wins"], result["losses"], result["n"]) == (12, 3, 65)
    assert result["difference"] == pytest.approx(9 / 65)
    assert result["ci95"][0] < 9 / 65 < result["ci95"][1]


def test_the_paired_test_agrees_with_enumerating_all_signs() -> None:
    a, b = np.array([0.9, 0.5, 0.7, 0.2, 1.0, 0.4]), np.array([0.4, 0.6, 0.1, 0.2, 0.5, 0.3])
    d = a - b
    sums = [abs(sum(s * x for s, x in zip(signs, d, strict=True))) for signs in itertools.product((1, -1), repeat=6)]
    exact = float(np.mean(np.array(sums) >= abs(d.sum()) - 1e-9))
    assert paired_test(a, b, seed=0, draws=100_000)["p_value"] == pytest.approx(exact, abs=0.005)


@steady
@given(st.lists(st.tuples(st.sampled_from([0.0, 0.5, 1.0]), st.sampled_from([0.0, 0.5, 1.0])), min_size=1, max_size=30))
def test_the_paired_test_is_symmetric(pairs: list[tuple[float, float]]) -> None:
    a, b = [x for x, _ in pairs], [y for _, y in pairs]
    there, back = paired_test(a, b, 0, draws=200), paired_test(b, a, 0, draws=200)
    assert there["difference"] == -back["difference"]
    assert there["p_value"] == back["p_value"]
    assert (there["wins"], there["losses"]) == (back["losses"], back["wins"])
    assert 0 < there["p_value"] <= 1


def test_the_same_scores_do_not_differ() -> None:
    assert paired_test([0.0, 1.0], [0.0, 1.0], 0)["p_value"] == 1.0


def test_scores_of_different_questions_do_not_pair() -> None:
    with pytest.raises(ValueError, match="same questions"):
        paired_test([1.0], [1.0, 0.0], 0)


def test_one_trial_has_the_interval_of_its_questions() -> None:
    values = [1.0] * 30 + [0.0] * 70
    assert crossed_interval([values], 0, draws=20_000) == pytest.approx(bootstrap_interval(values, 0), abs=0.011)


def covered(seed_effect: float, noise: float, trials: int = 6, repeats: int = 120) -> tuple[float, float]:
    """How often the mean of trials that differ lies in the crossed interval, and in one over questions alone."""
    generator = np.random.default_rng(3)
    crossed = questions = 0
    for seed in range(repeats):
        values = generator.normal(0, 0.5, 60) + generator.normal(0, seed_effect, (trials, 1))
        values = values + generator.normal(0, noise, values.shape)
        low, high = crossed_interval(values, seed, draws=400)
        crossed += low <= 0 <= high
        low, high = bootstrap_interval(values.mean(0), seed, draws=400)
        questions += low <= 0 <= high
    return crossed / repeats, questions / repeats


def test_the_crossed_interval_holds_where_what_a_seed_learned_matters_to_all_its_questions() -> None:
    crossed, questions = covered(seed_effect=0.3, noise=0.3)
    assert crossed > 0.84  # six seeds tell a little too little of what differs between seeds
    assert questions < 0.7
    crossed, _ = covered(seed_effect=0.0, noise=0.3)
    assert crossed > 0.92


def test_questions_that_a_trial_did_not_ask_are_left_out() -> None:
    nan = float("nan")
    low, high = crossed_interval([[1.0, 1.0, nan], [nan, 1.0, 1.0]], 0)
    assert (low, high) == (1.0, 1.0)
    with pytest.raises(ValueError, match="at least one value"):
        crossed_interval([[nan, nan]], 0)


P_VALUES = [0.01, 0.04, 0.03, 0.005, 0.2]


def test_holm_by_hand() -> None:
    assert holm(P_VALUES) == pytest.approx([0.04, 0.09, 0.09, 0.025, 0.2])
    assert holm([0.5, 0.6]) == [1.0, 1.0]
    assert holm([0.03]) == [0.03]
    assert holm([]) == []


@steady
@given(st.lists(st.floats(0, 1), max_size=12))
def test_adjusted_values_keep_the_order_and_are_never_smaller(p_values: list[float]) -> None:
    adjusted = holm(p_values)
    assert all(p <= high <= 1 for p, high in zip(p_values, adjusted, strict=True))
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    assert [adjusted[i] for i in order] == sorted(adjusted)


def test_holm_errs_as_seldom_as_it_says_over_many_tests() -> None:
    generator = np.random.default_rng(0)
    tables = generator.random((2000, 10))
    assert np.mean([min(holm(list(table))) < 0.05 for table in tables]) < 0.065
    assert np.mean(tables.min(1) < 0.05) > 0.3


def test_what_is_no_p_value_is_an_error() -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        holm([0.1, float("nan")])
