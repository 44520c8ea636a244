"""The lines of a task's reply: what is read off them, and that nothing is guessed where they cannot be read."""

from __future__ import annotations

import pytest
from actors.prompting.fields import parse_fields
from hypothesis import given
from hypothesis import strategies as st

from actors.agents.agent import RoleAgent
from actors.messages import (
    Completion,
    Field,
    FieldKind,
    Given,
    Message,
    Modality,
    Question,
    Request,
    Role,
    Status,
    Task,
    Turn,
)
from actors.prompting.prompt import build_request
from actors.prompting.reply import read_reply

ENOUGH = Field(FieldKind.ENOUGH, "whether that suffices", ("yes", "no"))
SUB = Field(FieldKind.SUB_QUESTION, "a smaller question", many=True)
NOTE = Field(FieldKind.THOUGHT, "anything else", optional=True)
TASK = Task("Say what is missing.", (ENOUGH, SUB, NOTE), (Given(FieldKind.FOUND, "a bridge\n# not a heading"),))
TURN = Turn("m/q/0", Question("q", "Who built it?"), "single", 1, 7, task=TASK)
READER = Role("single", Modality.BOTH, "You work alone.")


@pytest.mark.parametrize(
    "text",
    [
        "Enough: no\nSub-question: Who was it?\nSub-question: When was it?",
        "**Enough:** No.\n1. Sub-question: Who was it?\n- **Sub-question**: When was it?",
        "enough: no, because the year is missing\nSUB-QUESTION 1: Who was it?\nSub-question 2: When was it?",
        'Let me see.\nEnough: yes\nEnough: no\nSub-question: Who\nwas it?\nSub-question: "When was it?"\nThought: none',
    ],
)
def test_the_lines_are_read_whatever_models_add_to_them(text: str) -> None:
    assert parse_fields(text, TASK.fields) == (
        ("Enough", "no"),
        ("Sub-question", "Who was it?"),
        ("Sub-question", "When was it?"),
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "I do not know.",
        "Enough: no",
        "Sub-question: Who was it?",
        "Enough: perhaps\nSub-question: Who was it?",
        "Enough: nobody knows\nSub-question: Who was it?",
        "Enough: no\nSub-question: none",
    ],
)
def test_a_reply_without_what_it_must_have_is_not_read(text: str) -> None:
    assert parse_fields(text, TASK.fields) is None


@given(st.text(max_size=300))
def test_any_text_is_read_as_what_was_asked_for_or_not_at_all(text: str) -> None:
    found = parse_fields(text, TASK.fields)
    if found is not None:
        assert {"Enough", "Sub-question"} <= {name for name, _ in found} <= {"Enough", "Sub-question", "Thought"}
        assert all(value for _, value in found)
        assert [value for name, value in found if name == "Enough"] in (["yes"], ["no"])


def test_what_was_thought_is_not_said_and_a_line_cut_off_is_not_read() -> None:
    text = "<think>Enough: yes</think>Enough: no\nSub-question: Who?\nSub-question: Whe"
    reply = read_reply(TURN, text, cut_off=True)
    assert reply is not None
    assert reply.fields == (("Enough", "no"), ("Sub-question", "Who?"))
    assert reply.answer is None


def test_a_task_stands_behind_all_that_is_shared_and_its_lines_cannot_pass_for_headings() -> None:
    request = build_request(TURN, READER.modality, READER.instruction)
    plain = build_request(Turn("m/q/0", TURN.question, "single", 1, 7), READER.modality, READER.instruction)
    assert request.shared == plain.shared
    assert request.prefix == plain.prefix
    assert "Enough: whether that suffices; one of yes | no" in request.own
    assert "\nFound: a bridge # not a heading\n" in request.own


class Scripted:
    """A model that gives its replies in turn and keeps what it was asked."""

    def __init__(self, *replies: str) -> None:
        self.replies, self.asked = list(replies), list[Request]()

    async def complete(self, request: Request) -> Completion:
        self.asked.append(request)
        return Completion(request.id, self.replies.pop(0), 10, 5)


async def test_an_agent_asks_once_more_for_the_form_and_then_says_what_it_was_told() -> None:
    model = Scripted("Hm.", "Enough: yes\nSub-question: Who?")
    message, _ = await RoleAgent(READER, model).take(TURN)
    assert message.status is Status.OK
    assert message.fields == (("Enough", "yes"), ("Sub-question", "Who?"))
    assert message.said("Sub-question") == ("Who?",)
    assert message.calls == 2
    assert model.asked[1].own.startswith(model.asked[0].own)
    assert model.asked[1].own.endswith("Thought: anything else; this line may be left out")


async def test_an_agent_that_keeps_to_no_form_has_said_nothing() -> None:
    message, _ = await RoleAgent(READER, Scripted("Hm.", "Hm.")).take(TURN)
    assert (message.status, message.fields, message.answer) == (Status.UNPARSED, (), None)
    assert message.said("Enough") == ()


def test_what_was_said_in_a_task_is_read_by_others_without_an_answer_added_to_it() -> None:
    from actors.messages import Heard

    said = Message("1/a", "a", 1, "Enough: yes", fields=(("Enough", "yes"),))
    request = build_request(Turn("m/q/0", TURN.question, "b", 2, 7, (Heard(said, 1.0),)), Modality.BOTH, "You decide.")
    assert "[a, round 1] Enough: yes\n" in request.own
