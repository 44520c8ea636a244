"""Follows a debate: what the others answered, and which side of it has the better answer."""

from __future__ import annotations

from actors.messages import Field
from actors.reader.examine import suffices
from actors.reader.judge import compare
from actors.reader.text import content_stems
from actors.reader.work import Work, one_of

SHORT = 12  # words, up to which an answer is compared word for word
SHARED = 0.5  # of the content words of two longer texts, for them to say the same
NEITHER = "neither"


def side(work: Work, line: Field) -> list[str]:
    """The side whose last answer is this agent's own, where that is borne out by what was read or the sides agree on
    it; else neither."""
    last = dict(work.heard)  # a later answer takes the place of an earlier one
    agreeing = [agent for agent, answer in last.items() if work.answer and agree(answer, work.answer)]
    settled = bool(agreeing) and (len(agreeing) == len(last) or suffices(work))
    return one_of(line, agreeing[0].lower() if settled else NEITHER)


def candidate(work: Work, line: Field) -> list[str]:
    """The different answers that were heard, in their order; unknown where nobody has one."""
    different: list[str] = []
    for _, answer in work.heard:
        if answer and not any(agree(answer, other) for other in different):
            different.append(answer)
    return different or ([] if line.optional else ["unknown"])


def agree(answer: str, other: str) -> bool:
    """True where two answers say the same; unknown (an empty text) agrees with itself only."""
    if not answer or not other:
        return answer == other
    if max(len(answer.split()), len(other.split())) <= SHORT:
        return max(compare([answer], other)[0], compare([other], answer)[0]) >= 4
    first, second = set(content_stems(answer)), set(content_stems(other))
    return len(first & second) >= SHARED * len(first | second)
