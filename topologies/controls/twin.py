"""The twin of a method: one agent that spends the method's tokens on samples of its own answer, and votes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

from actors.messages import Message, Question, Status, Trace, Turn, derive_seed
from topologies.defences.majority import vote
from topologies.topology import SINGLE_AGENT, Ask, discussion_id

Read = Callable[[Question], Awaitable[Question]]


class Twin:
    """Self-consistency (Wang et al. 2022) of the agent that answers alone, with another method's tokens.

    A question has as many samples as the method's tokens on it pay for, and one at least. What is left over, or was
    spent too much, counts for the next question (error diffusion), so that the sum over all questions is within about
    half a sample of the method's. The most frequent answer wins, as in `majority`. The first sample is the answer of
    `single`. A question waits for those before it with its last samples alone; all before it must have been started.

    Args:
        method: the twin's own name.
        tokens: of the method, prompts and replies, by question in the order in which questions are answered. With 0,
            as for a failed discussion, a question has one sample and nothing is left over.
        known: tokens that an earlier start of the run left over at a question, where it has answered that.
        read: gives a question the evidence that the method read.
    """

    def __init__(self, method: str, tokens: Mapping[str, int], known: Mapping[str, int], read: Read) -> None:
        self.method = method
        self._tokens, self._read = tokens, read
        self._order = {question: place for place, question in enumerate(tokens)}
        loop = asyncio.get_running_loop()
        self._left: list[asyncio.Future[int]] = [loop.create_future() for _ in tokens]
        for question, left in known.items():
            self._left[self._order[question]].set_result(left)

    async def answer(self, question: Question, ask: Ask, seed: int, sample: int = 0) -> Trace:
        shown, place = await self._read(question), self._order[question.id]
        discussion = discussion_id(self.method, question, sample)

        async def take(number: int) -> Message:
            # The seed of `single` at 1; as there, without the method.
            turn_seed = derive_seed(seed, question.id, number, SINGLE_AGENT)
            return await ask(Turn(discussion, shown, SINGLE_AGENT, number, turn_seed))

        async def more(number: int) -> None:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(take(len(turns) + 1 + i)) for i in range(number)]
            turns.extend(task.result() for task in tasks)

        turns = [await take(1)]
        target = self._tokens[question.id]
        # Two fewer than it pays for: questions before it may have spent a sample too much.
        await more(max(0, _samples(target, turns) - 2))
        left = 0
        if target:
            for earlier in self._left[:place]:
                left += await earlier
            while (number := _samples(left + target - tokens_of(turns), turns)) > 0:
                await more(number)
        if not self._left[place].done():  # a repeated discussion ends the same
            self._left[place].set_result(left_over(target, turns))
        return Trace(
            question=question.id,
            method=self.method,
            sample=sample,
            agents=(SINGLE_AGENT,),
            turns=tuple(turns),
            answer=vote(question, turns),
            status=next((turn.status for turn in turns if turn.status is Status.OK), turns[0].status),
            seed=seed,
            evidence=tuple(source.id for source in shown.evidence),
            decision=(SINGLE_AGENT,),
        )


def tokens_of(turns: Sequence[Message]) -> int:
    """Tokens of prompts and replies."""
    return sum(turn.prompt_tokens + turn.completion_tokens for turn in turns)


def left_over(target: int, turns: Sequence[Message]) -> int:
    """Tokens of `target` that the turns of a question left over; none where one failed."""
    failed = any(turn.status is Status.FAILED for turn in turns)
    return target - tokens_of(turns) if target and not failed else 0


def _samples(tokens: int, turns: Sequence[Message]) -> int:
    """Number of samples, of the mean cost of those that were taken, nearest to a number of tokens."""
    spent = tokens_of(turns)
    # A failed sample has no known cost, and its question counts in no mean.
    return round(tokens * len(turns) / spent) if spent and not any(t.status is Status.FAILED for t in turns) else 0
