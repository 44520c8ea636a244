"""Compares two answers by their words and numbers, as a judge would."""

from __future__ import annotations

from actors.messages import Field, FieldKind
from actors.reader.judge import compare
from actors.reader.text import content_stems
from actors.reader.work import Work, known_answer, yes_or_no

SHORT = 12  # words, up to which an answer is compared word for word
SHARED = 0.5  # of the content words of two longer texts, for them to say the same


def same(work: Work, line: Field) -> list[str]:
    """Yes or no for the first two answers that are given; nothing where there are fewer."""
    answers = [known_answer(given) for given in work.given(FieldKind.ANSWER)]
    return yes_or_no(line, agree(answers[0], answers[1])) if len(answers) > 1 else []


def agree(answer: str, other: str) -> bool:
    """True where two answers say the same; unknown (an empty text) agrees with itself only."""
    if not answer or not other:
        return answer == other
    if max(len(answer.split()), len(other.split())) <= SHORT:
        return max(compare([answer], other)[0], compare([other], answer)[0]) >= 4
    first, second = set(content_stems(answer)), set(content_stems(other))
    return len(first & second) >= SHARED * len(first | second)
