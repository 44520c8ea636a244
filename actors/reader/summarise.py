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
    """The statements that bear on the question, as sentences."""
    if line.optional and dismissed(work):
        return []
    bearing = work.most_bearing(line.most or SENTENCES)
    return [_in_sentences(bearing)] if bearing else [] if line.optional else [NOTHING]


def description(work: Work, line: Field) -> list[str]:
    """The statements about pictures that bear on the question; all of the picture where there is only one."""
    if line.optional and dismissed(work):
        return []
    bearing = work.most_bearing(SENTENCES, seen=True)
    # Asked about a single picture, an agent describes it, whether or not it bears on the question.
    if work.pictures == 1:
        bearing = list(dict.fromkeys([*bearing, *(e.statement for e in work.entries if e.statement.seen)]))[
            : 2 * SENTENCES
        ]
    return [_in_sentences(bearing)] if bearing else [] if line.optional else [NOTHING_SEEN]


def thought(work: Work, line: Field) -> list[str]:
    """The best evidence and what follows from it: an answer, or the next thing to find out."""
    known = _in_sentences(work.most_bearing(2)) or NOTHING
    if work.answer:
        return [f"{known} {CONCLUSION}{work.answer.rstrip('.')}."]
    return [f"{known} {NEXT}{next_question(work)}"]


def _in_sentences(bearing: Sequence[Statement]) -> str:
    sentences = (
        f"{_titled(statement)}{'' if statement.text.endswith(('.', '!', '?')) else '.'}" for statement in bearing
    )
    # The same sentence may have been read in evidence and in a message.
    return " ".join(dict.fromkeys(sentences))


def _titled(statement: Statement) -> str:
    """The sentence, after its title where it does not name that itself."""
    if not statement.title or (not statement.cells and statement.title.lower() in statement.text.lower()):
        return statement.text
    return f"{statement.title}: {statement.text}" if statement.text else f"{statement.title} is shown"
