"""Reads the value of one field by what the field holds; an uncertain one is a fault with its reason.

A value ends before remarks, notes and offers of help.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from actors.messages import Field, FieldKind, Value
from actors.prompting.answer_value import answer_text, read_answer
from actors.prompting.form import PROSE, FieldFault, RawField, Twice, Values, quoted
from actors.prompting.json_reply import decode, literal
from actors.prompting.list_values import none, read_items, read_list
from actors.prompting.not_known import is_unstated
from actors.prompting.reply_text import (
    CHATTER,
    MARKS_ALONE,
    NONE_BECAUSE,
    NOTHING,
    OTHER_LABEL,
    PLACEHOLDER,
    ends_a_value,
    in_digits,
    is_rule,
    stated_confidence,
    uncited,
    undecorated,
    unwrapped,
)
from actors.prompting.safe_text import one_line

# Longest line whose value is cached: agents of one discussion give the same few answers and confidences again and
# again, and to read these is most of the work of reading a reply.
SHORT = 200
_TO_LINE_END = re.compile(r"[ .,`]*+(?:\n\s*+|$)")

_TICKS = "✅✔☑✓❌\ufe0f"
_ZEROS = re.compile(r"\A\.0{1,2}(?!\d)")
# What a grade is out of: `/5`, ` out of 5`, ` (on a scale of 1 to 5)`.
_SCALE = re.compile(
    r"[\s(,]{0,3}(?:/|(?:out )?of(?: a (?:possible|maximum))?|on a scale (?:of|from) 1\s?(?:to|[-–]))\s?"
    r"(?P<most>\d{1,4}|ten|hundred)(?:\.0)?(?![\w])\)?"
)
_AFTER_SHARE = re.compile(r"\d\s?%?[^\w(]{0,8}[.;!?–—-]\s+(\w.*)")
_NODE = re.compile(r"\A\s(?:node|type)\b")

_MOST_NUMBERS = 999
_NUMBER_NOUN = (
    r"(?:numbers?|nos?\.?|candidates?|sources?|pictures?|images?|pages?|nodes?|passages?|items?|evidence|the|#)"
)
# One item of a list of numbers: `[2]`, `picture 3`, `4-6`, with a bullet before it or a remark behind it.
_ITEM = re.compile(
    rf"(?:[-*+•]\s+|\d{{1,2}}[.)]\s+(?=\D))?(?:{_NUMBER_NOUN}\s?){{0,3}}[\[(#*]{{0,3}}(?P<first>\d{{1,3}})[\])*]{{0,3}}"
    r"(?:[ ]?[-–][ ]?[\[(]?(?P<last>\d{1,3})[\])]?(?![\w.]))?(?:[ ]?\([^()\n]*\)|[ ]?[:–—-][ ][^\d\n]*)?",
    re.IGNORECASE,
)
_SEPARATOR = re.compile(r"\s*(?:,\s*and\b|[,，、;&+/\n]|and\b|as well as\b|\s(?=\[)|(?<=\])(?=\[))\s*", re.IGNORECASE)


def read_values(raw: RawField, choices: Sequence[str] = ()) -> Values | FieldFault | None:
    """Reads the values of a field; () where it is stated to have none, None where it has no content at all.

    An answer that is stated not to be known has no value.
    """
    field = raw.field
    if isinstance(raw.value, Twice):
        return FieldFault(field, "it occurs twice, with different values")
    if raw.lines:
        short = len(raw.lines) == 1 and len(raw.lines[0]) <= SHORT and field.kind not in PROSE
        read = _of_short_text if short else _of_text
        return read(field, raw.lines, raw.several, tuple(choices), raw.closed)
    if raw.value is None:
        return () if field.optional or field.value is Value.ANSWER else FieldFault(field, "it is null")
    return _of_json(field, raw.value, choices)


def _of_text(
    field: Field, lines: tuple[str, ...], several: bool, choices: tuple[str, ...], closed: bool
) -> Values | FieldFault | None:
    value = None if field.kind in PROSE else _json_in(lines)
    return _of_lines(field, lines, several, choices, closed) if value is None else _of_json(field, value, choices)


_of_short_text = lru_cache(maxsize=4096)(_of_text)


def _json_in(lines: Sequence[str]) -> Any:
    """Returns the JSON list or object that the lines are, a list of those on separate lines, or None."""
    text = "\n".join(lines).strip()
    values: list[Any] = []
    place = 0
    while text[place : place + 1] in ("[", "{"):
        try:
            value, end = decode(text, place)
        except (ValueError, RecursionError):
            return None if values else literal(text)
        rest = _TO_LINE_END.match(text, end)
        # A picture's number in brackets is no list: `[2] shows it`.
        if rest is None:
            return None
        values.append(value)
        place = rest.end()
    return values if len(values) > 1 else values[0] if values else None


def _of_json(field: Field, value: Any, choices: Sequence[str]) -> Values | FieldFault | None:
    if isinstance(value, str):
        return _of_lines(field, tuple(value.split("\n")), field.many, choices)
    items = value if isinstance(value, list) else [value]
    if field.value is Value.NUMBERS:
        return _numbers(field, [", ".join(map(str, items))]) if items else none(field)
    if field.many:
        # One triple as a list of its three parts, and no list of triples.
        parts = all(isinstance(part, str | int | float) and "|" not in str(part) for part in items)
        if isinstance(value, list) and field.value is Value.TRIPLE and len(items) == 3 and parts:
            items = [items]
        return read_items(field, items) if items else none(field)
    if isinstance(value, list):
        texts = [item for item in value if isinstance(item, str | int | float)]
        if not value:
            return none(field)
        if len(texts) < len(value) or (len(value) > 1 and (field.values or field.value is Value.SHARE)):
            return FieldFault(field, f"one value was asked for, and {quoted(value)} is a list")
        value = (" " if field.kind in PROSE else ", ").join(map(str, texts))
    if value is False and field.optional and field.value is Value.ANSWER and not choices:
        return FieldFault(field, "`false` may be `no` or none at all")
    if isinstance(value, bool):
        spelt = str(value).lower()
        value = spelt if spelt in map(str.lower, choices) else "yes" if value else "no"
    if isinstance(value, dict):
        return FieldFault(field, f"one value was asked for, and {quoted(value)} is an object")
    return _of_lines(field, (str(value),), False, choices)


def _of_lines(
    field: Field, lines: Sequence[str], several: bool, choices: Sequence[str], closed: bool = False
) -> Values | FieldFault | None:
    if field.many:
        return read_list(field, lines, several)
    if len(field.asks) > 24 and " ".join(lines[:2]).casefold().strip("<[ ").startswith(field.asks.casefold()):
        return None  # the form's own description, repeated
    if field.value is Value.ANSWER:
        return read_answer(field, answer_text(lines, closed)[0], choices)
    if field.kind is FieldKind.REASONING:
        return (one_line(" ".join(lines)),) if " ".join(lines).strip() else None
    lines, _ = _own_lines(lines, field.kind in PROSE or field.value is Value.NUMBERS)
    whole = "\n".join(lines).strip()
    if not whole:
        return None
    # `Confidence: Confidence: 0.6` has its label twice.
    text = re.sub(rf"\A{re.escape(field.name)}\s?[:：]\s?", "", one_line(whole), flags=re.IGNORECASE)
    text = text if field.value is Value.SHARE else unwrapped(text)
    if PLACEHOLDER.fullmatch(one_line(whole)) or text.lower() == field.name.lower():
        return None
    if _is_nothing(field, text):
        return none(field)
    if field.values:
        value = one_of(text, field)
        return (value,) if value else FieldFault(field, f"{quoted(text)} is none of {', '.join(field.values)}")
    if field.value is Value.SHARE:
        share = stated_confidence(text)
        return FieldFault(field, f"{quoted(text)} is no number from 0 to 1") if share is None else (repr(share),)
    if field.value is Value.NUMBERS:
        return _numbers(field, lines)
    return (text,)


def _own_lines(lines: Sequence[str], prose: bool) -> tuple[list[str], Sequence[str]]:
    """Splits the lines of a value from those behind it: it goes down to a rule, a comment or another label; a short
    value is its first line, with the lines that continue it in small letters."""
    own: list[str] = []
    blank = False
    for number, line in enumerate(lines):
        if not line.strip():
            blank = bool(own)
            continue
        if own and (is_rule(line) or CHATTER.match(line) or (not prose and OTHER_LABEL.match(line))):
            return own, lines[number:]
        if not own and is_rule(line):
            continue
        if own and not prose and (blank or not line.strip()[0].islower()):
            return own, lines[number:]
        own.append(line)
        blank = False
    return own, ()


def lines_behind(raw: RawField) -> Sequence[str]:
    """Returns the lines that follow a value under its label, which may take it back; of a text or a list none do."""
    if raw.lines and raw.field.value is Value.SHARE and (remark := _AFTER_SHARE.search(raw.lines[0])):
        return (remark[1], *raw.lines[1:])
    if len(raw.lines) < 2 or raw.field.many or raw.field.kind in PROSE or raw.field.value is Value.NUMBERS:
        return raw.after
    if raw.field.value is Value.ANSWER:
        return (*answer_text(raw.lines, raw.closed)[1], *raw.after)
    return (*_own_lines(raw.lines, prose=False)[1], *raw.after)


def _is_nothing(field: Field, text: str) -> bool:
    """True for `none` and the like. An answer may be just that, and so may one of the field's values."""
    plain = text.strip(" .!*_`\"'")
    if field.value is Value.ANSWER or plain.lower() in (value.lower() for value in field.values):
        return False
    if field.optional and (NONE_BECAUSE.fullmatch(plain) or (field.value is Value.TEXT and is_unstated(plain))):
        return True
    return bool(NOTHING.fullmatch(plain) or MARKS_ALONE.fullmatch(plain))


