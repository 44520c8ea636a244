"""MAD: multi-agent debate (Liang et al. 2023; BDoG, section 3 and Fig. 2d): two sides, a moderator and a judge.

The affirmative side answers, and the negative side must answer otherwise; from then on each is asked whether it agrees
with the other, and gives its reasons and its answer. Both remember their own turns and all that they heard. After every
round the moderator, who remembers the whole debate too, names the side that it prefers and the answer: a preference
ends the debate with the moderator's answer. After three rounds without one, a judge who was not there reads the first
answer of each side, lists the candidates, and decides. An unreadable reply is no preference. Where neither side states
anything at first, the judge is not asked.

Zero-shot: hint and picture of the question, nothing retrieved.
"""

from dataclasses import replace
from itertools import chain

from actors.messages import Field, FieldKind, Message, Modality, Role, Status, Task
from topologies.method import system
from topologies.systems.helpers import ANSWER, show_own
from topologies.systems.session import Session, System, answer_of

ROUNDS = 3
# One text for both: the tasks of their turns give them their sides.
DEBATER = (
    "You take part in a debate on the question. The two sides need not come to agree: the aim is to find the right "
    "answer."
)
AFFIRMATIVE = Role("affirmative", Modality.BOTH, DEBATER)
NEGATIVE = Role("negative", Modality.BOTH, DEBATER)
# The role that BDoG's method calls `moderator` is another one.
MODERATOR = Role(
    "debate_moderator",
    Modality.BOTH,
    "You lead a debate of two sides on the question. At the end of each round you weigh what both said against the "
    "question and what is shown.",
)
JUDGE = Role(
    "debate_judge",
    Modality.BOTH,
    "You are the judge of a debate of two sides on the question, in which you took no part, and decide on the answer.",
)
ROLES = (AFFIRMATIVE, NEGATIVE, MODERATOR, JUDGE)

REASONS = Field(FieldKind.THOUGHT, "the reasons for the answer, in a few sentences")
OPEN = Task("Answer the question, and give your reasons.", (REASONS, ANSWER))
OPPOSE = Task(
    "You disagree with the answer that you heard. Give your reasons, and another answer than that one.",
    (REASONS, ANSWER),
)
REPLY = Task(
    "Do you agree with what the other side said last? Give your reasons, and the answer that you hold after them.",
    (REASONS, ANSWER),
)
SIDE = Field(
    FieldKind.SIDE,
    "the side that you prefer, neither where none is clearly the better one yet",
    (AFFIRMATIVE.name, NEGATIVE.name, "neither"),
)
PREFER = Task(
    "This round of the debate is over. Say which side you prefer, and why. A preference ends the debate, with the "
    "answer that you give; without one it goes on.",
    (replace(REASONS, asks="the reasons for your preference", optional=True), SIDE, replace(ANSWER, optional=True)),
)
CANDIDATE = Field(FieldKind.CANDIDATE, "an answer that a side put forward, without its reasons", many=True)
LIST = Task("List the answers that the two sides put forward. Do not decide between them yet.", (CANDIDATE,))
DECIDE = Task("Decide which of the candidates answers the question, and say why.", (REASONS, ANSWER))


class Debate(System):
    """Two sides in turns, a moderator who may end the debate, and else a judge."""

    async def discuss(self, session: Session) -> Message | None:
        await show_own(session, self.context)
        affirmative: list[Message] = []
        negative: list[Message] = []
        for round in range(ROUNDS):
            # Each hears all turns of the other: its memory holds only its own.
            task = REPLY if round else OPEN
            affirmative.append(await session.ask(AFFIRMATIVE.name, task=task, heard=negative, remembers=True))
            task = REPLY if round else OPPOSE
            negative.append(await session.ask(NEGATIVE.name, task=task, heard=affirmative, remembers=True))
            debate = list(chain.from_iterable(zip(affirmative, negative, strict=True)))
            verdict = await session.ask(MODERATOR.name, task=PREFER, heard=debate, remembers=True)
            sides = verdict.values(SIDE.name)
            if sides and sides[-1] in (AFFIRMATIVE.name, NEGATIVE.name) and answer_of(verdict) is not None:
                return verdict

        # The judge decides from the answers of the first round and its own list of them.
        openings = [affirmative[0], negative[0]]
        if not any(message.status is Status.OK for message in openings):
            return None
        await session.ask(JUDGE.name, task=LIST, heard=openings)
        return await session.ask(JUDGE.name, task=DECIDE, heard=openings, remembers=True)


METHODS = (
    system(
        "mad",
        "two debaters, a moderator and a judge, without retrieval",
        Debate,
        ROLES,
        reads=("systems.context",),
        rivals=("sp", "cot"),
        settings={"agents.temperature": 0},
    ),
)
