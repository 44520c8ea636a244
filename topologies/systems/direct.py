"""SP and CoT: one agent answers from the question and its own hint and picture (M3Prune, section 8).

SP gives the answer alone; CoT first writes down the steps that lead to it, at any length. The authors published no code
for these rows. BDoG and CCoT ask for their baselines in the same way, but CoT takes them two calls (the steps, then the
answer with these read) and here one, as M3Prune describes it. Questions of MultimodalQA have neither hint nor picture:
there both use the model's knowledge alone.
"""

from __future__ import annotations

from functools import partial

from actors.messages import Question, Task, Trace
from topologies.method import MethodContext, system
from topologies.systems.helpers import ANSWER, SOLO, STEPS, in_view
from topologies.systems.session import System
from topologies.topology import Ask

DIRECT = Task("Answer the question, without any explanation.", (ANSWER,))
STEP_BY_STEP = Task(
    "Think step by step: say what is asked, what is known about each part, and what follows from that. Only then "
    "answer the question.",
    (STEPS, ANSWER),
)


class Direct(System):
    """One turn of one agent, which does `task`. Nothing is looked up."""

    def __init__(self, context: MethodContext, task: Task) -> None:
        super().__init__(context)
        self._task = task

    async def answer(self, question: Question, ask: Ask, seed: int, sample: int = 0) -> Trace:
        session = self.session(question, ask, seed, sample)
        shown = await in_view(session, self.context)
        return session.trace(await session.ask(SOLO.name, question=shown, task=self._task))


METHODS = (
    system("sp", "one agent answers at once, without retrieval", partial(Direct, task=DIRECT), (SOLO,), ("context",)),
    system(
        "cot",
        "one agent answers step by step, without retrieval",
        partial(Direct, task=STEP_BY_STEP),
        (SOLO,),
        ("context",),
    ),
)
