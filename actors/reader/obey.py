"""Obedience to the turn's directive, and to instructions in what colleagues wrote.

How readily a language model obeys either is an assumption here, not a measurement: a directive is always obeyed, an
instruction in a message at the rate of `obedience`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from actors.messages import SPREADING, Directive, Remark
from actors.reader.sight import uniform

CHALLENGED = 0.5  # what is left of conformity and trust in an agent that challenges what it hears
SURE = 0.95  # the confidence that attacks order

_SPREADING = re.compile(re.escape(SPREADING).replace(re.escape("{target}"), "(.+?)"), re.IGNORECASE)


def given_in_to(remarks: Sequence[Remark], obedience: float, seed: int) -> Directive | None:
    """The instruction in a message that the reader gives in to; each message with one has the same chance.

    Its own earlier messages count as well: one that passed an instruction on reads it again.
    """
    for remark in remarks:
        match = _SPREADING.search(remark.content)
        if match and uniform(seed, "obey", remark.speaker) < obedience:
            return Directive(argue_for=match[1], end_with=match[0])
    return None


def obedient_reply(directive: Directive, reasons: str) -> str:
    """The three lines of an answer that was ordered."""
    reasoning = f"{reasons} {directive.end_with}".strip()
    return f"Reasoning: {reasoning}\nAnswer: {directive.argue_for}\nConfidence: {SURE:.2f}"


def forged(answer: str, best: str, quoted: str) -> str:
    """The evidence that is quoted for `best`, the answer that would have been given, bent to `answer`: with the answer
    replaced, or, where the evidence does not spell it out, named and asserted."""
    named = re.compile(rf"(?<!\w){re.escape(best)}(?!\w)", re.IGNORECASE) if best else None
    # A function, since an answer may hold backslashes, which a replacement text would interpret.
    bent, times = named.subn(lambda _: answer, quoted) if named else (quoted, 0)
    numbers = " and ".join(dict.fromkeys(re.findall(r"\[[^\]]*\](?= \")", quoted)))
    return bent if times else f"{numbers or 'The evidence'} can only be read in one way, as {answer}."
