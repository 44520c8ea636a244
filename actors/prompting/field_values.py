"""Reads the values of a field by what the field holds. An uncertain one is a fault with its reason.

Items of lists are texts, or have parts between bars: triples, tool calls, questions with their answers.
"""

import html
import re
from collections.abc import Sequence

from actors.messages import Field, FieldKind, Value
from actors.prompting.answer_value import is_unstated, read_answer
from actors.prompting.form import FieldFault, RawField, Values, is_long, quoted
from actors.prompting.plain_value import (
    BULLET,
    ENDS_A_VALUE,
    PLACEHOLDER,
    bare,
    is_nothing,
    option_named,
    plain,
    stated_share,
    unwrapped,
)
from actors.prompting.safe_text import one_line
from actors.prompting.words import one_of_words

_OUT_OF = ("/", " /", " / ", " out of ", " of ", " on a scale of 1 to ")  # between a grade and the best one
_NEVER, _ALWAYS = re.compile("(?!)"), re.compile("")
_MOST_NUMBERS = 999
_MOST_IN_RANGE = 50
_NUMBERS = re.compile(r"(\d{1,3})(?:[ ]?[-–][ ]?[\[(]?(\d{1,3}))?")
_AROUND_NUMBERS = re.compile(rf"\b{one_of_words('lists', 'numbered')}\b|[\s\[\](),，、;&+/#*`\"'.•-]", re.IGNORECASE)
# A bullet before a number, or a remark behind it.
_BESIDE_NUMBER = re.compile(
    r"^\s*(?:[-*+•]|\d{1,2}[.)])\s+(?=\D)|\s\([^()\n]*\)|(?<=\d)\s?[:–—-]\s[^\d\n]*", re.MULTILINE
)
_ANSWER_LINE = re.compile(
    r"[\s>*_#•-]{0,8}+(?:short )?answers?(?P<number>\s?#?\d{1,2})?[*_]{0,3}\s?[:：][*_]{0,3}\s?(?P<answer>.*)",
    re.IGNORECASE,
)
_CITED = re.compile(
    rf"\s*(?:\s[#←]\s.*|//\s.*|\s\((?:\d|{one_of_words('remarks', 'origin')}\b)[^()|]*\)|\s?\[\d[^\[\]|]*\])\s*[.;]?$",
    re.IGNORECASE,
)
_BRACKETED = re.compile(r"\A[(<\[{⟨]([^()<>\[\]{}⟨⟩]*)[)>\]}⟩]\Z")
_ITEMS = {
    Value.TEXT: re.compile(r"(.+)"),
    Value.PAIR: re.compile(r"([^|｜]+)(?:[|｜]\s*+([^|｜]+))?[|\s]*"),
    Value.TRIPLE: re.compile(r"[|｜]?([^|｜]+)[|｜]([^|｜]+)[|｜]([^|｜]+)[|｜]?"),
    Value.CALL: re.compile(r"(\w+)\W{0,3}?[|:：](.+)"),  # a colon may stand behind a tool
}
# The form's own words for the parts of a triple, as in the head of a table.
_PART_NAMES = re.compile(rf"(?=.*\|)[\s|<]*(?:{one_of_words('lists', 'part')}[\s/\d|<>]*)+", re.IGNORECASE)


def value_and_rest(raw: RawField) -> tuple[str, Sequence[str]]:
    """Splits the lines of a field into its value and the lines behind it.

    A short value is its first line, or the lines of a list. Prose and numbers go on until a rule, a remark or an offer
    of help.
    """
    lines = [line.strip() for line in raw.lines]
    first = next((number for number, line in enumerate(lines) if any(map(str.isalnum, line))), 0)
    del lines[:first]
    if first and ENDS_A_VALUE.match(lines[0]):
        return "", lines
    goes_on = BULLET if BULLET.match(lines[0]) else _NEVER
    if is_long(raw.field):
        goes_on = _ALWAYS
    value = [lines.pop(0)]
    while lines and goes_on.match(lines[0]) and not ENDS_A_VALUE.match(lines[0]):
        value.append(lines.pop(0))
    if goes_on is BULLET and len(value) > 1:
        return ", ".join(BULLET.sub("", line, count=1) for line in value), lines
    return "\n".join(value), lines


def read_values(raw: RawField, choices: Sequence[str] = ()) -> Values | FieldFault | None:
    """Reads the values of a field. () where it states none, None where it has no content at all.

    An answer that is stated not to be known has no value.
    """
    if raw.field.kind is FieldKind.REASONING:
        return (one_line(" ".join(raw.lines)),) if "".join(raw.lines).strip() else None
    if raw.field.many:
        return read_items(raw.field, list_items(raw))
    return read_one(raw.field, value_and_rest(raw)[0], choices)


def read_one(field: Field, written: str, choices: Sequence[str]) -> Values | FieldFault | None:
    """Reads the one value of a field."""
    line = re.sub(rf"\A{re.escape(field.name)}\s?[:：]\s?", "", one_line(written), flags=re.IGNORECASE)
    if len(field.asks) > 24 and line.casefold().strip("<[ ").startswith(field.asks.casefold()):
        return None  # the form's own description, repeated
    if line.startswith(('{"', '["')):
        return FieldFault(field, f"one value was asked for, and {quoted(line)} is a list or an object")
    if field.value is Value.ANSWER:
        return read_answer(field, line, choices)
    text = unwrapped(line)
    if not text or PLACEHOLDER.fullmatch(line) or plain(text) == plain(field.name):
        return None
    options = options_of(field)
    # One of the field's values may be `none`.
    if plain(text) not in options and states_none(field, text):
        return none(field)
    if field.value is Value.NUMBERS:
        return read_numbers(field, written)
    value: str | None = text
    if options:
        value = option_named(text, options)
    elif field.value is Value.SHARE:
        share = stated_share(text)
        value = None if share is None else repr(share)
    wanted = f"none of {', '.join(field.values)}" if options else "no number from 0 to 1"
    return FieldFault(field, f"{quoted(text)} is {wanted}") if value is None else (value,)


