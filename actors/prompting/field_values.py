"""Reads the values of a field by what the field holds. An uncertain one is a fault with its reason.

Items of lists are texts, or have parts between bars: triples, tool calls, questions with their answers.
"""

import html
import re
from collections.abc import Sequence
from functools import lru_cache

from actors.messages import Field, FieldKind, Value
from actors.prompting.answer_value import is_unstated, read_answer
from actors.prompting.form import FieldFault, FieldText, Outcome, is_long, quoted
from actors.prompting.plain_value import (
    BULLET,
    ENDS_A_VALUE,
    PLACEHOLDER,
    bare,
    is_blank,
    is_nothing,
    option_named,
    plain,
    says_nothing,
    stated_share,
    unwrapped,
)
from actors.prompting.safe_text import one_line
from actors.prompting.words import pattern

_OUT_OF = ("/", " /", " / ", " out of ", " of ", " on a scale of 1 to ")  # between a grade and the best one
_LONG_DESCRIPTION = 24  # characters that no value begins with by chance
_MOST_NUMBERS = 999
_MOST_IN_RANGE = 50
_NUMBERS = re.compile(r"(\d{1,3})(?:[ ]?[-–][ ]?[\[(]?(\d{1,3}))?")
_AROUND_NUMBERS = pattern(r"\b<lists.numbered>\b|[\s\[\](),，、;&+/#*`\"'.•-]")
_WORD = re.compile(r"\w")
_SEMICOLON = re.compile(r"\s*;\s*")
_COMMA = re.compile(r",\s+(?:and\s+)?")
_NO_RULE = re.compile(r"[^\s|:+=_*~-]")
# A bullet before a number, or a remark behind it.
_BESIDE_NUMBER = re.compile(
    r"^\s*(?:[-*+•]|\d{1,2}[.)])\s+(?=\D)|\s\([^()\n]*\)|(?<=\d)\s?[:–—-]\s[^\d\n]*", re.MULTILINE
)
_ANSWER_LINE = re.compile(
    r"[\s>*_#•-]{0,8}+(?:short )?answers?(?P<number>\s?#?\d{1,2})?[*_]{0,3}\s?[:：][*_]{0,3}\s?(?P<answer>.*)",
    re.IGNORECASE,
)
# A number in brackets behind a bar is a part: accounts write a negative amount so.
_CITED = pattern(
    r"\s*(?:\s[#←]\s.*|//\s.*|(?<![|｜])\s\(\d[^()|]*\)|\s\(<remarks.origin>\b[^()|]*\)|\s?\[\d[^\[\]|]*\])"
    r"\s*[.;]?$"
)
_BRACKETED = re.compile(r"\A[(<\[{⟨]([^()<>\[\]{}⟨⟩]*)[)>\]}⟩]\Z")
_ITEMS = {
    Value.TEXT: re.compile(r"(.+)"),
    Value.PAIR: re.compile(r"([^|｜]+)(?:[|｜]\s*+([^|｜]+))?[|\s]*"),
    Value.TRIPLE: re.compile(r"[|｜]?([^|｜]+)[|｜]([^|｜]+)[|｜]([^|｜]+)[|｜]?"),
    Value.CALL: re.compile(r"(\w+)\W{0,3}?[|:：](.+)"),  # a colon may stand behind a tool
}
# The form's own words for the parts of a triple, as in the head of a table.
_PART_NAMES = pattern(r"(?=.*\|)[\s|<]*(?:<lists.part>[\s/\d|<>]*)+")


def value_and_rest(field_text: FieldText) -> tuple[str, Sequence[str]]:
    """Splits the lines of a field into its value and the lines behind it.

    A short value is its first line, or the lines of a list. Prose and numbers go on until a rule, a remark or an offer
    of help.
    """
    lines = list(map(str.strip, field_text.lines))
    start = 0
    if is_blank(lines[0]):
        start = next((number for number, line in enumerate(lines) if not is_blank(line)), 0)
        if start and ENDS_A_VALUE.match(lines[start]):
            return "", lines[start:]

    goes_on = is_long(field_text.field)
    is_list = not goes_on and BULLET.match(lines[start]) is not None
    end = start + 1
    while end < len(lines) and not ENDS_A_VALUE.match(lines[end]):
        if not goes_on and not (is_list and BULLET.match(lines[end])):
            break
        end += 1
    if is_list and end > start + 1:
        return ", ".join(BULLET.sub("", line, count=1) for line in lines[start:end]), lines[end:]
    return "\n".join(lines[start:end]), lines[end:]


def read_values(field_text: FieldText, choices: tuple[str, ...] = ()) -> Outcome:
    """Reads the values of a field. () where it states none, None where it has no content at all.

    An answer that is stated not to be known has no value.
    """
    field = field_text.field
    if field.kind is FieldKind.REASONING:
        reasoning = one_line(" ".join(field_text.lines))
        return (reasoning,) if reasoning else None
    if field.many:
        return read_items(field, list_items(field_text))

    text, _ = value_and_rest(field_text)
    line = one_line(text)
    description = field.asks[:_LONG_DESCRIPTION].casefold()
    if len(description) == _LONG_DESCRIPTION and line.casefold().strip("<[ ").startswith(description):
        return None  # the form's own description, repeated or altered
    if line.startswith(('{"', '["')):
        return FieldFault(field, f"one value was asked for, and {quoted(line)} is a list or an object")
    if field.value is Value.ANSWER:
        return read_answer(field, line, choices)
    return read_one(field, line, text)


