"""Self-Correction: an agent answers, criticises its own answer and revises it (BDoG, section 3 and Fig. 2c).

BDoG gives a feedback function from one rationale to the next, iterated, all from one model, and no code for it. Decided
here: feedback is a verdict and the faults; at most two revisions; it ends when no fault is found, when a revision
repeats the answer, or when a turn fails (the last answer then counts). Zero-shot: the question's own hint and
picture, nothing retrieved.
"""

from __future__ import annotations

from actors.messages import Field, FieldKind, Given, Question, Status, Task, Trace
from topologies.answers import ballot
from topologies.method import system
from topologies.systems.helpers import SOLO, in_view
from topologies.systems.session import System
from topologies.topology import Ask

REVISIONS = 2  # at most
CRITIQUE = (
    "Look over your own answer to the question as if somebody else had given it. Check every step that led to it "
    "against the question and what is shown, and say what is wrong or missing. Find no fault where there is none."
)
FAULTS = Field(FieldKind.THOUGHT, "the faults of the answer, one after another", optional=True)
HOLDS = Field(FieldKind.SUPPORTED, "whether Answer 1 stands after your check", ("yes", "no"))
REVISE = "You found fault with your last answer. Answer anew, and mend what you found wrong; keep what was right."


class SelfCorrection(System):
    """One agent that remembers its turns: answer, critique, revision, critique, ..."""

    async def answer(self, question: Question, ask: Ask, seed: int, sample: int = 0) -> Trace:
        session = self.session(question, ask, seed, sample)
        shown = await in_view(session, self.context)
        answer = await session.ask(SOLO.name, question=shown)
        for _ in range(REVISIONS):
            if answer.status is not Status.OK:
                break
            task = Task(CRITIQUE, (FAULTS, HOLDS), (Given(FieldKind.ANSWER, answer.answer or "unknown", 1),))
            critique = await session.ask(SOLO.name, question=shown, task=task, remembers=True)
            # A critique that failed found no fault either.
            if critique.said(FieldKind.SUPPORTED) != ("no",):
                break
            revised = await session.ask(SOLO.name, question=shown, instruction=REVISE, remembers=True)
            # The same answer again, or none: the last one counts.
            same = ballot(question, revised.answer) == ballot(question, answer.answer)
            if revised.status is not Status.OK or same:
                break
            answer = revised
        return session.trace(answer)


METHOD = system(
    "self_correction",
    "an agent answers, criticises its own answer and revises it, without retrieval",
    SelfCorrection,
    (SOLO,),
    ("context",),
)
