"""Zero-shot baselines of one agent, from the question and its own hint and picture: SP, CoT, CCoT, Self-Correction.

SP and CoT (M3Prune, section 8): SP gives the answer alone; CoT first writes down the steps that lead to it, at any
length, in the same turn. Questions of MultimodalQA have neither hint nor picture: both use the model's knowledge.

CCoT: compositional chain of thought (Mitra et al. 2024; BDoG, section 2.3). A scene graph takes the place of the
rationale: objects, attributes and relations that bear on the question, drawn from the pictures with question and hint
in view. Then the question is answered with pictures and graph, or directly where it has no picture.

Self-Correction: an agent answers, criticises its own answer and revises it (BDoG, section 3 and Fig. 2c). BDoG gives a
feedback function from one rationale to the next, iterated, all from one model. Decided here: feedback is
a verdict and the faults; at most two revisions; it ends when no fault is found, when a revision repeats the answer, or
when a turn fails (the last answer then counts).
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from actors.messages import Field, FieldKind, Message, Status, Task, Value
from topologies.answers import ballot
from topologies.method import Method, MethodContext, system
from topologies.systems.helpers import ANSWER, SOLO, STEPS, pictures_among, show_own
from topologies.systems.session import Session, System, input_lines
from topologies.topology import Topology

DIRECT = Task("Answer the question, without any explanation.", (ANSWER,))
STEP_BY_STEP = Task(
    "Think step by step: say what is asked, what is known about each part, and what follows from that. Only then "
    "answer the question.",
    (STEPS, ANSWER),
)

SCENE_GRAPH = (
    "Draw up the scene graph of the pictures for this question: the objects in them that bear on it, their attributes "
    "(colour, number, lettering, state) and how the objects relate to each other. Only what can be seen."
)
EDGE = Field(
    FieldKind.TRIPLE, "object | relation | object, or object | attribute | value", many=True, value=Value.TRIPLE
)
WITH_GRAPH = (
    "The triples below are the scene graph of the pictures. Answer the question from the pictures and this graph, "
    "without any explanation."
)

REVISIONS = 2  # at most
CRITIQUE = (
    "Look over your own answer to the question as if somebody else had given it. Check every step that led to it "
    "against the question and what is shown, and say what is wrong or missing. Find no fault where there is none."
)
FAULTS = Field(FieldKind.THOUGHT, "the faults of the answer, one after another", optional=True)
HOLDS = Field(FieldKind.SUPPORTED, "whether Answer 1 stands after your check", ("yes", "no"))
REVISE = "You found fault with your last answer. Answer anew, and mend what you found wrong; keep what was right."


class Direct(System):
    """One turn of one agent, which does `task`. Nothing is looked up."""

    def __init__(self, context: MethodContext, task: Task) -> None:
        super().__init__(context)
        self._task = task

    async def discuss(self, session: Session) -> Message:
        await show_own(session, self.context)
        return await session.ask(SOLO.name, task=self._task)


class CCoT(System):
    """Two turns of one agent: the pictures' scene graph, and the answer with it."""

    async def discuss(self, session: Session) -> Message:
        await show_own(session, self.context)
        triples: tuple[str, ...] = ()
        if pictures_among(session.question.evidence):
            graph = await session.ask(SOLO.name, task=Task(SCENE_GRAPH, (EDGE,)))
            triples = graph.values(EDGE.name)
        # As lines of the task instead of a message: there is no other agent to weigh.
        task = Task(WITH_GRAPH, (ANSWER,), input_lines(FieldKind.TRIPLE, triples)) if triples else DIRECT
        return await session.ask(SOLO.name, task=task)


class SelfCorrection(System):
    """One agent that remembers its turns: answer, critique, revision, critique, ..."""

    async def discuss(self, session: Session) -> Message:
        await show_own(session, self.context)
        answer = await session.ask(SOLO.name)
        for _ in range(REVISIONS):
            if answer.status is not Status.OK:
                break
            lines = input_lines(FieldKind.ANSWER, [answer.answer or "unknown"], numbered=True)
            critique = await session.ask(SOLO.name, task=Task(CRITIQUE, (FAULTS, HOLDS), lines), remembers=True)
            # A critique that failed found no fault either.
            if critique.values(FieldKind.SUPPORTED) != ("no",):
                break
            revised = await session.ask(SOLO.name, instruction=REVISE, remembers=True)
            repeated = ballot(session.question, revised.answer) == ballot(session.question, answer.answer)
            # The same answer again, or none: the last one counts.
            if revised.status is not Status.OK or repeated:
                break
            answer = revised
        return answer


def _solo(name: str, description: str, make: Callable[[MethodContext], Topology], **declared: Any) -> Method:
    """Makes the method of one agent that reads the question's own evidence, or retrieved evidence."""
    return system(name, f"{description}, without retrieval", make, (SOLO,), reads=("systems.context",), **declared)


METHODS = (
    _solo("sp", "one agent answers at once", partial(Direct, task=DIRECT)),
    _solo(
        "cot",
        "one agent answers step by step",
        partial(Direct, task=STEP_BY_STEP),
        rivals=("sp",),
        settings={"agents.max_tokens": 1024},
    ),
    _solo(
        "self_correction",
        "an agent answers, criticises its own answer and revises it",
        SelfCorrection,
        rivals=("sp", "cot"),
    ),
    _solo(
        "ccot",
        "a scene graph of the pictures, then the answer with it",
        CCoT,
        rivals=("sp", "cot"),
        settings={"agents.temperature": 0},
    ),
)
