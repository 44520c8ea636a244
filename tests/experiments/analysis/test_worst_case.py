"""The worst case over attacks: its place, its interval, and how often all intervals hold at once."""

import numpy as np
import pytest

from experiments.analysis.worst_case import worst_cases


def test_the_worst_attack_is_the_one_with_the_lowest_mean_over_what_was_asked() -> None:
    scores = np.ones((2, 3, 2, 40))
    scores[0, 1, :, ::2] = 0
    scores[1, 2, 0] = 0
    scores[1, 0, 1, :20] = np.nan
    first, second = worst_cases(scores, 1)
    assert (first.attack, first.mean, second.attack, second.mean) == (1, 0.5, 2, 0.5)
    assert first.ci95[0] < 0.5 < first.ci95[1]
    assert worst_cases(scores, 1) == [first, second]


def test_questions_of_one_cluster_count_once() -> None:
    own = np.random.default_rng(2).integers(2, size=(2, 3, 1, 20)).astype(float)
    once, copied = worst_cases(own, 1), worst_cases(own.repeat(5, axis=3), 1, clusters=np.arange(20).repeat(5).tolist())
    assert [one.mean for one in copied] == [one.mean for one in once]
    for one, five in zip(once, copied, strict=True):
        assert five.ci95 == pytest.approx(one.ci95, abs=1e-9)


def test_equal_scores_of_few_questions_are_no_certainty() -> None:
    [few] = worst_cases(np.ones((1, 2, 1, 5)), 1)
    [many] = worst_cases(np.ones((1, 2, 1, 500)), 1)
    assert few.ci95[0] < many.ci95[0] <= 1.0


def test_all_worst_cases_lie_in_their_intervals_in_nineteen_of_twenty_studies() -> None:
    generator, held = np.random.default_rng(4), []
    for study in range(200):
        truth = generator.uniform(0.3, 0.6, size=(5, 6))
        # Questions differ in difficulty, which all cells share.
        hard = generator.normal(0, 0.15, size=100)
        chances = (truth[..., None] + hard).clip(0, 1)
        scores = (generator.random(chances.shape) < chances).astype(float)[:, :, None]
        lowest = truth.min(axis=1)
        found = worst_cases(scores, study, draws=400)
        held.append(
            all(low <= value <= high for (low, high), value in zip([f.ci95 for f in found], lowest, strict=True))
        )
    assert np.mean(held) >= 0.91  # 2.5 deviations below .95
