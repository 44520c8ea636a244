"""The twin of a method: one agent that spends the method's tokens on samples of its own answer, and votes."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

from actors.errors import UserError
from actors.messages import Message, Question, Status, Trace
from topologies.baselines import Single
from topologies.defences.majority import vote
from topologies.method import Method, MethodContext
from topologies.topology import SINGLE_AGENT, Ask, Discussion, Topology

Read = Callable[[Question], Awaitable[Question]]


class Twin:
    """Self-consistency (Wang et al. 2022) of the agent that answers alone, with another method's tokens.

    A question has as many samples as the method's tokens on it pay for, and one at least. Tokens that the last sample
    leaves over or lacks count for the next question (error diffusion). So the sums over all questions differ by half a
    sample and by chance in the lengths of last replies. The most frequent answer wins, as in `majority`. The first
    sample is the answer of `single`. Last samples wait for all questions before, which must have been started.

    method: the twin's own name.
    tokens: of the method, prompts and replies, by question in the order in which questions are answered. With 0,
        as for a failed discussion, a question has one sample and nothing is left over.
    known: `left_over` of the questions that an earlier start of the run has answered.
    read: gives a question the evidence that the method read (None: the retrieved evidence stays).
    """

    def __init__(self, method: str, tokens: Mapping[str, int], known: Mapping[str, float], read: Read | None) -> None:
        self.method = method
        self._tokens, self._read = tokens, read
        self._order = {question: place for place, question in enumerate(tokens)}
        loop = asyncio.get_running_loop()
        self._left: list[asyncio.Future[float]] = [loop.create_future() for _ in tokens]
        for question, left in known.items():
            self._left[self._order[question]].set_result(left)

    async def answer(self, question: Question, ask: Ask, seed: int, sample: int = 0) -> Trace:
        if question.id not in self._order:
            raise UserError(f"{self.method}: its method has no recorded discussion of question {question.id}")
        shown, place = await self._read(question) if self._read else question, self._order[question.id]
        held = Discussion(self.method, shown, seed, sample)

        async def take(number: int) -> Message:
            return await ask(held.turn(SINGLE_AGENT, number))  # at 1 that of `single`

        async def more(number: int) -> None:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(take(len(turns) + 1 + i)) for i in range(number)]
            turns.extend(task.result() for task in tasks)

        turns = [await take(1)]
        target = self._tokens[question.id]
        while number := _next(target, turns):
            await more(number)
        mean = tokens_of(turns) / len(turns)
        left = 0.0
        if target and mean:
            for earlier in self._left[:place]:
                left += await earlier
            await more(max(0, round((left + target) / mean) - len(turns)))
        if not self._left[place].done():  # a repeated discussion ends the same
            self._left[place].set_result(left_over(target, turns))
        status = next((turn.status for turn in turns if turn.status is Status.OK), turns[0].status)
        only = (SINGLE_AGENT,)
        return held.trace(only, turns, answer=vote(question, turns), status=status, decision=only)


def tokens_of(turns: Sequence[Message]) -> int:
    """Counts the tokens of prompts and replies. 0 where a turn failed, as its cost is not known."""
    failed = any(turn.status is Status.FAILED for turn in turns)
    return 0 if failed else sum(turn.tokens for turn in turns)


def left_over(target: int, turns: Sequence[Message]) -> float:
    """Counts the tokens of `target` that a question's samples leave over. Negative: they lack some; 0: a sample failed.

    A sample costs the mean of those before the last ones, as the cost of these is not awaited.
    """
    taken = 1
    while number := _next(target, turns[:taken]):
        taken += number
    return target - tokens_of(turns[:taken]) / taken * len(turns) if target and tokens_of(turns) else 0.0


def _next(target: int, turns: Sequence[Message]) -> int:
    """Returns half of the samples that the tokens left pay for at the mean cost."""
    spent = tokens_of(turns)
    return max(0, round((target - spent) * len(turns) / spent)) // 2 if spent else 0


def self_consistency(context: MethodContext) -> Topology:
    """Makes the twin of the team before it in `methods`, with the evidence that `single` reads.

    The most frequent of the sampled answers wins, compared as votes are. Where no tokens are known, it is `single`.
    """
    tokens, left_over = context.known.tokens, context.known.left_over
    return Twin(context.method, tokens, left_over, read=None) if tokens else Single(context.method)


WHAT = "one agent that spends the tokens of the team named before it on samples of its answer, and votes"
METHODS = (
    Method(
        "self_consistency",
        WHAT,
        self_consistency,
        asks_team=False,
        alone=True,
        spends=True,
        rivals=("single", "full"),
    ),
)
