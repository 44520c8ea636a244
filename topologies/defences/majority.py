"""Majority of independent answers: no agent hears another, and there is no decision agent."""

import asyncio
from collections.abc import Sequence
from math import fsum

from actors.messages import Message, Question, Status, Trace
from topologies.answers import ballot
from topologies.method import Method
from topologies.topology import Ask, Discussion

Vote = tuple[str | None, float]
"""An answer in its form for comparisons (None: no vote), and the voter's confidence in [0, 1]."""


class Majority:
    """Self-consistency (Wang et al. 2022) over agents instead of samples: each answers once and alone.

    The most frequent answer wins. Each agent takes one turn, no agent decides. It sees answers and confidences. Its
    traces are certified: one agent changes one vote.
    """

    def __init__(self, method: str, agents: Sequence[str]) -> None:
        self.method = method
        self.agents = tuple(agents)

    async def answer(self, question: Question, ask: Ask, seed: int, sample: int = 0) -> Trace:
        held = Discussion(self.method, question, seed, sample)

        async def independent_answer(agent: str) -> Message:
            return await ask(held.turn(agent, 1))

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(independent_answer(agent)) for agent in self.agents]
        turns = tuple(task.result() for task in tasks)
        # One usable answer makes a discussion; where all failed, it has the first failure's status.
        usable = any(turn.status is Status.OK for turn in turns)
        return held.trace(
            self.agents,
            turns,
            answer=vote(question, turns),
            status=Status.OK if usable else turns[0].status,
            decision=self.agents,
            certified=certified(votes_of(question, turns)),
        )


def vote(question: Question, messages: Sequence[Message]) -> str | None:
    """Most frequent answer to a question, in its first speaker's wording; None without any answer.

    Ties go as `plurality` breaks them; a missing confidence counts 0.
    """
    winner = plurality(votes_of(question, messages))
    voters = (message for message in messages if message.status is Status.OK)
    return next((m.answer for m in voters if winner is not None and ballot(question, m.answer) == winner), None)


def votes_of(question: Question, messages: Sequence[Message]) -> list[Vote]:
    """Votes that messages stand for; a failed turn has none."""
    ok = Status.OK
    return [(ballot(question, m.answer) if m.status is ok else None, m.confidence or 0.0) for m in messages]


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
    """Largest f such that no f voters can change the winner of `plurality` by their votes.

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


METHODS = (
    Method(
        "majority",
        "all answer once, alone; the most frequent answer wins",
        lambda context: Majority(context.method, context.agents),
    ),
)
