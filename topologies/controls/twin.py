"""The twin of a method: one agent that spends the method's tokens on samples of its answer, and votes."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

from actors.errors import UserError
from actors.messages import Message, Question, Status, Trace
from topologies.baselines import Single
from topologies.defences.majority import vote
from topologies.method import Method, MethodContext
from topologies.topology import SINGLE_AGENT, Ask, Discussion, Topology, ask_together

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
    left_before: `left_over` of the questions that an earlier start of the run has answered.
    read: gives a question the evidence that the method read (None: the retrieved evidence stays).
    """

    def __init__(
        self, method: str, tokens: Mapping[str, int], left_before: Mapping[str, float], read: Read | None
    ) -> None:
        self.method = method
        self._tokens = tokens
        self._read = read
        # By question, in the order in which they are answered.
        loop = asyncio.get_running_loop()
        self._left_over = {question: loop.create_future() for question in tokens}
        for question, tokens_left in left_before.items():
            self._left_over[question].set_result(tokens_left)

    async def answer(self, question: Question, ask: Ask, seed: int, sample: int = 0) -> Trace:
        if question.id not in self._tokens:
            raise UserError(f"{self.method}: its method has no recorded discussion of question {question.id}")
        question_read = await self._read(question) if self._read else question
        discussion = Discussion(self.method, question_read, seed, sample)
        # At 1 that of `single`.
        turns = [await ask(discussion.turn(SINGLE_AGENT, 1))]

        async def take(samples: int) -> None:
            numbers = range(len(turns) + 1, len(turns) + samples + 1)
            turns.extend(await ask_together(ask, [discussion.turn(SINGLE_AGENT, number) for number in numbers]))

        target = self._tokens[question.id]
        while samples := _half_affordable(target, turns):
            await take(samples)
        mean = tokens_of(turns) / len(turns)
        if target and mean:
            budget = target + await self._left_before(question)
            await take(max(0, round(budget / mean) - len(turns)))
        future = self._left_over[question.id]
        if not future.done():  # a repeated discussion ends the same
            future.set_result(left_over(target, turns))

        status = next((turn.status for turn in turns if turn.status is Status.OK), turns[0].status)
        team = (SINGLE_AGENT,)
        return discussion.trace(team, turns, answer=vote(question, turns), status=status, decision=team)

    async def _left_before(self, question: Question) -> float:
        """Waits for the questions before this one. Returns the tokens that they leave over."""
        tokens = 0.0
        for earlier, future in self._left_over.items():
            if earlier == question.id:
                break
            tokens += await future
        return tokens


def tokens_of(turns: Sequence[Message]) -> int:
    """Counts the tokens of prompts and replies. 0 where a turn failed, as its cost is not known."""
    if any(turn.status is Status.FAILED for turn in turns):
        return 0
    return sum(turn.tokens for turn in turns)


def left_over(target: int, turns: Sequence[Message]) -> float:
    """Counts the tokens of `target` that a question's samples leave over. Negative: they lack some; 0: a sample failed.

    A sample costs the mean of those before the last ones, as the cost of these is not awaited.
    """
    if not target or not tokens_of(turns):
        return 0.0
    awaited = 1
    while samples := _half_affordable(target, turns[:awaited]):
        awaited += samples
    return target - tokens_of(turns[:awaited]) / awaited * len(turns)


def _half_affordable(target: int, turns: Sequence[Message]) -> int:
    """Returns half of the samples that the tokens left pay for at the mean cost."""
    tokens_spent = tokens_of(turns)
    if not tokens_spent:
        return 0
    return max(0, round((target - tokens_spent) * len(turns) / tokens_spent)) // 2


def self_consistency(context: MethodContext) -> Topology:
    """Makes the twin of the team before it in `methods`, with the evidence that `single` reads.

    The most frequent of the sampled answers wins, compared as votes are. Where no tokens are known, it is `single`.
    """
    known = context.known
    if not known.tokens:
        return Single(context.method)
    return Twin(context.method, known.tokens, known.left_over, read=None)


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
