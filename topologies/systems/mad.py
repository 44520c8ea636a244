"""MAD: multi-agent debate (Liang et al. 2023; BDoG, section 3 and Fig. 2d), two debaters and a judge.

In every round the affirmative side answers in the light of what the negative side said last, then the negative side
disputes that; each remembers what it said itself. After a round the judge compares the two answers: the debate ends
when they agree, or after three rounds, and the judge, who has read all of it, gives the answer.

Left open and decided: agreement is the judge's word on the two answers (equal wording needs no judge), not the judge's
own certainty; where the judge's word cannot be read, or a side has no answer, the debate goes on. Zero-shot, as in
BDoG: hint and picture of the question, nothing retrieved.
"""

from __future__ import annotations

from actors.messages import Field, FieldKind, Given, Message, Modality, Question, Role, Task, Trace
from topologies.answers import wording
from topologies.method import system
from topologies.systems.session import Session, System, about
from topologies.topology import Ask

ROUNDS = 3
AFFIRMATIVE = Role(
    "affirmative",
    Modality.BOTH,
    "You are the affirmative side of a debate on the question, a scientist. Put forward an answer and the reasons for "
    "it; meet what the other side holds against it, and give it up only for a better argument.",
)
NEGATIVE = Role(
    "negative",
    Modality.BOTH,
    "You are the negative side of a debate on the question, a scientist. Look for what is wrong in what the "
    "affirmative side says and put forward another answer, if there is one that fits better; agree where its case is "
    "sound.",
)
JUDGE = Role(
    "debate_judge",
    Modality.BOTH,
    "You are the judge of a debate and make the decision. Weigh the arguments of both sides against the question and "
    "what is shown, not by who spoke last, and give the one answer that is best argued.",
)
ROLES = (AFFIRMATIVE, NEGATIVE, JUDGE)
COMPARE = "Both sides have given their answers for this round. Say whether these are now the same."
SAME = Field(FieldKind.SAME, "whether Answer 1 and Answer 2 say the same", ("yes", "no"))


class Debate(System):
    """Affirmative and negative side in turns; a judge that ends the debate and answers."""

    async def answer(self, question: Question, ask: Ask, seed: int, sample: int = 0) -> Trace:
        session = self.session(question, ask, seed, sample)
        shown = about(question, await session.own())
        debate: list[Message] = []
        for _ in range(ROUNDS):
            for side in (AFFIRMATIVE, NEGATIVE):
                # What the other side said last; a side's own words come from its memory.
                heard = debate[-1:]
                debate.append(await session.ask(side.name, question=shown, heard=heard, remembers=True))
            if await self._agree(session, shown, *debate[-2:]):
                break
        return session.trace(await session.ask(JUDGE.name, question=shown, heard=debate))

    async def _agree(self, session: Session, shown: Question, affirmative: Message, negative: Message) -> bool:
        if affirmative.answer is None or negative.answer is None:
            return False
        # Saves the judge's turn where there is nothing to judge.
        if wording(affirmative.answer) == wording(negative.answer):
            return True
        task = Task(
            COMPARE,
            (SAME,),
            (Given(FieldKind.ANSWER, affirmative.answer, 1), Given(FieldKind.ANSWER, negative.answer, 2)),
        )
        verdict = await session.ask(JUDGE.name, question=shown, task=task)
        return verdict.said(FieldKind.SAME) == ("yes",)


METHOD = system("mad", "two debaters and a judge, without retrieval", Debate, ROLES)
