"""The form of a reply: its fields, and the choices that an answer is one of."""

from __future__ import annotations

from actors.messages import Field, FieldKind, Turn, Value, wire

ANSWER_FIELDS = (
    Field(FieldKind.REASONING, "one or two sentences that name what the answer rests on", optional=True),
    Field(FieldKind.ANSWER, "the answer in as few words as possible", value=Value.ANSWER),
    Field(FieldKind.CONFIDENCE, "how sure you are, a number from 0 to 1", optional=True, value=Value.SHARE),
)


@wire
class Form:
    """`fields` in the order in which they are asked for. `choices` are the question's, for fields that hold an answer."""

    fields: tuple[Field, ...]
    choices: tuple[str, ...] = ()


def form_of(turn: Turn) -> Form:
    """The form of the reply to a turn: its task's, or that of an answer."""
    return Form(turn.task.fields if turn.task else ANSWER_FIELDS, turn.question.choices)
