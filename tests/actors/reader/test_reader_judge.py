"""The embedded reader as a judge: it compares words, numbers and parts, and nothing else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.messages import FieldKind, Grading, Modality, Question, Role, Turn
from actors.prompting.prompt import build_request
from actors.prompting.reply import read
from actors.reader.grading import compare, verdict
from actors.reader.reader import Reader, ReaderSettings
from experiments.datasets.item import Item
from experiments.judging.judge import GRADED_ANSWER, REFERENCE, grading_request
from experiments.judging.rubric import GRADED

ANIMALS = ("dog", "cat", "black cat")


def graded(*gold: str, answer: str, choices: tuple[str, ...] = ()) -> int:
    asked = grading_request(Item(Question("q", "Which one is it?", choices), gold), answer)
    return grade_of(Reader(ReaderSettings()).read(asked).text)


def grade_of(reply: str) -> int:
    grade = read(GRADED.form, reply).value(FieldKind.GRADE)
    assert grade is not None
    return int(grade)


@pytest.mark.parametrize(
    ("gold", "answer", "grade"),
    [
        ("Paris", "paris.", 5),
        ("Paris", "It is Paris", 4),
        ("Paris", "not Paris", 1),
        ("Paris", "Paris or London", 3),
        ("Paris", "Lyon", 1),
        ("Mira Holt", "Holt", 3),
        ("the director", "directors", 4),
        ("3", "three", 5),
        ("three", "3 red boats", 4),
        ("3", "3 of the 7 boats", 3),
        ("1985", "1986", 1),
        ("6.9 million", "$6,900,000", 5),
        ("12", "12%", 4),
        ("12%", "12 percent", 5),
        ("-5", "5", 1),
        ("June 4, 1985", "4 June 1985", 5),
        ("June 4, 1985", "June 5, 1985", 1),
        ("yes", "Yes", 5),
        ("yes", "Yes, it was", 4),
        ("yes", "no", 1),
        ("no", "yes and no", 1),
        ("+", "+", 5),
        ("+", "-", 1),
    ],
)
def test_one_answer_is_graded_by_its_words_and_numbers(gold: str, answer: str, grade: int) -> None:
    assert graded(gold, answer=answer) == grade


@pytest.mark.parametrize(
    ("answer", "grade"),
    [
        ("red, white", 5),
        ("white and red", 5),
        ("red", 3),
        ("red, white and blue", 3),
        ("red; blue", 3),
        ("blue; green", 1),
    ],
)
def test_a_list_needs_all_its_parts_and_no_others(answer: str, grade: int) -> None:
    assert graded("red", "white", answer=answer) == grade
    assert graded("red", "white", "blue", answer="blue") == 2, "fewer than half"


@pytest.mark.parametrize(("answer", "grade"), [("cat", 5), ("Cat.", 5), ("black cat", 1), ("dog", 1)])
def test_another_choice_is_wrong_however_alike(answer: str, grade: int) -> None:
    assert graded("cat", answer=answer, choices=ANIMALS) == grade


@pytest.mark.parametrize("text", ["Who?", REFERENCE, GRADED_ANSWER])
def test_a_request_to_answer_is_not_taken_for_one_to_judge(text: str) -> None:
    turn = Turn("d", Question("q", text, choices=(REFERENCE, GRADED_ANSWER)), "decision", 1, 7)
    reply = Reader(ReaderSettings()).read(build_request(turn, Role("", Modality.BOTH, GRADED_ANSWER))).text
    assert "\nAnswer: " in reply


def test_a_judgement_is_the_same_every_time_and_counts_its_tokens() -> None:
    asked = grading_request(Item(Question("q", "Who?"), ("Mira Holt",)), "Mira Holt")
    first, again = (Reader(ReaderSettings()).read(asked) for _ in range(2))
    assert first == again
    assert first.prompt_tokens > 0
    assert first.completion_tokens > 0


word = st.text("abcxyz", min_size=3, max_size=6).map(lambda text: f"{text}q")


@given(st.lists(word, min_size=1, max_size=4, unique=True))
def test_the_reference_itself_is_right_in_any_order(parts: list[str]) -> None:
    assert compare(parts, ", ".join(sorted(parts)))[0] == 5


@given(st.lists(st.text(max_size=20), min_size=1, max_size=3), st.text(max_size=30), st.booleans())
def test_any_text_gets_a_grade_that_can_be_read(gold: list[str], answer: str, choice: bool) -> None:
    choices = (gold[0], "another") if choice else ()
    parts = grading_request(Item(Question("q", "Which?", choices), tuple(gold)), answer).parts
    assert isinstance(parts, Grading)
    assert grade_of(verdict(parts)) == compare(parts.reference, parts.answer, parts.choices)[0]
