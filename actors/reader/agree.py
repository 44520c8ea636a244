"""Whether two answers say the same, by the words and numbers that a judge would compare."""

from __future__ import annotations

from actors.reader.form import Line, answer_and_sureness
from actors.reader.judge import compare
from actors.reader.text import content_stems
from actors.reader.work import Work

SHORT = 12  # words, up to which an answer is compared word for word
SHARED = 0.5  # of the content words of two longer texts, for them to say the same


def same(work: Work, line: Line) -> list[str]:
    given = [answer_and_sureness(answer.text)[0] for answer in work.task.of("Answer")]
    if len(given) < 2:
        return []
    said = line.one_of("yes" if agree(given[0], given[1]) else "no")
    return [said] if said else []


def agree(one: str, other: str) -> bool:
    """`unknown` (an empty text) agrees with itself only."""
    if not one or not other:
        return one == other
    if max(len(one.split()), len(other.split())) <= SHORT:
        return max(compare([one], other)[0], compare([other], one)[0]) >= 4
    first, second = set(content_stems(one)), set(content_stems(other))
    return len(first & second) >= SHARED * len(first | second)
