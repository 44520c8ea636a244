"""SP and CoT: one agent answers with nothing but the question and what is part of it (M3Prune, section 8).

SP answers directly from the question; CoT first writes down the steps that lead to the answer. Both are zero-shot
there: what they show of a question is its own hint and picture, and nothing is retrieved. On MultimodalQA, whose
questions have neither, they go by the model's knowledge alone.
"""

from __future__ import annotations

from functools import partial

from actors.messages import Question, Trace
from topologies.method import MethodContext, system
from topologies.single import SINGLE_AGENT
from topologies.systems.session import System, about
from topologies.topology import Ask

DIRECT = "Answer at once, from what you know and what is shown. Keep the reasoning to a few words."
STEP_BY_STEP = (
    "Think step by step: say what is asked, what is known about each part, and what follows from that, one step after "
    "another, as long as it takes, all in the line of the reasoning, and only then answer."
)


class Direct(System):
    """One turn of one agent under `instruction`. Nothing is retrieved: it is shown the question's own sources only."""

    def __init__(self, context: MethodContext, instruction: str) -> None:
        super().__init__(context)
        self._instruction = instruction

    async def answer(self, question: Question, ask: Ask, seed: int, sample: int = 0) -> Trace:
        session = self.session(question, ask, seed, sample)
        shown = about(question, await session.own())
        return session.trace(await session.ask(SINGLE_AGENT, question=shown, instruction=self._instruction))


METHODS = (
    system("sp", "one agent answers at once, without retrieval", partial(Direct, instruction=DIRECT)),
    system("cot", "one agent answers step by step, without retrieval", partial(Direct, instruction=STEP_BY_STEP)),
)