def one_of(text: str, field: Field) -> str | None:
    """Returns the field's value that a text is, or begins with before a remark (`yes, because ...`)."""
    values = field.values
    plain = uncited(undecorated(text.strip(f" {_TICKS}"))[0]).strip(f" \"'`*_()[]<>{_TICKS}").casefold()
    if plain in ("true", "false") and {"yes", "no"} <= set(values):
        plain = "yes" if plain == "true" else "no"
    if all(map(str.isdigit, values)):
        plain = in_digits(plain)
    # The longest, as one allowed value may begin with another.
    value = max((value for value in values if plain.startswith(value.casefold())), key=len, default=None)
    if value is None:
        return None
    rest = plain[len(value) :].lstrip("*_`\"'")
    if value.isdigit():
        rest = _ZEROS.sub("", rest, count=1)
        scale = _SCALE.match(rest) if field.kind is FieldKind.GRADE else None
        if scale and scale["most"] != values[-1]:
            return None
        rest = rest[scale.end() :] if scale else rest
    elif field.kind is FieldKind.TYPE:
        rest = _NODE.sub("", rest, count=1)
    if field.kind is FieldKind.TYPE and "(" in text:
        return None  # a node's parents may be stated there
    others = [other for other in values if other != value]
    return value if not rest[:1].isalnum() and ends_a_value(rest, others if value.isdigit() else ()) else None


def _numbers(field: Field, lines: Sequence[str]) -> Values | FieldFault:
    whole = undecorated("\n".join(line.strip() for line in lines).strip())[0].strip(" .*_`\"'")
    text = in_digits(whole)
    if len(text) > 1 and text[0] + text[-1] in ("[]", "()", "{}") and text[1:-1].count(text[0]) == 0:
        text = text[1:-1]
    numbers: list[int] = []
    place = 0
    while item := _ITEM.match(text, place):
        first, last = int(item["first"]), int(item["last"] or item["first"])
        numbers += range(first, min(last, first + 50) + 1) if last > first else [first]
        place = item.end()
        separator = _SEPARATOR.match(text, place)
        if separator is None or len(numbers) > _MOST_NUMBERS:
            break
        place = separator.end()
    if len(numbers) > _MOST_NUMBERS:
        return FieldFault(field, f"{quoted(text)} has more than {_MOST_NUMBERS} numbers")
    if not numbers or text[place:].strip(" .,;*_`\"'"):
        return FieldFault(field, f"{quoted(whole)} is not a list of numbers alone")
    return (", ".join(map(str, dict.fromkeys(numbers))),)
