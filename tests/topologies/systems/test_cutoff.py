"""Gaussian-mixture cut-offs."""

from collections.abc import Iterable
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topologies.systems.vidorag import better_component


def test_two_groups_are_told_apart() -> None:
    assert better_component([0.91, 0.9, 0.88, 0.31, 0.3, 0.29, 0.28, 0.25], 1, 8) == [0, 1, 2]
    assert better_component([0.9, 0.21, 0.2, 0.2, 0.19, 0.18], 1, 6) == [0]
    assert better_component([0.9, 0.89, 0.88, 0.87, 0.86, 0.1], 1, 6) == [0, 1, 2, 3, 4]


def test_what_cannot_be_told_apart_is_all_kept() -> None:
    assert better_component([], 5, 10) == []
    assert better_component([0.4], 5, 10) == [0]
    assert better_component([0.4, 0.1], 5, 10) == [0, 1]
    assert better_component([0.3] * 6, 1, 10) == list(range(6))


def test_too_few_are_filled_up_and_too_many_are_cut() -> None:
    assert better_component([0.9, 0.2, 0.2, 0.19, 0.18], 3, 10) == [0, 1, 2]
    assert better_component([0.9, 0.2], 3, 10) == [0, 1]
    assert better_component([0.9, 0.89, 0.88, 0.87, 0.86, 0.1], 1, 2) == [0, 1]


def random_scores() -> list[tuple[list[float], int]]:
    """Lists of scores, best first, and how many of each the code of ViDoRAG's authors keeps of ten wanted."""
    random = np.random.default_rng(0)

    def best_first(*groups: Iterable[float]) -> list[float]:
        return sorted((float(score) for group in groups for score in group), reverse=True)

    return [
        (best_first([0.9, 0.88], random.normal(0.3, 0.02, 18)), 5),
        (best_first(random.normal(0.8, 0.02, 7), random.normal(0.3, 0.02, 13)), 7),
        (best_first(random.normal(0.8, 0.02, 14), random.normal(0.3, 0.02, 6)), 10),
        (best_first(np.linspace(0.6, 0.4, 20)), 10),
        (best_first(random.normal(0.5, 0.01, 20)), 8),
        (best_first(random.normal(0.6, 0.15, 10), random.normal(0.35, 0.01, 10)), 10),
        (best_first([0.9, 0.5, 0.5, 0.49, 0.4, 0.1]), 5),
        (best_first(random.normal(16, 0.8, 4), random.normal(11, 0.7, 16)), 5),
        ([0.5, 0.1], 2),
        ([0.5] * 20, 10),
    ]


@pytest.mark.parametrize(("scores", "theirs"), random_scores())
def test_with_a_floor_of_five_and_a_cap_as_many_are_kept_as_by_the_authors_code(
    scores: list[float], theirs: int
) -> None:
    assert len(better_component(scores, 5, 10)) == theirs


# What the authors' own function keeps of twenty scores without a gap: cosines, and sums of late interaction.
SMOOTH = [
    (
        "0.5817 0.58 0.5568 0.5374 0.521 0.5136 0.5101 0.5055 0.4958 0.4876 0.4756 0.4724 0.4685 0.4608 0.4599 0.4521 "
        "0.4418 0.4383 0.4338 0.4134",
        [0, 1, 2, 3, 4, 5, 6, 7],
    ),
    (
        "0.6251 0.6228 0.5882 0.5648 0.5323 0.5309 0.519 0.5114 0.5079 0.5061 0.506 0.4972 0.4908 0.4882 0.479 0.4776 "
        "0.4594 0.4519 0.4513 0.3802",
        [0, 1, 2, 3, 4, 5, 19],
    ),
    (
        "14.3983 13.7374 13.5506 13.3315 12.8455 12.8136 12.4582 12.3958 12.2034 12.076 11.8142 11.7754 11.643 11.5558 "
        "11.5437 11.5385 11.5036 11.2205 11.2188 10.7288",
        [0, 1, 2, 3, 4, 5],
    ),
    (
        "15.2814 13.5079 13.4628 13.4208 13.138 12.6265 12.5943 12.4865 12.4678 12.3151 12.1443 11.8555 11.8346 "
        "11.8268 11.6473 11.3394 11.2851 11.0842 11.0332 9.4163",
        [0, 1, 2, 3, 19],
    ),
]


@pytest.mark.parametrize(("scores", "theirs"), SMOOTH)
def test_of_scores_without_a_gap_the_same_are_kept_as_by_the_authors_code(scores: str, theirs: list[int]) -> None:
    assert better_component([float(score) for score in scores.split()], 5, 10) == theirs


@settings(max_examples=40)
@given(st.lists(st.decimals(-1, 1, places=3), max_size=20))
def test_the_best_scores_are_kept_and_the_same_ones_every_time(drawn: list[Decimal]) -> None:
    scores = sorted(map(float, drawn), reverse=True)
    places = better_component(scores, 5, 10)
    assert len(places) == len(set(places))
    assert set(places) <= set(range(len(scores)))
    assert min(5, len(scores)) <= len(places) <= 10
    assert places[:1] == [0][: len(scores)]
    assert places == better_component(scores, 5, 10)
