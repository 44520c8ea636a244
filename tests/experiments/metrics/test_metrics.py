"""Scores and what is said of their means: hand-computed cases, and properties that hold for any input."""

import string

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from actors.messages import Question
from experiments.datasets.item import Item, Score, text_score
from experiments.metrics.answer_metrics import exact_match, list_f1, normalise, recall_at_k, strict_exact_match
from experiments.metrics.tatqa_metric import official_score
from topologies.answers import choice_of, text_form

steady = settings(derandomize=True)
phrases = st.text(alphabet=string.ascii_letters + string.digits + " .,-$'%()éß–", max_size=30)
golds = st.lists(st.text(alphabet=string.ascii_lowercase, min_size=1, max_size=8), min_size=1, max_size=4)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The Lady Vanishes", "lady vanishes"),
        ("The two-time champion", "2.0 time champion"),
        ("1,161", "1161.0"),
        ("$6.9,", "6.9"),
        ("13.72%", "13.72"),
        (".250", "0.25"),
        ("Dr. O'Neil!", "dr oneil"),
        ("2013–14", "2013–14"),
        ("a an the", ""),
        ("ninety thousand", "90.0 1000.0"),
    ],
)
def test_normalisation(text: str, expected: str) -> None:
    assert normalise(text) == expected


@pytest.mark.parametrize(
    ("answer", "gold", "expected"),
    [
        ("It was a black cat.", ["cat"], 1.0),
        ("category", ["cat"], 0.0),
        ("It was released in 1976", ["1976"], 1.0),
        ("11976", ["1976"], 0.0),
        ("seven", ["7"], 1.0),
        ("The Last Panthers, and Jekyll & Hyde", ["Jekyll & Hyde", "The Last Panthers"], 1.0),
        ("only Jekyll & Hyde", ["Jekyll & Hyde", "The Last Panthers"], 0.0),
        ("cat black", ["black cat"], 0.0),
        ("", ["cat"], 0.0),
        ("a banana", ["A"], 0.0),
        ("A", ["A"], 1.0),
        ("6.9, 7.0", ["7", "6.9"], 1.0),
    ],
)
def test_exact_match_contains_every_gold_answer_as_whole_tokens(answer: str, gold: list[str], expected: float) -> None:
    assert exact_match(answer, gold) == expected


@pytest.mark.parametrize(
    ("answer", "gold", "expected"),
    [
        ("the Cat", ["cat"], 1.0),
        ("a black cat", ["cat"], 0.0),
        ("Bing Crosby and Lee J. Cobb", ["Lee J. Cobb", "Bing Crosby"], 1.0),
        ("Bing Crosby", ["Lee J. Cobb", "Bing Crosby"], 0.0),
        ("38,760; 39,009", ["39,009", "38,760"], 1.0),
        ("Lost Quarterfinal, 2–4 (Rockets)", ["Lost Quarterfinal, 2–4 (Rockets)"], 1.0),
        ("x, x", ["x"], 0.0),
        ("a", ["A"], 1.0),
    ],
)
def test_strict_exact_match_wants_the_same_spans_in_any_order(answer: str, gold: list[str], expected: float) -> None:
    assert strict_exact_match(answer, gold) == expected


@pytest.mark.parametrize(
    ("answer", "gold", "expected"),
    [
        ("black cat", ["cat"], 2 / 3),
        ("cat", ["cat", "dog"], 1 / 2),
        ("dog; black cat", ["cat", "dog"], (2 / 3 + 1) / 2),
        ("season 3", ["season 2"], 0.0),
        ("season 2", ["2"], 2 / 3),
        ("bird", ["cat"], 0.0),
    ],
)
def test_list_f1_by_hand(answer: str, gold: list[str], expected: float) -> None:
    assert list_f1(answer, gold) == pytest.approx(expected)


