"""Reads the value of one part of a reply by what its field holds; what is not certain is a fault with its reason.

A value stops where it ends: remarks, notes and offers of help after it are not read.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from actors.messages import Field, FieldKind, Value
from actors.prompting.answers import answer_text, read_answer
from actors.prompting.choices import one_of
from actors.prompting.faults import Fault, Values, quoted
from actors.prompting.json_parts import decode, literal
from actors.prompting.line_parts import OTHER_LABEL, is_rule
from actors.prompting.lists import none, read_items, read_list
from actors.prompting.marks import BULLET, CHATTER, MARKS_ALONE, NONE_BECAUSE, NOTHING, PLACEHOLDER, unwrapped
from actors.prompting.numbers import NUMBERS_ALONE, read_numbers
from actors.prompting.part import Part, Twice
from actors.prompting.stated import stated_confidence
from actors.prompting.text import one_line

# Free text that may be long; of any other only what stands on its line is the value.
PROSE = frozenset((FieldKind.REASONING, FieldKind.THOUGHT, FieldKind.SUMMARY, FieldKind.DESCRIPTION))
# Characters of a line whose value is remembered: agents of one discussion give the same few answers and confidences
# again and again, and reading these is most of the work of reading a reply.
SHORT = 200

_TO_LINE_END = re.compile(r"[ .,`]*+(?:\n\s*+|$)")


def read_values(part: Part, choices: Sequence[str] = ()) -> Values | Fault | None:
    """The values of a part; () where it says that there is none, None where it says nothing at all.

    An answer that is said not to be known is "unknown"; what it is called is the caller's business.
    """
    field = part.field
    if len(part.lines) == 1 and len(part.lines[0]) <= SHORT and field.kind not in PROSE:
        return _of_short_line(field, part.lines[0], part.several, tuple(choices), part.closed)
    if isinstance(part.value, Twice):
        return Fault(field, "it is given twice, with different values")
    if part.lines:
        return _of_written(field, part.lines, part.several, choices, part.closed)
    if part.value is None:
        return () if field.optional or field.value is Value.ANSWER else Fault(field, "it is null")
    return _of_json(field, part.value, choices)


@lru_cache(maxsize=4096)
def _of_short_line(
    field: Field, line: str, several: bool, choices: tuple[str, ...], closed: bool
) -> Values | Fault | None:
    return _of_written(field, (line,), several, choices, closed)


def _of_written(
    field: Field, lines: Sequence[str], several: bool, choices: Sequence[str], closed: bool
) -> Values | Fault | None:
    """The values of lines, which may hold JSON."""
    held = None if field.kind in PROSE else _json_in(lines)
    return _of_lines(field, lines, several, choices, closed) if held is None else _of_json(field, held, choices)


def _json_in(lines: Sequence[str]) -> Any:
    """The JSON list or object that the lines are, a list of those that stand on lines of their own, or None."""
    text = "\n".join(lines).strip()
    values: list[Any] = []
    place = 0
    while text[place : place + 1] in ("[", "{"):
        try:
            value, end = decode(text, place)
        except (ValueError, RecursionError):
            return None if values else literal(text)
        beside = _TO_LINE_END.match(text, end)
        # A picture's number in brackets is no list: `[2] shows it`.
        if beside is None:
            return None
        values.append(value)
        place = beside.end()
    return values if len(values) > 1 else values[0] if values else None


def _of_json(field: Field, held: Any, choices: Sequence[str]) -> Values | Fault | None:
    if isinstance(held, str):
        return _of_lines(field, tuple(held.split("\n")), field.many, choices)
    if field.value is Value.NUMBERS:
        items = held if isinstance(held, list) else [held]
        if not items:
            return none(field)
        return read_numbers(field, [", ".join(map(str, items))])
    if field.many:
        if isinstance(held, list) and _is_one(field, held):
            held = [held]
        items = held if isinstance(held, list) else [held]
        return read_items(field, items) if items else none(field)
    if isinstance(held, list):
        texts = [item for item in held if isinstance(item, str | int | float)]
        if not held:
            return none(field)
        if len(texts) < len(held) or (len(held) > 1 and (field.values or field.value is Value.SHARE)):
            return Fault(field, f"one value was asked for, and {quoted(held)} is a list")
        held = (" " if field.kind in PROSE else ", ").join(map(str, texts))
    if held is False and field.optional and field.value is Value.ANSWER and not choices:
        return Fault(field, "`false` may be `no` or none at all")
    if isinstance(held, bool):
        spelt = str(held).lower()
        held = spelt if spelt in map(str.lower, choices) else "yes" if held else "no"
    if isinstance(held, dict):
        inner = held.get("value", held.get("text", held.get("answer")))
        if not isinstance(inner, str | int | float):
            return Fault(field, f"one value was asked for, and {quoted(held)} is an object")
        held = inner
    return _of_lines(field, (str(held),), False, choices)


def _is_one(field: Field, held: Sequence[Any]) -> bool:
    """True for a list that is one triple itself and not a list of them."""
    return (
        field.value is Value.TRIPLE
        and len(held) == 3
        and all(isinstance(part, str | int | float) and "|" not in str(part) for part in held)
    )


def _of_lines(
    field: Field, lines: Sequence[str], several: bool, choices: Sequence[str], closed: bool = False
) -> Values | Fault | None:
    if field.many:
        return read_list(field, lines, several)
    if field.value is Value.ANSWER:
        return read_answer(field, answer_text(lines, closed), choices)
    if field.kind is FieldKind.REASONING:
        return (one_line(" ".join(lines)),) if " ".join(lines).strip() else None
    listed = field.value is Value.NUMBERS and _is_listed(lines)
    if all(map(str.isdigit, field.values or ("",))) and _begins_a_list(lines):
        return Fault(field, "one number was asked for, and there is a list")
    lines = _own_lines(lines, field.kind in PROSE or listed)
    whole = "\n".join(lines).strip()
    if not whole:
        return None
    # `Confidence: Confidence: 0.6` says so twice.
    text = re.sub(rf"\A{re.escape(field.name)}\s?[:：]\s?", "", one_line(whole), flags=re.IGNORECASE)
    text = text if field.value is Value.SHARE else unwrapped(text)
    if PLACEHOLDER.fullmatch(one_line(whole)) or text.lower() == field.name.lower():
        return None
    if _says_nothing(field, text):
        return none(field)
    if field.values:
        value = one_of(text, field)
        return (value,) if value else Fault(field, f"{quoted(text)} is none of {', '.join(field.values)}")
    if field.value is Value.SHARE:
        share = stated_confidence(text)
        return Fault(field, f"{quoted(text)} is no number from 0 to 1") if share is None else (repr(share),)
    if field.value is Value.NUMBERS:
        return read_numbers(field, lines)
    return (text,)


def _own_lines(lines: Sequence[str], prose: bool) -> list[str]:
    """The lines that belong to the value: down to a rule, a farewell or another label; of a short value its line, with
    what goes on in small letters."""
    kept: list[str] = []
    blank = False
    for line in lines:
        if not line.strip():
            blank = bool(kept)
            continue
        if kept and (is_rule(line) or CHATTER.match(line) or (not prose and OTHER_LABEL.match(line))):
            break
        if not kept and is_rule(line):
            continue
        first_small = line.strip()[0].islower()
        if kept and not prose and (blank or not first_small):
            break
        kept.append(line)
        blank = False
    return kept


def _is_listed(lines: Sequence[str]) -> bool:
    """True for several lines that are numbers, or items of a list."""
    return sum(bool(BULLET.match(line)) for line in lines) > 1 or any(map(NUMBERS_ALONE.fullmatch, lines[1:]))


def _begins_a_list(lines: Sequence[str]) -> bool:
    """True where the value's first two lines are items of a list; of what `4` is for, several may be told behind it."""
    first = [line for line in lines if line.strip()][:2]
    return len(first) == 2 and all(map(BULLET.match, first))


def _says_nothing(field: Field, text: str) -> bool:
    """True for `none` and the like. An answer may be just that, and so may one of the values."""
    plain = text.strip(" .!*_`\"'")
    if (
        field.value is Value.ANSWER
        or field.kind is FieldKind.REASONING
        or plain.lower() in (value.lower() for value in field.values)
    ):
        return False
    if field.optional and (NONE_BECAUSE.fullmatch(plain) or (field.value is Value.TEXT and plain.lower() == "unknown")):
        return True
    return bool(NOTHING.fullmatch(plain) or MARKS_ALONE.fullmatch(plain))
