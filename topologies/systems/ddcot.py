"""DDCoT: duty-distinct chain of thought (Zheng et al. 2023; BDoG, section 3 and Fig. 2b).

1. Deconstruct: all sub-questions at once. 2. Divide the duties: which of them need a picture is decided without seeing
one, so that language does not make up what only a picture shows. 3. The textual ones are answered from text alone, the
visual ones from the pictures alone. 4. Joint reasoning over all sub-answers gives a rationale, which may overrule
them. 5. The answer, with the rationale read.

Left open and decided: one model plays both the language and the vision model; at most five sub-questions. The question
is its own sub-question where deconstruction fails; a sub-question without a readable duty is left to the pictures; a
visual one without a picture, or one that gets no answer, stays uncertain; without a rationale the answer is a direct
one. Zero-shot: hint and picture of the question, nothing retrieved.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from actors.messages import Field, FieldKind, Given, Message, Question, Source, Task, Trace
from topologies.method import system
from topologies.single import SINGLE_AGENT
from topologies.systems.helpers import pictures_among
from topologies.systems.session import Session, System, about
from topologies.topology import Ask

MOST = 5  # sub-questions that are kept, each worth two turns
DECONSTRUCT = (
    "Take the question apart into the basic sub-questions on which its answer depends. Each asks for one thing and can "
    "be understood by itself; put what has to be seen and what has to be known into different ones."
)
SUB_QUESTION = Field(FieldKind.SUB_QUESTION, "one sub-question", many=True)
DIVIDE = (
    "Decide who is to answer this: you, from what the words say and from what you know, or somebody who looks at the "
    "picture. You cannot see the picture; when in doubt, leave it to the picture."
)
VISUAL = Field(FieldKind.VISUAL, "whether a picture has to be looked at", ("yes", "no"))
RECOGNISE = "Say only what the picture shows about this. Where it shows nothing about it, the answer is unknown."
KNOW = "Answer from the words and from what you know for certain. Where that does not settle it, the answer is unknown."
JOIN = (
    "Below are sub-questions and what was found for some of them; what was found may be wrong, and what has nothing "
    "found is uncertain. Think it through against the question and the picture, and say what follows for the question."
)
RATIONALE = Field(FieldKind.SUMMARY, "the reasoning that leads to the answer, in a few sentences")
CONCLUDE = "Follow the summary of the reasoning where it holds up against the question and the picture, and answer."


class DDCoT(System):
    """One agent that takes a question apart, answers each part in its own modality, and puts them together."""

    async def answer(self, question: Question, ask: Ask, seed: int, sample: int = 0) -> Trace:
        session = self.session(question, ask, seed, sample)
        own = await session.own()
        shown = about(question, own)
        deconstructed = await session.ask(SINGLE_AGENT, question=shown, task=Task(DECONSTRUCT, (SUB_QUESTION,)))
        # Each sub-question once and in its order: a repeated one would only cost turns.
        parts = tuple(dict.fromkeys(deconstructed.said(FieldKind.SUB_QUESTION)))[:MOST] or (question.text,)
        duties = await asyncio.gather(
            *(
                # No evidence at all: whoever divides the duties must not see the picture.
                session.ask(SINGLE_AGENT, question=about(question, (), part), task=Task(DIVIDE, (VISUAL,)))
                for part in parts
            )
        )
        answers = await self._answers(session, own, parts, [duty.said(FieldKind.VISUAL) != ("no",) for duty in duties])
        joint = Task(JOIN, (RATIONALE,), tuple(_given(parts, answers)))
        rationale = await session.ask(SINGLE_AGENT, question=shown, task=joint)
        return session.trace(await session.ask(SINGLE_AGENT, question=shown, heard=[rationale], instruction=CONCLUDE))

    async def _answers(
        self, session: Session, own: Sequence[Source], parts: Sequence[str], visual: Sequence[bool]
    ) -> list[str | None]:
        """The answer to each part, None where it stays uncertain."""
        pictures = pictures_among(own)
        texts = [source for source in own if source not in pictures]
        answered = {n for n in range(len(parts)) if pictures or not visual[n]}
        messages: list[Message] = await asyncio.gather(
            *(
                session.ask(
                    SINGLE_AGENT,
                    question=about(session.question, pictures if visual[n] else texts, parts[n]),
                    instruction=RECOGNISE if visual[n] else KNOW,
                )
                # Sorted, because turns are numbered in the order in which they are called for.
                for n in sorted(answered)
            )
        )
        replies = dict(zip(sorted(answered), messages, strict=True))
        return [replies[n].answer if n in replies else None for n in range(len(parts))]


def _given(parts: Sequence[str], answers: Sequence[str | None]) -> list[Given]:
    lines: list[Given] = []
    for part, answer in zip(parts, answers, strict=True):
        lines.append(Given(FieldKind.SUB_QUESTION, part))
        if answer is not None:
            lines.append(Given(FieldKind.FOUND, f"{part.rstrip(' ?')}: {answer}"))
    return lines


METHOD = system(
    "ddcot", "sub-questions answered from text or from the picture, then joint reasoning, without retrieval", DDCoT
)