def options_of(field: Field) -> dict[str, str | None]:
    """Returns the values that a field can have, by their spellings. A grade may name what it is out of."""
    options: dict[str, str | None] = {plain(value): value for value in field.values}
    if "yes" in options:
        options |= {"true": "yes", "false": "no"}
    for value in field.values if field.kind is FieldKind.GRADE else ():
        options |= {f"{value}{of}": value for of in (".0", *(f"{of}{field.values[-1]}" for of in _OUT_OF))}
    return options


def read_numbers(field: Field, written: str) -> Values | FieldFault:
    """Reads a list of numbers, with remarks and ranges. No other words may stand in it."""
    text = _BESIDE_NUMBER.sub("", written)
    numbers: dict[str, None] = {}
    for first, last in _NUMBERS.findall(text):
        most = min(int(last or first), int(first) + _MOST_IN_RANGE)
        numbers |= dict.fromkeys(map(str, range(int(first), most + 1)))
    if not 0 < len(numbers) <= _MOST_NUMBERS or _AROUND_NUMBERS.sub("", _NUMBERS.sub("", text)):
        return FieldFault(field, f"{quoted(written)} is not a list of numbers alone")
    return (", ".join(numbers),)


def none(field: Field) -> Values | FieldFault:
    """Reads a field that is stated to be empty."""
    return () if field.optional else FieldFault(field, "it is empty")


def states_none(field: Field, text: str) -> bool:
    """True for `none` in some words, and for a text in whose place it is said not to be known."""
    unstated = field.optional and field.value is Value.TEXT and is_unstated(text)
    return unstated or (is_nothing(text) and (field.optional or plain(text) != "no"))


def list_items(raw: RawField) -> list[str]:
    """Returns the items of a list. Behind a blank line, or a value on the label's line, only bullets begin one.

    The answer to a question may stand on the next line. A label in the plural may have texts between commas.
    """
    field = raw.field
    items: list[str] = []
    is_listed = raw.several or not raw.lines[0].strip()
    is_apart = False  # by a blank line or a rule
    for line in raw.lines:
        text = line.strip()
        if not text or not re.search(r"[^\s|:+=_*~-]", text):
            is_apart = bool(items)
        elif items and field.value is Value.PAIR and (answer := _ANSWER_LINE.fullmatch(text)):
            # A bar too many where it is not certain to which question the answer is.
            items[-1] += f" | {'? | ?' if answer['number'] else answer['answer'] or '? | ?'}"
        elif (
            not items
            or (is_listed and not is_apart)
            or BULLET.match(line)
            or (field.value is Value.TRIPLE and "|" in text)
        ):
            items.append(text)
            is_apart = False
        elif field.value is Value.TEXT and text[0].islower() and not is_apart and not ENDS_A_VALUE.match(text):
            items[-1] += f" {text}"
        else:
            break
    if raw.several and field.value is Value.TEXT and len(items) == 1 and "?" not in items[0]:
        return re.split(r"\s*;\s*" if ";" in items[0] else r",\s+(?:and\s+)?", items[0])
    return items


def read_items(field: Field, items: Sequence[str]) -> Values | FieldFault | None:
    """Reads the items of a list: texts, or parts with bars between them. None where there are only the form's words."""
    if len(items) == 1 and states_none(field, unwrapped(items[0])):
        return none(field)
    values: list[str] = []
    for item in items:
        text = one_line(html.unescape(bare(BULLET.sub("", item, count=1))))
        is_form = PLACEHOLDER.fullmatch(item.strip())
        if field.value is Value.TRIPLE:
            is_form = _PART_NAMES.fullmatch(text)
            text = _CITED.sub("", _BRACKETED.sub(r"\1", _CITED.sub("", text))).rstrip(" .;,")
        found = _ITEMS[field.value].fullmatch(text)
        parts = [part for part in found.groups() if part] if found else []
        if is_form or not text.strip(" :;,") or any(map(PLACEHOLDER.fullmatch, parts)):
            continue
        value = value_of(field, [bare(part) for part in parts])
        if not value:
            return FieldFault(field, f"{quoted(item)} has another form")
        values.append(value)
    return tuple(values) or None


def value_of(field: Field, parts: list[str]) -> str:
    """Joins the parts of an item with bars between them. Empty where they state nothing."""
    if field.value is Value.CALL and parts:
        tools = {tool.casefold(): tool for tool in field.tools}
        parts[0] = tools.get(parts[0].casefold(), "")
    # One part may be a mark with a meaning: `5 | < | 7`, `+ | is | a positive charge`; `P | > | >` states nothing.
    in_words = [part for part in parts if re.search(r"\w", part)]
    is_stated = all(part.strip(" :;,./_'\"`") for part in parts) and len(in_words) >= min(2, len(parts))
    return " | ".join(parts) if is_stated and not "".join(parts).startswith(('{"', '["')) else ""
