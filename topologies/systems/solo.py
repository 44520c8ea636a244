"""What the systems without retrieval share: an agent that answers alone, its forms, and what it is shown.

The agent has no role text, as in the papers and in the code of BDoG, CCoT and DDCoT: the prompt is the question, what
is part of it, the task and the form of the reply.
"""

from __future__ import annotations

from actors.messages import Field, FieldKind, Modality, Question, Role, Value
from topologies.method import MethodContext
from topologies.systems.helpers import together
from topologies.systems.session import Session, about

SOLO = Role("solo", Modality.BOTH, "")
STEPS = Field(FieldKind.THOUGHT, "the steps that lead to the answer, one after another, as long as it takes")
ANSWER = Field(FieldKind.ANSWER, "the answer itself in as few words as possible", value=Value.ANSWER)


IN_VIEW = ("context",)  # the settings that `in_view` goes by


async def in_view(session: Session, context: MethodContext) -> Question:
    """The question with its own hint and picture, and with `systems.context=retrieved` what was retrieved for it.

    One helper for all these systems, so that the methods of a table are shown the same.
    """
    own = await session.own()
    found = session.question.evidence if context.systems.context == "retrieved" else ()
    return about(session.question, together(own, found))