def test_an_answer_that_lists_more_than_the_gold_is_right_by_containment_and_wrong_strictly() -> None:
    asked = Item(Question("q", "?"), gold=("Paris",))
    assert text_score(asked, "Paris, Rome") == Score(1.0, pytest.approx(2 / 3), 0.0)
    assert text_score(asked, "the Paris") == Score(1.0, 1.0, 1.0)
    assert text_score(asked, None) == Score(0.0, 0.0, 0.0)


@pytest.mark.slow
@steady
@given(golds)
def test_the_gold_answer_itself_scores_one_everywhere(gold: list[str]) -> None:
    assume("and" not in gold)
    assume(all(normalise(span) for span in gold))
    answer = "; ".join(gold)
    assert exact_match(answer, gold) == strict_exact_match(answer, gold) == 1.0
    assert list_f1(answer, gold) == pytest.approx(1.0)


@pytest.mark.slow
@steady
@given(phrases, golds)
def test_scores_are_in_the_unit_interval_and_strict_implies_lenient(answer: str, gold: list[str]) -> None:
    assert 0.0 <= list_f1(answer, gold) <= 1.0
    if strict_exact_match(answer, gold):
        assert exact_match(answer, gold) == 1.0


def test_no_gold_answer_is_an_error() -> None:
    with pytest.raises(ValueError, match="non-empty"):
        exact_match("cat", [])
    with pytest.raises(ValueError, match="non-empty"):
        list_f1("cat", "cat")


CHOICES = ("Dear Ms. Allen,", "Dear ms. Allen,", "repel", "Sample A")


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("Dear Ms. Allen,", 0),
        ("Dear ms. Allen,", 1),
        ("dear ms. allen,", None),
        ("Repel", 2),
        ("repel.", 2),
        ("**repel**", 2),
        ("c", 2),
        ("(C)", 2),
        ("C.", 2),
        ("(C) repel", 2),
        ("C: Repel.", 2),
        ("(D) repel", None),
        ("they repel each other", None),
        ("Sample A", 3),
        ("A or C", None),
        ("E", None),
        ("", None),
        ("(A) Dear ms. Allen,", None),
    ],
)
def test_an_answer_names_one_choice_by_text_or_letter_or_none(answer: str, expected: int | None) -> None:
    assert choice_of(answer, CHOICES) == expected


@pytest.mark.slow
@steady
@given(st.lists(st.text(min_size=1, max_size=12), min_size=2, max_size=5, unique_by=lambda c: " ".join(c.split())))
def test_every_choice_is_recognised_by_its_own_text(choices: list[str]) -> None:
    for index, choice in enumerate(choices):
        assert choice_of(choice, choices) == index


@pytest.mark.slow
@steady
@given(st.text(max_size=20))
def test_an_unusable_answer_is_never_turned_into_a_choice(answer: str) -> None:
    named = choice_of(answer, ("first thing", "second thing"))
    assert named is None or any(sign in answer.casefold() for sign in ("a", "b", "first thing", "second thing"))


@pytest.mark.parametrize("piece", ["1", "1x", "$", "(", "'", "1,", "and ", "; ", "A) ", "(1"])
def test_a_text_of_any_length_has_a_score_and_a_form(piece: str) -> None:
    """With patterns that take quadratic time, 100,000 digits would be scored in some minutes."""
    text = piece * (100_000 // len(piece))
    assert 0.0 <= exact_match(text, ["Oslo"]) <= strict_exact_match(text, [text]) == 1.0
    assert official_score(f"7 {text}", ["Oslo"], "million", computed=False) == (0.0, 0.0)
    assert text_form(text) is not None
    assert choice_of(text, ("Oslo", "Bergen")) is None


def test_recall_counts_supporting_documents_once() -> None:
    retrieved = ["table", "table", "p1", "p2"]
    assert recall_at_k(retrieved, ["table", "p2"], 1) == 0.5
    assert recall_at_k(retrieved, ["table", "p2"], 3) == 0.5
    assert recall_at_k(retrieved, ["table", "p2"], 4) == 1.0
    assert recall_at_k([], ["p2"], 4) == 0.0
    with pytest.raises(ValueError, match="supporting"):
        recall_at_k(retrieved, [], 4)
