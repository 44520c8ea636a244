"""DDCoT: duty-distinct chain of thought (Zheng et al. 2023; BDoG, section 3 and Fig. 2b).

1. Divide, in one turn that sees no picture and knows whether there is one: the sub-questions of the question. Each has
   its answer where words and general knowledge settle it; else it is uncertain. So language does not make up what only
   a picture shows.
2. Recognise: each uncertain one is asked about the pictures, by itself.
3. Integrate, in one turn that sees no picture either: all sub-questions with their answers, which may be wrong, lead to
   the reasons and the answer.

The two duties are two roles, of which only one ever sees a picture. There are at most five sub-questions; where none
can be read, the question is its own sub-question. Without a picture, uncertain ones stay uncertain.

Zero-shot: hint and picture of the question, nothing retrieved.
"""

import asyncio
import re
from collections.abc import Mapping, Sequence

from actors.messages import Field, FieldKind, InputLine, Message, Modality, Role, Source, Task, Value
from topologies.method import system
from topologies.systems.helpers import ANSWER, STEPS, pictures_among, show_own
from topologies.systems.session import Session, System, about, answer_of

MOST = 5  # sub-questions, each of which costs a turn
REASONER = Role("divider", Modality.TEXT, "")
RECOGNISER = Role("recogniser", Modality.VISUAL, "")
DIVIDE = (
    "Take the question apart into the sub-questions on which its answer depends. Each asks for one thing and can be "
    "understood by itself; put what has to be seen and what has to be known into different ones. Then answer each of "
    "them in a few words, from what the words say and from what you know for certain. Where that does not settle it, "
    "or it takes a look at a picture, the answer is: uncertain."
)
WITH_PICTURE = "There is a picture with the question, which you cannot see."
WITHOUT_PICTURE = "There is no picture with the question."
PAIRS = Field(FieldKind.SUB_QUESTION, "a sub-question | its short answer, or uncertain", many=True, value=Value.PAIR)
RECOGNISE = Task(
    "Say what the picture shows about this. Where it shows nothing about it, the answer is unknown.", (ANSWER,)
)
INTEGRATE = (
    "Below are sub-questions of the question, with what was found for them, which may be wrong; some may be uncertain. "
    "Think it through step by step, trust what holds up against the question and what you know, and answer the "
    "question."
)
UNCERTAIN = "uncertain"
# The authors' words, and synonyms.
_SAYS_NOTHING = re.compile(
    r"\W*|.*\b(?:uncertain|insufficient|cannot be determined|not provided?|not possible|unknown|unsure|unclear)\b.*",
    re.IGNORECASE | re.DOTALL,
)


class DDCoT(System):
    """Reasoner who divides and integrates without a picture, and a recogniser who sees nothing but pictures."""

    async def discuss(self, session: Session) -> Message:
        await show_own(session, self.context)
        pictures = pictures_among(session.question.evidence)
        words = about(session.question, [source for source in session.question.evidence if source not in pictures])
        picture = WITH_PICTURE if pictures else WITHOUT_PICTURE
        divided = await session.ask(REASONER.name, question=words, task=Task(f"{DIVIDE} {picture}", (PAIRS,)))
        answers = divide(divided.values(PAIRS.name)) or {session.question.text: None}
        if pictures:
            answers |= await self._recognise(session, pictures, answers)

        lines: list[InputLine] = []
        for sub_question, answer in answers.items():
            if answer is None:
                lines.append(InputLine(FieldKind.SUB_QUESTION, sub_question, outcome=UNCERTAIN))
                continue
            # With the question once more: a short answer alone states nothing.
            lines.append(InputLine(FieldKind.SUB_QUESTION, sub_question))
            lines.append(InputLine(FieldKind.FOUND, f"{sub_question.rstrip(' ?')}: {answer}"))
        task = Task(f"{INTEGRATE} {picture}", (STEPS, ANSWER), tuple(lines))
        return await session.ask(REASONER.name, question=words, task=task)

    async def _recognise(
        self, session: Session, pictures: Sequence[Source], answers: Mapping[str, str | None]
    ) -> dict[str, str | None]:
        """Asks the uncertain sub-questions about the pictures."""
        uncertain = [sub_question for sub_question, answer in answers.items() if answer is None]
        questions = [about(session.question, pictures, sub_question) for sub_question in uncertain]
        messages = await asyncio.gather(
            *(session.ask(RECOGNISER.name, question=question, task=RECOGNISE) for question in questions)
        )
        return dict(zip(uncertain, map(answer_of, messages), strict=True))


def divide(lines: Sequence[str]) -> dict[str, str | None]:
    """Reads sub-questions with their answers from lines `question | answer`; None for an uncertain answer."""
    answers: dict[str, str | None] = {}
    for line in lines:
        sub_question, _, answer = (part.strip() for part in line.partition("|"))
        if sub_question and sub_question not in answers and len(answers) < MOST:
            answers[sub_question] = None if _SAYS_NOTHING.fullmatch(answer) else answer
    return answers


METHODS = (
    system(
        "ddcot",
        "sub-questions answered from words or from the picture, then put together, without retrieval",
        DDCoT,
        (REASONER, RECOGNISER),
        reads=("systems.context",),
        rivals=("sp", "cot"),
        settings={"agents.temperature": 0.1},
    ),
)
