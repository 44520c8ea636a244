"""Majority of independent answers: no agent hears another, and there is no decision agent."""

import asyncio
from collections.abc import Sequence

from actors.messages import Message, Question, Status, Trace
from topologies.answers import ballot
from topologies.method import Method
from topologies.plurality import Vote, certified, plurality
from topologies.topology import Ask, Discussion


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


METHODS = (
    Method(
        "majority",
        "all answer once by themselves and the most frequent answer wins",
        lambda context: Majority(context.method, context.agents),
    ),
)
