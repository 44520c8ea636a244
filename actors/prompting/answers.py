"""Reads an answer: a text, or one of the question's choices. It stops where the answer ends."""

from __future__ import annotations

import re
from collections.abc import Sequence

from actors.messages import Field
from actors.prompting.faults import Fault, Values, quoted
from actors.prompting.form import letters
from actors.prompting.line_parts import OTHER_LABEL
from actors.prompting.marks import BULLET, NOTHING, PLACEHOLDER, decoded, unwrapped
from actors.prompting.stated import is_unknown, stated_answer, undecorated
from actors.prompting.text import one_line

_FEW_WORDS = 8
_UNDECIDED = re.compile(r"\bor wait\b|\bhmm\b|\bwait,", re.IGNORECASE)
_CLOSING_TAG = re.compile(r"(?:</?\w{2,20}>\s*)+$")
# Brackets of the form that were left around the value, and no tag.
_IN_ANGLES = re.compile(r"<(?:\d+|[A-Z](?:[^\W\d_]*[a-z])?|yes|no)>")
_ABBREVIATED = frozenset(
    "prof capt dept corp univ messrs inst assn supt bros msgr lieut cmdr comm mass penn conn sept".split()
)
# `No. Ten` may be a number.
_SENTENCE = re.compile(
    r"(?P<first>.{0,60}?\b(?P<last>[^\W\d_]{4,}|\d{4}|\A(?:[Yy]es|[Nn]o))[\"'”*]{0,3})\.\s"
    r"(?!(?:One|Two|Three|Four|Five|Six|Seven|Eight|Nine|Ten)\b)(?=[A-Z][^.]*\s[a-z])"
)
_BY = (
    r"(?:from |see |sources?:? |as (?:stated|given|shown|seen|mentioned|described|per)\b|based on |"
    r"according to |stated in |per |because |since |mentioned in |shown in )"
)
_CITED = re.compile(
    rf"(?:(?:\s+|(?<=[\]*\"”]))(?:\[(?:(?:source|text|picture) )?\d{{1,2}}(?:\s?[,;]\s?\d{{1,2}})*\]|\({_BY}[^()]*\))"
    rf"|(?:(?<=\w),|\s[–—-])\s(?!from |see |per |since ){_BY}.*)\s*\.?$",
    re.IGNORECASE,
)


def read_answer(field: Field, value: str, choices: Sequence[str]) -> Values | Fault | None:
    plain = unwrapped(value)
    placeholder = PLACEHOLDER.fullmatch(value) and not is_unknown(value)
    if placeholder or plain.lower() == field.name.lower() or not _says_anything(value):
        return None
    # The form of an answer that may be left out offers `none`; `no` may be meant as an answer.
    left_out = field.optional and NOTHING.fullmatch(plain.strip(" .")) and plain.strip(" .").casefold() != "no"
    if left_out and not choices:
        return ()
    if _UNDECIDED.search(value):
        return Fault(field, f"{quoted(value)} is not one answer")
    stated, _ = stated_answer(value, choices)
    if stated == "":
        if not one_line(value).strip(" .…-–—_*"):
            return None
        if left_out:
            return ()
        return Fault(field, f"{quoted(value)} is not one of the choices {', '.join(letters(choices))}")
    if stated is None:
        return ()
    if not choices and not _says_anything(stated):
        return None
    if choices:
        return (stated,)
    # `Answer: Answer: - red` has its bullet behind the second label.
    stated = stated if stated[:1].isdigit() else BULLET.sub("", stated, count=1)
    stated = _first_sentence(stated)
    return None if stated.lower() == field.name.lower() or not _says_anything(stated) else (stated,)


def _first_sentence(answer: str) -> str:
    """An answer of a few words without the sentences that explain it."""
    match = _SENTENCE.match(answer)
    if match is None or match["last"].lower() in _ABBREVIATED or len(match["first"].split()) > _FEW_WORDS:
        return answer
    return undecorated(match["first"])[0]


def _says_anything(value: str) -> bool:
    """False for a row of marks; a sign or two may be an answer."""
    return any(map(str.isalnum, value)) or 0 < len(value.strip(" ?.…*_`\"'")) < 3


def answer_text(lines: Sequence[str], closed: bool = False) -> str:
    """An answer on one line: the first line that says anything, the lines of a list, or all lines down to the next
    field (`closed`) unless one of these is a sentence. The sources that it cites are no part of it."""
    return _uncited(one_line(_answer_lines(lines, closed)))


def _answer_lines(lines: Sequence[str], closed: bool) -> str:
    first = next((i for i, line in enumerate(lines) if any(map(str.isalnum, line))), 0)
    value, rest = lines[first].strip(), list(lines[first + 1 :])
    if first and OTHER_LABEL.match(value):
        return ""
    if BULLET.match(value):
        items = [value]
        for line in rest:
            if not BULLET.match(line):
                break
            items.append(line)
        # A single `1. ...` may be how the answer is spelt; only several make a list.
        if len(items) > 1 or not value[0].isdigit():
            return ", ".join(BULLET.sub("", item, count=1).strip() for item in items)
    while rest and not any(map(str.isalnum, rest[-1])):
        rest.pop()
    if closed and all(line.strip() and line.strip()[-1] not in ".!?" and not OTHER_LABEL.match(line) for line in rest):
        return " ".join([value, *map(str.strip, rest)])
    return value


def _uncited(value: str) -> str:
    value = re.sub(r"(?<=\d)\\text\{\s*([^{}]{1,40})\}", r" \1", value)
    if value.count("**") == 1:
        # `**Answer: Yes** - because ...`: the emphasis that began before the label ends with the value.
        value = value.partition("**")[0] or value.partition("**")[2]
    in_angles = _IN_ANGLES.fullmatch(value.strip(" .")) or is_unknown(value)
    value = decoded(value if in_angles else _CLOSING_TAG.sub("", value))
    while (cited := _CITED.sub("", value)) != value and cited.strip(" *_`."):
        value = cited
    return value
