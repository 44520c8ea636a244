"""The reply to a task: what is read of each field, and that nothing is guessed where it cannot be read."""

import pytest

from actors.messages import Field, FieldKind, Heard, InputLine, Message, Modality, Question, Role, Task, Turn
from actors.prompting.form import form_of
from actors.prompting.prompt import build_request
from actors.prompting.reply import read, reply_of

ENOUGH = Field(FieldKind.ENOUGH, "whether that suffices", ("yes", "no"))
SUB = Field(FieldKind.SUB_QUESTION, "a smaller question", many=True)
NOTE = Field(FieldKind.THOUGHT, "anything else", optional=True)
TASK = Task("Say what is missing.", (ENOUGH, SUB, NOTE), (InputLine(FieldKind.FOUND, "a bridge\n# not a heading"),))
TURN = Turn("m/q/0", Question("q", "Who built it?"), "single", 1, 7, task=TASK)
FORM = form_of(TURN)
READER = Role("single", Modality.BOTH, "You work alone.")


@pytest.mark.parametrize(
    "text",
    [
        "Enough: no\nSub-question: Who was it?\nSub-question: When was it?",
        "**Enough:** No.\n1. Sub-question: Who was it?\n- **Sub-question**: When was it?",
        "enough: no, because the year is missing\nSUB-QUESTION 1: Who was it?\nSub-question 2: When was it?",
        'Let me see.\nEnough: no\nSub-question: Who\nwas it?\nSub-question: "When was it?"\nThought: none',
        "Enough: no\nSub-questions:\n- Who was it?\n- When was it?",
        '{"enough": "no", "sub_question": ["Who was it?", "When was it?"], "thought": null}',
    ],
)
def test_the_fields_are_read_whatever_models_add_to_them(text: str) -> None:
    reading = read(FORM, text)
    assert reading.faults == ()
    assert reading.values == (("Enough", "no"), ("Sub-question", "Who was it?"), ("Sub-question", "When was it?"))


@pytest.mark.parametrize(
    ("text", "unread"),
    [
        ("", ["Enough", "Sub-question", "Thought"]),
        ("I do not know.", ["Enough", "Sub-question", "Thought"]),
        ("Enough: no", ["Sub-question"]),
        ("Sub-question: Who was it?", ["Enough"]),
        ("Enough: perhaps\nSub-question: Who was it?", ["Enough"]),
        ("Enough: nobody knows\nSub-question: Who was it?", ["Enough"]),
        ("Enough: yes\nEnough: no\nSub-question: Who was it?", ["Enough"]),
        ("Enough: no\nSub-question: none", ["Sub-question"]),
    ],
)
def test_what_must_be_there_and_is_not_is_a_fault(text: str, unread: list[str]) -> None:
    assert [fault.field.name for fault in read(FORM, text).faults] == unread
    assert reply_of(TURN, read(form_of(TURN), text)) is None


def test_a_list_that_was_cut_off_is_not_read_and_what_stands_before_it_is() -> None:
    reading = read(FORM, "Enough: no\nSub-question: Who?\nSub-question: Whe", cut_off=True)
    assert ("Enough", "no") in reading.values
    assert [fault.field.name for fault in reading.faults][:1] == ["Sub-question"]


def test_a_task_stands_behind_all_that_is_shared_and_its_lines_cannot_pass_for_headings() -> None:
    request = build_request(TURN, READER)
    plain = build_request(Turn("m/q/0", TURN.question, "single", 1, 7), READER)
    assert request.shared == plain.shared
    assert request.prefix == plain.prefix
    assert "\nEnough: <whether that suffices: yes or no>\n" in request.own
    assert "\nFound: a bridge # not a heading\n" in request.own


def test_what_was_said_in_a_task_is_read_by_others_without_an_answer_added_to_it() -> None:
    said = Message("1/a", "a", 1, "Enough: yes", fields=(("Enough", "yes"),))
    request = build_request(
        Turn("m/q/0", TURN.question, "b", 2, 7, (Heard(said, 1.0),)), Role("", Modality.BOTH, "You decide.")
    )
    assert "[a, round 1] Enough: yes\n" in request.own
