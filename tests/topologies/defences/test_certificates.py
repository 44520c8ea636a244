"""No substitution within a certificate changes a vote's winner, and one agent more does."""

import random

from topologies.defences.majority import Vote, certified, plurality

AGENTS = 9
ANSWERS = ("a", "b", "c", "d", None)


def drawn_votes(chance: random.Random) -> list[Vote]:
    agreement = chance.random()
    answers = ["a" if chance.random() < agreement else chance.choice(ANSWERS) for _ in range(AGENTS)]
    return [(answer, chance.choice((0.0, round(chance.random(), 2), 1.0))) for answer in answers]


def forged(votes: list[Vote], number: int, chance: random.Random) -> list[Vote]:
    """Replaces some votes at random."""
    changed = list(votes)
    for place in chance.sample(range(AGENTS), number):
        changed[place] = (chance.choice(ANSWERS), chance.choice((0.0, chance.random(), 1.0)))
    return changed


def attacked(votes: list[Vote], number: int) -> list[list[Vote]]:
    """Replaces the surest votes for the winner by sure ones for each other answer: the worst attack."""
    winner = plurality(votes)
    order = sorted(range(AGENTS), key=lambda place: (votes[place][0] != winner, -votes[place][1], place))
    liars = order[:number]
    return [
        [(answer, 1.0) if place in liars else vote for place, vote in enumerate(votes)]
        for answer in "abcde"
        if answer != winner
    ]


def test_a_certificate_is_the_largest_number_of_agents_that_change_nothing() -> None:
    chance = random.Random(0)
    for _ in range(1_000):
        votes = drawn_votes(chance)
        winner, bound = plurality(votes), certified(votes)
        if winner is None:
            continue
        for _ in range(10):
            assert plurality(forged(votes, bound, chance)) == winner
        assert all(plurality(changed) == winner for changed in attacked(votes, bound))
        assert any(plurality(changed) != winner for changed in attacked(votes, bound + 1))
