"""The probability of what a model said is that of the tokens that spell it, however these split the reply."""

from dataclasses import replace
from math import exp, log

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.messages import Completion, Field, FieldKind, Question, Task, Turn
from actors.prompting.form import form_of
from actors.prompting.likelihood import likelihoods
from actors.prompting.reply import read, reply_of

TURN = Turn("d", Question("q", "Who built it?"), "single", 1, 7)
CHOSEN = replace(TURN, question=Question("q", "Which?", ("rain", "snow")))
RELEVANT = Field(FieldKind.RELEVANT, "whether it bears on it", ("yes", "no"))
JUDGED = replace(TURN, task=Task("Judge.", (RELEVANT,)))


def probable(turn: Turn, *tokens: tuple[str, float], text: str | None = None) -> dict[str, float]:
    """The likelihoods of a reply in these tokens, each with its probability."""
    text = "".join(token for token, _ in tokens) if text is None else text
    reply = reply_of(turn, read(form_of(turn), text))
    assert reply is not None
    told = tuple((token, log(probability)) for token, probability in tokens)
    return dict(likelihoods(form_of(turn), reply, Completion("", text, tokens=told)))


def test_of_a_letter_it_is_its_tokens() -> None:
    assert probable(CHOSEN, ("Answer:", 0.9), (" B", 0.25), ("\n", 1.0)) == {"Answer": pytest.approx(0.25)}
    assert probable(CHOSEN, ('{"answer": "', 0.9), ("B", 0.25), ('"}', 1.0)) == {"Answer": pytest.approx(0.25)}


def test_of_a_choices_text_it_is_the_product_of_its_tokens() -> None:
    tokens = ("Answer:", 0.9), (" sn", 0.5), ("ow", 0.5), (".", 0.1)
    assert probable(CHOSEN, *tokens) == {"Answer": pytest.approx(0.25)}


def test_of_yes_or_no_it_is_its_tokens() -> None:
    assert probable(JUDGED, ("Rele", 0.9), ("vant:", 0.9), (" yes", 0.75)) == {"Relevant": pytest.approx(0.75)}
    assert probable(JUDGED, ('{"relevant":', 0.9), ('"no', 0.75), ('"}', 0.5)) == {"Relevant": pytest.approx(0.75)}


def test_of_words_it_is_the_geometric_mean() -> None:
    tokens = ("Answer: ", 0.9), ("Tarn", 0.5), (" Hollow", 0.125), ("\nConfidence: 0.5", 0.1)
    assert probable(TURN, *tokens) == {"Answer": pytest.approx(0.25)}


def test_it_is_that_of_what_was_said_last() -> None:
    tokens = ("Answer: Tarn Hollow", 0.9), ("\nFinal answer: ", 0.5), ("Tarn Hollow", 0.25)
    assert probable(TURN, *tokens) == {"Answer": pytest.approx(0.25)}


def test_of_what_is_not_known_and_of_prose_there_is_none() -> None:
    assert probable(TURN, ("Answer: ", 0.9), ("unknown", 0.5)) == {}
    thought = replace(TURN, task=Task("Think.", (Field(FieldKind.THOUGHT, "what follows"),)))
    assert probable(thought, ("Thought: ", 0.9), ("it follows", 0.5)) == {}


def test_where_tokens_do_not_join_to_the_text_there_is_none() -> None:
    assert probable(CHOSEN, ("Answer:", 0.9), ("B", 0.25), text="Answer: B") == {}
    assert probable(CHOSEN, text="Answer: B") == {}


CASES = [(CHOSEN, "Reasoning: B is cold.\nAnswer: B\nConfidence: 0.7", "Answer", "B", False)]
CASES += [(CHOSEN, "**Answer:** (B) snow", "Answer", "B", False)]
CASES += [(JUDGED, "Relevant: yes\n", "Relevant", "yes", False)]
CASES += [(TURN, "Reasoning: Tarn Hollow it is.\nAnswer: Tarn Hollow\nConfidence: 0.5", "Answer", "Tarn Hollow", True)]
CASES += [(TURN, '{"reasoning": "So.", "answer": "Tarn Hollow", "confidence": 0.5}', "Answer", "Tarn Hollow", True)]


@pytest.mark.parametrize(("turn", "text", "name", "value", "mean"), CASES)
@settings(deadline=None)
@given(data=st.data())
def test_tokens_may_split_anywhere(
    turn: Turn, text: str, name: str, value: str, mean: bool, data: st.DataObject
) -> None:
    cuts = sorted(data.draw(st.sets(st.integers(1, len(text) - 1))))
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    logs = data.draw(st.lists(st.floats(-5, 0), min_size=len(pieces), max_size=len(pieces)))
    reply = reply_of(turn, read(form_of(turn), text))
    assert reply is not None
    found = likelihoods(form_of(turn), reply, Completion("", text, tokens=tuple(zip(pieces, logs, strict=True))))
    start = text.rindex(value) if turn is not CHOSEN else text.index("B", text.index("Answer"))
    begins, ends = [0, *cuts], [*cuts, len(text)]
    spelt = [log for log, a, b in zip(logs, begins, ends, strict=True) if a < start + len(value) and b > start]
    assert found == ((name, pytest.approx(exp(sum(spelt) / (len(spelt) if mean else 1)))),)
