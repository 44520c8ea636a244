"""Says in sentences what was read that bears on the question. It repeats; it has no words of its own for it."""

from __future__ import annotations

from collections.abc import Sequence

from actors.messages import Field
from actors.reader.examine import dismissed
from actors.reader.plan import next_question
from actors.reader.statement import CONCLUSION, NEXT, NOTHING, NOTHING_SEEN, Statement
from actors.reader.work import Work

SENTENCES = 4


def summary(work: Work, line: Field) -> list[str]:
    if line.optional and dismissed(work):
        return []
    found = work.most_bearing(line.most or SENTENCES)
    return [_told(found)] if found else [] if line.optional else [NOTHING]


def description(work: Work, line: Field) -> list[str]:
    """What pictures show: the statements that bear on the question; all of the picture where there is only one."""
    if line.optional and dismissed(work):
        return []
    found = work.most_bearing(SENTENCES, seen=True)
    if work.pictures == 1:
        found = list(dict.fromkeys([*found, *(e.said for e in work.entries if e.said.seen)]))[: 2 * SENTENCES]
    return [_told(found)] if found else [] if line.optional else [NOTHING_SEEN]


def thought(work: Work, line: Field) -> list[str]:
    """What is known of what is asked, and what follows: an answer, or what is to be found next."""
    known = _told(work.most_bearing(2)) or NOTHING
    if work.answer:
        return [f"{known} {CONCLUSION}{work.answer.rstrip('.')}."]
    return [f"{known} {NEXT}{next_question(work)}"]


def _told(found: Sequence[Statement]) -> str:
    told = (f"{_titled(said)}{'' if said.text.endswith(('.', '!', '?')) else '.'}" for said in found)
    return " ".join(dict.fromkeys(told))


def _titled(said: Statement) -> str:
    """The sentence, after its title where it does not name that itself."""
    if not said.title or (not said.cells and said.title.lower() in said.text.lower()):
        return said.text
    return f"{said.title}: {said.text}" if said.text else f"{said.title} is shown"
