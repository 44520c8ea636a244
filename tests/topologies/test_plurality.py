"""Certificates of plurality votes hold against every substitution of f votes, and fail for f + 1."""

from itertools import combinations, product

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from topologies.defences.majority import Vote, certified, plurality

CONFIDENCES = st.sampled_from([0.0, 0.3, 0.5, 0.9, 1.0])
VOTES = st.lists(st.tuples(st.sampled_from(["a", "b", "c", None]), CONFIDENCES), min_size=1, max_size=6)


def can_change(votes: list[Vote], f: int) -> bool:
    """True if any f voters, with any answers and the least or most confidence, change the winner: by trying all."""
    winner = plurality(votes)
    forged = [(answer, confidence) for answer in ("a", "b", "c", "d", None) for confidence in (0.0, 1.0)]
    for voters in combinations(range(len(votes)), f):
        for said in product(forged, repeat=f):
            changed = dict(zip(voters, said, strict=True))
            if plurality([changed.get(i, vote) for i, vote in enumerate(votes)]) != winner:
                return True
    return False


@given(VOTES)
@hypothesis_settings(max_examples=150)
def test_certificates_are_those_of_brute_force(votes: list[Vote]) -> None:
    f = certified(votes)
    if plurality(votes) is None:
        assert f == 0
    else:
        # Three forged votes are a thousand possibilities for each three voters.
        assert f > 2 or can_change(votes, f + 1)
        assert not f or not can_change(votes, min(f, 3))


@pytest.mark.parametrize(
    ("votes", "f"),
    [
        ([("a", 0.9)] * 9, 4),
        # One vote more, and a tie that one voter's confidence decides: 4 to 4 after the change.
        ([("a", 0.5)] * 5 + [("b", 0.5)] * 4, 0),
        ([("a", 1.0)] * 5 + [("b", 1.0)] * 3, 0),
        ([("a", 1.0)] * 5 + [("b", 0.1)] * 3 + [(None, 0.0)], 1),
        ([("a", 0.5)], 0),
        ([(None, 0.5)] * 3, 0),
    ],
)
def test_certificate_counts_votes_then_confidence_then_order(votes: list[Vote], f: int) -> None:
    assert certified(votes) == f
