"""An inference engine's timing without its computing: continuous batching, a token budget a step, a prefix cache."""

import asyncio
import random
from collections import deque
from dataclasses import dataclass
from math import ceil

from actors.messages import Completion, Request

CHARACTERS = 4  # of a prompt, for one token


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast an engine is: a step takes `step_s` and `token_s` for each of its tokens.

    A step has `budget` tokens at most, and `sequences` requests are worked on at once. Replies have between `shortest`
    and `longest` tokens.
    """

    step_s: float = 0.01
    token_s: float = 2.5e-6
    budget: int = 2048
    sequences: int = 64
    shortest: int = 20
    longest: int = 140

    def alone_s(self, prompt: float, reply: float) -> float:
        """Seconds of a request that has the engine for itself; `prompt` tokens are not in the prefix cache."""
        prompt_s = ceil(prompt / self.budget) * self.step_s + prompt * self.token_s
        # The step that ends the prompt gives the reply's first token.
        return prompt_s + (reply - 1) * (self.step_s + self.token_s)

    def full_s(self, prompt: float, reply: float) -> float:
        """Seconds that a request takes of an engine whose steps are all full: no engine needs less for it."""
        steps = max((prompt + reply) / self.budget, reply / self.sequences)
        return steps * self.step_s + (prompt + reply) * self.token_s


@dataclass(slots=True)
class _Sequence:
    prompt: int  # tokens that are still to be read
    reply: int  # tokens that are still to come
    ended: asyncio.Future[None]


class EmulatedEngine:
    """A model that says the same to everybody, as late as an engine of this pace would.

    A step gives each sequence that has read its prompt a token, and reads prompts with what is left of the budget, in
    the order of their arrival. What of a prompt is shared counts once for each `prefix`.
    """

    def __init__(self, pace: Pace, reply: str) -> None:
        self._pace = pace
        self._reply = reply
        self._cached: set[str] = set()
        self._waiting: deque[_Sequence] = deque()
        self._running: list[_Sequence] = []
        self._stepping: asyncio.Task[None] | None = None

    async def complete(self, request: Request) -> Completion:
        shared = (len(request.system) + len(request.shared)) // CHARACTERS
        prompt = shared + len(request.own) // CHARACTERS
        cached = shared if request.prefix in self._cached else 0
        self._cached.add(request.prefix)
        reply = random.Random(request.seed).randint(self._pace.shortest, self._pace.longest)
        sequence = _Sequence(prompt - cached, reply, asyncio.get_running_loop().create_future())
        self._waiting.append(sequence)
        if self._stepping is None or self._stepping.done():
            self._stepping = asyncio.create_task(self._step())
        await sequence.ended
        return Completion(request.id, self._reply, prompt, reply, cached)

    async def _step(self) -> None:
        loop = asyncio.get_running_loop()
        ends = loop.time()
        while self._waiting or self._running:
            while self._waiting and len(self._running) < self._pace.sequences:
                self._running.append(self._waiting.popleft())
            budget = self._pace.budget - sum(not sequence.prompt for sequence in self._running)
            tokens = 0
            for sequence in self._running:
                read = min(sequence.prompt, budget)
                budget -= read
                sequence.prompt -= read
                tokens += read or 1
                sequence.reply -= not sequence.prompt
            # From step to step, not from wake to wake: a machine that wakes late does not make the engine slower.
            ends += self._pace.step_s + tokens * self._pace.token_s
            await asyncio.sleep(max(0.0, ends - loop.time()))
            for sequence in self._running:
                if not sequence.reply and not sequence.ended.done():
                    sequence.ended.set_result(None)
            self._running = [sequence for sequence in self._running if sequence.reply]
