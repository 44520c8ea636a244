"""Forces substitutions on certified votes of nine agents, and counts those that change the winner:

    python -m tests.instruments.certificates [substitutions]

Half of them are random; the other half vote together for one other answer, as the worst attack does. It also prints how
often one agent more than certified does change the winner.
"""

import random
import sys
import time

from topologies.defences.majority import Vote, certified, plurality

AGENTS, ANSWERS = 9, ("a", "b", "c", "d", None)


def forced(votes: list[Vote], f: int, draw: random.Random, together: bool) -> list[Vote]:
    """Replaces f votes; `together`: the surest ones for the winner, by sure ones for one other answer."""
    winner, changed = plurality(votes), list(votes)
    if together:
        order = sorted(range(len(votes)), key=lambda i: (votes[i][0] != winner, -votes[i][1], i))
        forged = (draw.choice([answer for answer in "abcde" if answer != winner]), 1.0)
        return [forged if i in order[:f] else vote for i, vote in enumerate(changed)]
    for i in draw.sample(range(len(votes)), f):
        changed[i] = (draw.choice(ANSWERS), draw.choice((0.0, draw.random(), 1.0)))
    return changed


def main(substitutions: int) -> None:
    began, draw = time.monotonic(), random.Random(0)
    held = violations = beyond = broken = 0
    by_f: dict[int, int] = {}
    while held < substitutions:
        leaning = draw.random()
        votes: list[Vote] = [
            ("a" if draw.random() < leaning else draw.choice(ANSWERS), draw.choice((0.0, round(draw.random(), 2), 1.0)))
            for _ in range(AGENTS)
        ]
        winner, f = plurality(votes), certified(votes)
        by_f[f] = by_f.get(f, 0) + 1
        for n in range(20 if f else 0):
            violations += plurality(forced(votes, draw.randint(1, f), draw, n % 2 == 0)) != winner
            held += 1
        beyond += 1
        broken += any(plurality(forced(votes, f + 1, draw, True)) != winner for _ in range(8))
    print(f"votes by certificate: {dict(sorted(by_f.items()))}")
    print(f"{held:,} substitutions within the certificate: {violations} changed the winner")
    print(f"one agent more: {broken:,} of {beyond:,} votes changed; {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
