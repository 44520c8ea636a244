"""Plurality votes of independent voters, and certificates of how many voters cannot change the winner."""

from collections.abc import Sequence
from math import fsum

Vote = tuple[str | None, float]
"""An answer in its form for comparisons (None: no vote), and the voter's confidence in [0, 1]."""


def plurality(votes: Sequence[Vote]) -> str | None:
    """Most frequent answer, None without any.

    Ties go to the larger sum of confidences, then to the earliest voter.
    """
    confidences: dict[str, list[float]] = {}
    for answer, confidence in votes:
        if answer is not None:
            confidences.setdefault(answer, []).append(confidence)
    # `max` keeps the first of equals, and answers are in the order of their first voters. `fsum` rounds once, so the
    # sum does not depend on the order of voters.
    return max(confidences, key=lambda answer: (len(confidences[answer]), fsum(confidences[answer])), default=None)


def certified(votes: Sequence[Vote]) -> int:
    """Largest number f such that no f voters can change the winner of `plurality`, whatever they vote.

    It is exact: the worst f voters are the most confident ones for the winner (of equal ones the earliest), who all
    vote for one other answer with confidence 1. It holds where one voter changes one vote, as of voters that do not
    hear each other (Levine and Feizi 2021; of isolated passages RobustRAG, Xiang et al. 2024).
    """
    winner = plurality(votes)
    for_winner = sorted((i for i, vote in enumerate(votes) if vote[0] == winner), key=lambda i: (-votes[i][1], i))
    # The winner with a letter more is an answer that has no vote, or some other one that is tried anyway.
    others = {answer for answer, _ in votes if answer not in (winner, None)} | {f"{winner}+"}
    for f in range(1, len(for_winner)):
        for other in others:
            if plurality([(other, 1.0) if i in for_winner[:f] else vote for i, vote in enumerate(votes)]) != winner:
                return f - 1
    # All voters for the winner together always change it.
    return 0 if winner is None else len(for_winner) - 1
