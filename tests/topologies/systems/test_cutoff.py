"""Gaussian-mixture cut-offs."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topologies.systems.vidorag import cutoff


def test_two_groups_are_told_apart() -> None:
    assert cutoff([0.91, 0.9, 0.88, 0.31, 0.3, 0.29, 0.28, 0.25]) == 3
    assert cutoff([0.9, 0.21, 0.2, 0.2, 0.19, 0.18]) == 1
    assert cutoff([0.9, 0.89, 0.88, 0.87, 0.86, 0.1]) == 5


@pytest.mark.parametrize("relevant", [2, 5, 9])
def test_as_many_as_were_drawn_from_the_better_component_are_cutoff(relevant: int) -> None:
    random = np.random.default_rng(relevant)
    scores = [*random.normal(0.8, 0.03, relevant), *random.normal(0.3, 0.05, 20 - relevant)]
    assert cutoff(sorted(scores, reverse=True)) == relevant


def test_what_cannot_be_told_apart_is_all_cutoff() -> None:
    assert cutoff([]) == 0
    assert cutoff([0.4]) == 1
    assert cutoff([0.4, 0.1]) == 2
    assert cutoff([0.3] * 6) == 6


def test_the_scale_of_the_scores_makes_no_difference() -> None:
    scores = [17.5, 16.0, 15.5, 4.0, 3.5, 2.0, 1.0]
    assert cutoff(scores) == cutoff([score / 1000 - 3 for score in scores]) == 3


def test_at_least_so_many_are_cutoff() -> None:
    assert cutoff([0.9, 0.2, 0.2, 0.19, 0.18], least=3) == 3
    assert cutoff([0.9, 0.2], least=3) == 2


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
    assert cutoff(scores, least=5, most=10) == theirs


@settings(max_examples=40)
@given(st.lists(st.floats(-1, 1), max_size=20))
def test_some_number_of_the_scores_is_kept_and_the_same_one_every_time(scores: list[float]) -> None:
    ordered = sorted(scores, reverse=True)
    number = cutoff(ordered)
    assert min(1, len(scores)) <= number <= len(scores)
    assert number == cutoff(ordered)