@lru_cache(maxsize=1024)
def read_one(field: Field, line: str, text: str) -> Outcome:
    """Reads the one value of a field, from its text on one line and as it was written. Cached as `read_answer`."""
    value = unwrapped(line)
    if not value or PLACEHOLDER.fullmatch(line) or plain(value) == plain(field.name):
        return None
    options = options_of(field)
    # One of the field's values may be `none`.
    if plain(value) not in options and states_none(field, value):
        return none(field)

    if options:
        option = option_named(value, options)
        if option is None:
            return FieldFault(field, f"{quoted(value)} is none of {', '.join(field.values)}")
        return (option,)
    if field.value is Value.SHARE:
        share = stated_share(value)
        if share is None:
            return FieldFault(field, f"{quoted(value)} is no number from 0 to 1")
        return (repr(share),)
    if field.value is Value.NUMBERS:
        return read_numbers(field, text)
    return (value,)


@lru_cache(maxsize=1024)
def options_of(field: Field) -> dict[str, str | None]:
    """Returns the values that a field can have, by their spellings. A grade may name what it is out of."""
    options: dict[str, str | None] = {plain(value): value for value in field.values}
    if "yes" in options:
        options |= {"true": "yes", "false": "no"}
    if field.kind is FieldKind.GRADE:
        best = field.values[-1]
        for value in field.values:
            options[f"{value}.0"] = value
            for out_of in _OUT_OF:
                options[f"{value}{out_of}{best}"] = value
    return options


def read_numbers(field: Field, text: str) -> Outcome:
    """Reads a list of numbers, with remarks and ranges. No other words may stand in it."""
    list_text = _BESIDE_NUMBER.sub("", text)
    numbers: dict[str, None] = {}
    for first, last in _NUMBERS.findall(list_text):
        end = min(int(last or first), int(first) + _MOST_IN_RANGE)
        for number in range(int(first), end + 1):
            numbers[str(number)] = None

    words = _AROUND_NUMBERS.sub("", _NUMBERS.sub("", list_text))
    if words or not 0 < len(numbers) <= _MOST_NUMBERS:
        return FieldFault(field, f"{quoted(text)} is not a list of numbers alone")
    return (", ".join(numbers),)


def none(field: Field) -> Outcome:
    """Reads a field that is stated to be empty."""
    if field.optional:
        return ()
    return FieldFault(field, "it is empty")


def states_none(field: Field, text: str) -> bool:
    """True for `none` in some words, and for a text that only states that nothing is known."""
    if field.optional and field.value is Value.TEXT and is_unstated(text):
        return True
    return says_nothing(text) or (field.optional and is_nothing(text))


def list_items(field_text: FieldText) -> list[str]:
    """Returns the items of a list. Behind a blank line, or a value on the label's line, only bullets begin one.

    The answer to a question may stand on the next line. A label in the plural may have texts between commas.
    """
    field = field_text.field
    items: list[str] = []
    is_listed = field_text.is_plural or not field_text.lines[0].strip()
    is_apart = False  # by a blank line or a rule
    for line in field_text.lines:
        text = line.strip()
        if not _NO_RULE.search(text):
            is_apart = bool(items)
            continue

        answer = None
        if field.value is Value.PAIR and items:
            answer = _ANSWER_LINE.fullmatch(text)
        is_row = field.value is Value.TRIPLE and "|" in text
        is_item = is_row or (is_listed and not is_apart) or BULLET.match(line) or not items
        if answer:
            if answer["answer"] and not answer["number"]:
                items[-1] += f" | {answer['answer']}"
            else:
                # A bar too many: it is not certain to which question the answer is.
                items[-1] += " | ? | ?"
        elif is_item:
            items.append(text)
            is_apart = False
        elif field.value is Value.TEXT and text[0].islower() and not is_apart and not ENDS_A_VALUE.match(text):
            items[-1] += f" {text}"
        else:
            break

    if field_text.is_plural and field.value is Value.TEXT and len(items) == 1 and "?" not in items[0]:
        separator = _SEMICOLON if ";" in items[0] else _COMMA
        return separator.split(items[0])
    return items


def read_items(field: Field, items: Sequence[str]) -> Outcome:
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
        parts: list[str] = []
        match = _ITEMS[field.value].fullmatch(text)
        if match:
            parts += filter(None, match.groups())
        if is_form or not text.strip(" :;,") or any(map(PLACEHOLDER.fullmatch, parts)):
            continue

        value = value_of(field, list(map(bare, parts)))
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
    parts_in_words = list(filter(_WORD.search, parts))
    is_empty = any(not part.strip(" :;,./_'\"`") for part in parts)
    is_json = "".join(parts).startswith(('{"', '["'))
    if is_empty or is_json or len(parts_in_words) < min(2, len(parts)):
        return ""
    return " | ".join(parts)
