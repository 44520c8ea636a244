"""Reads the values of a field by what the field holds. An uncertain one is a fault with its reason.

A value ends before remarks, notes and offers of help. Fields with many values hold texts, triples, tool calls, or
questions with their answers.
"""

import json
import re
from collections.abc import Sequence
from functools import partial
from typing import Any

from actors.messages import Field, FieldKind, Value
from actors.prompting.answer_value import answer_text, is_unstated, read_answer
from actors.prompting.form import CALL, PAIR, PROSE, TRIPLE, FieldFault, RawField, Values, quoted
from actors.prompting.reply_text import (
    BULLET,
    CHATTER,
    NOTHING,
    OTHER_LABEL,
    PLACEHOLDER,
    ends_a_value,
    stated_confidence,
    uncited,
    undecorated,
    unwrapped,
)
from actors.prompting.safe_text import one_line

_RULE = re.compile(r"\s*+[-=_*~]{3,}+\s*+")  # separates: `---`
_NONE_BECAUSE = re.compile(r"none\s?[,;:.(–—-].*", re.IGNORECASE)
_MARKS_ALONE = re.compile(r"[\s:;,]++")  # the rest of a value that was separators only

_TICKS = "✅✔☑✓❌\ufe0f"
# What a grade is out of: `/5`, ` out of 5`, ` (on a scale of 1 to 5)`.
_SCALE = re.compile(
    r"[\s(,]{0,3}(?:/|(?:out )?of(?: a (?:possible|maximum))?|on a scale (?:of|from) 1\s?(?:to|[-–]))\s?"
    r"(?P<most>\d{1,4}|ten|hundred)(?:\.0)?(?![\w])\)?"
)
_AFTER_SHARE = re.compile(r"\d\s?%?[^\w(]{0,8}[.;!?–—-]\s+(\w.*)")

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
# `Answer: ...` or `- **Answer 2:** ...`, and the heading of all answers.
ANSWER_LINE = re.compile(r"[\s>*_#•-]{0,8}+(?:short )?answers?(?:\s?#?\d{1,2})?[*_]{0,3}\s?[:：]", re.IGNORECASE)
_QUESTION_END = re.compile(r"[?？][ *_`\"'”]*+$", re.MULTILINE)
_QUESTION_AND_ANSWER = re.compile(
    r"^(?P<question>.*[?？])[ *_`\"'”]*+\n+"
    r"[ >*_#•-]{0,8}+(?:short )?answer[*_]{0,3}\s?[:：][*_]{0,3} ?(?P<answer>\S.*)$",
    re.IGNORECASE | re.MULTILINE,
)
_CALL = re.compile(r"[\s*_`\"'<\[(]*(\w+)[*_`\"'>]*\s*(?:[|:：–—]|->|→|\s-\s|(\()(?=.*\)$))\s*(.+)", re.DOTALL)
_CITED = re.compile(
    r"\s*(?:\s[#←]\s.*|//\s.*|\s?[(\[](?:from|source|see|implied|inferred|as|based|stated|per|according|not|picture|passage|"
    r"evidence|\d)[^()\[\]]*[)\]]|\s?\[\d{1,2}(?:,\s?\d{1,2})*\])\s*[.;]?$",
    re.IGNORECASE,
)
_PAIRS = {"(": ")", "<": ">", "[": "]", "{": "}", "⟨": "⟩", "`": "`", "*": "*", '"': '"'}
# The form's own words for the parts of a triple, as in the headings of a table: `Entity | Relation | Entity / value`.
_PART = (
    r"(?:entity|object|thing|relation(?:ship)?|(?:has )?attribute|property|value|head|tail|subject|predicate|source"
    r"|target)"
)
_FORM = re.compile(rf"(?:(?:first|second|{_PART})\s?/?\s?)?{_PART}(?:\s?(?:/|or)\s?{_PART})?(?: ?\d)?", re.IGNORECASE)
# Marks between words; `=`, `<` and `+` may be a relation.
_BETWEEN = re.compile(r"[\s:;,./_'\"`]*+")

# A backslash with what it escapes. Alone it is LaTeX's or of no meaning: `\alpha`, and `\frac` and `\times`, of which
# JSON would make a form feed and a tab.
_ESCAPE = re.compile(
    r"\\(?:[\\\"'/]|u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|(?!(?:text(?:bf|it|rm|tt|sf|sc)?|tfrac|times|theta|therefore|tilde"
    r"|triangle|tan|tau|to|top|right[a-z]*|rho|rangle|rfloor|rceil|rm|neq?|neg|nu|nabla|not|notin)(?![A-Za-z]))[nrt])?"
)
doubled = partial(_ESCAPE.sub, lambda escape: escape[0] if len(escape[0]) > 1 else "\\\\")


def read_values(raw: RawField, choices: Sequence[str] = ()) -> Values | FieldFault | None:
    """Reads the values of a field. () where it states none, None where it has no content at all.

    An answer that is stated not to be known has no value.
    """
    field = raw.field
    if raw.lines == ("null",):
        return () if field.value is Value.ANSWER else none(field)
    value = None if field.kind in PROSE else json_in(raw.lines)
    if value is None:
        return _of_lines(field, raw.lines, raw.several, choices)
    items = value if isinstance(value, list) else [value]
    if not items:
        return none(field)
    if field.many:
        return read_items(field, items)
    if field.value is Value.NUMBERS:
        return _numbers(field, [", ".join(map(str, items))])
    if not all(isinstance(item, str | int | float) for item in items) or (
        len(items) > 1 and (field.values or field.value is Value.SHARE)
    ):
        return FieldFault(field, f"one value was asked for, and {quoted(value)} is a list or an object")
    return _of_lines(field, (", ".join(map(str, items)),), False, choices)


def json_in(lines: Sequence[str]) -> Any:
    """Returns the JSON list or object that the lines are, or None. Lines behind it are remarks."""
    text = "\n".join(lines).strip()
    try:
        value, end = decode(text) if text[:1] in ("[", "{") else (None, 0)
    except (ValueError, RecursionError):
        return None
    # A picture's number in brackets is no list: `[2] shows it`. Neither is the first of several lists.
    return value if re.match(r"[ .,`]*+(?:\n\s*+(?![\[{])|$)", text[end:]) else None


def _of_lines(field: Field, lines: Sequence[str], several: bool, choices: Sequence[str]) -> Values | FieldFault | None:
    if field.many:
        return read_list(field, lines, several)
    if len(field.asks) > 24 and " ".join(lines[:2]).casefold().strip("<[ ").startswith(field.asks.casefold()):
        return None  # the form's own description, repeated
    if field.value is Value.ANSWER:
        return read_answer(field, answer_text(lines)[0], choices)
    if field.kind is FieldKind.REASONING:
        return (one_line(" ".join(lines)),) if " ".join(lines).strip() else None
    lines, _ = _own_lines(lines, field.kind in PROSE or field.value is Value.NUMBERS)
    whole = "\n".join(lines).strip()
    if not whole:
        return None
    text = re.sub(rf"\A{re.escape(field.name)}\s?[:：]\s?", "", one_line(whole), flags=re.IGNORECASE)
    text = text if field.value is Value.SHARE else unwrapped(text)
    if PLACEHOLDER.fullmatch(one_line(whole)) or text.lower() == field.name.lower():
        return None
    plain = text.strip(" .!*_`\"'")
    because = _NONE_BECAUSE.fullmatch(plain) or (field.value is Value.TEXT and is_unstated(plain))
    # One of the field's values may be `none`.
    if plain.lower() not in map(str.lower, field.values) and (
        (field.optional and because) or NOTHING.fullmatch(plain) or _MARKS_ALONE.fullmatch(plain)
    ):
        return none(field)
    if field.values:
        value = one_of(text, field)
        return (value,) if value else FieldFault(field, f"{quoted(text)} is none of {', '.join(field.values)}")
    if field.value is Value.SHARE:
        share = stated_confidence(text)
        return FieldFault(field, f"{quoted(text)} is no number from 0 to 1") if share is None else (repr(share),)
    return _numbers(field, lines) if field.value is Value.NUMBERS else (text,)


def _own_lines(lines: Sequence[str], prose: bool) -> tuple[list[str], Sequence[str]]:
    """Splits the lines of a value from others at a rule, a comment or another label.

    A short value is its first line, with the lines that continue it in small letters.
    """
    own: list[str] = []
    blank = False
    for number, line in enumerate(lines):
        if not line.strip():
            blank = bool(own)
            continue
        if own and (_RULE.fullmatch(line) or CHATTER.match(line) or (not prose and OTHER_LABEL.match(line))):
            return own, lines[number:]
        if own and not prose and (blank or not line.strip()[0].islower()):
            return own, lines[number:]
        own.append(line)
        blank = False
    return own, ()


def lines_behind(raw: RawField) -> Sequence[str]:
    """Returns the lines below a value, which may take it back. None of a text or a list."""
    field = raw.field
    if field.many or field.kind in PROSE or field.value is Value.NUMBERS:
        return ()
    if field.value is Value.SHARE and (remark := _AFTER_SHARE.search(raw.lines[0])):
        return (remark[1], *raw.lines[1:])
    if field.value is Value.ANSWER:
        return answer_text(raw.lines)[1]
    return _own_lines(raw.lines, prose=False)[1]


def one_of(text: str, field: Field) -> str | None:
    """Returns the field's value that a text is, or begins with before a remark (`yes, because ...`)."""
    values = field.values
    plain = uncited(undecorated(text.strip(f" {_TICKS}"))[0]).strip(f" \"'`*_()[]<>{_TICKS}").casefold()
    value = max((value for value in values if plain.startswith(value.casefold())), key=len, default=None)
    if value is None:
        return None
    rest = plain[len(value) :].lstrip("*_`\"'")
    if value.isdigit():
        rest = re.sub(r"\A\.0{1,2}(?!\d)", "", rest, count=1)
        scale = _SCALE.match(rest) if field.kind is FieldKind.GRADE else None
        if scale and scale["most"] != values[-1]:
            return None
        rest = rest[scale.end() :] if scale else rest
    if field.kind is FieldKind.TYPE and "(" in text:
        return None  # a node's parents may be stated there
    others = [other for other in values if other != value]
    return value if not rest[:1].isalnum() and ends_a_value(rest, others if value.isdigit() else ()) else None


def _numbers(field: Field, lines: Sequence[str]) -> Values | FieldFault:
    text = undecorated("\n".join(line.strip() for line in lines).strip())[0].strip(" .*_`\"'")
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
    if not numbers or text[place:].strip(" .,;*_`\"'"):
        return FieldFault(field, f"{quoted(text)} is not a list of numbers alone")
    return (", ".join(map(str, dict.fromkeys(numbers))),)


def none(field: Field) -> Values | FieldFault:
    """Reads a field that is stated to be empty."""
    return () if field.optional else FieldFault(field, "it is empty")


def read_list(field: Field, lines: Sequence[str], several: bool) -> Values | FieldFault | None:
    """Reads values on the label's line, on a line each, or as a list. `several`: the label is in the plural."""
    if field.value is Value.PAIR and any(map(ANSWER_LINE.match, lines)):
        return FieldFault(field, "it is not certain which answer is to which question")
    if any(line.lstrip().startswith(('{"', '["')) for line in lines):
        return FieldFault(field, "it has several lists or objects")
    # The items are the first line, and those of a list that follows.
    items: list[str] = []
    blank = False
    for number, line in enumerate(lines):
        plain = line.strip()
        if not plain or (items and re.fullmatch(r"[\s|:+=-]+", plain)):
            blank = bool(items)
            continue
        bulleted = bool(BULLET.match(line))
        if items and not bulleted:
            is_triple = field.value is Value.TRIPLE and read_triple(plain) is not None
            # After a blank line, or after a value on the label's own line, only what has the form of an item is one.
            if (blank or (lines[0].strip() and not several)) and not is_triple:
                if number and plain[0].islower() and not blank and field.value is Value.TEXT:
                    items[-1] += f" {plain}"
                    continue
                if field.value is Value.TRIPLE and "|" in plain:
                    items.append(plain)  # meant as one, and read as a fault below
                    continue
                break
        items.append(plain)
        blank = False
    if not items:
        return None
    first = unwrapped(items[0]).strip(" .!*_`\"'")
    # A candidate is an answer, which may be `no`.
    is_no = field.kind is FieldKind.CANDIDATE and first.casefold() == "no"
    unstated = field.optional and field.value is Value.TEXT and is_unstated(first)
    if len(items) == 1 and not is_no and (unstated or NOTHING.fullmatch(first) or _NONE_BECAUSE.fullmatch(first)):
        return none(field)
    if several and field.value is Value.TEXT and len(items) == 1 and field.kind is not FieldKind.SUB_QUESTION:
        items = [part.strip() for part in re.split(r"\s*;\s*" if ";" in items[0] else r",\s+(?:and\s+)?", items[0])]
    return read_items(field, items)


def read_items(field: Field, items: Sequence[Any]) -> Values | FieldFault | None:
    """Reads the items of a list, texts or JSON. None where all of them are empty or placeholders."""
    read = {Value.CALL: read_call, Value.PAIR: read_pair, Value.TRIPLE: read_edge}.get(field.value, read_text)
    values: list[str] = []
    for item in items:
        value = read(field, item)
        if isinstance(value, FieldFault):
            return value
        if value:
            values.append(value)
    return tuple(values) or None


def read_text(field: Field, item: Any) -> str | FieldFault:
    """Reads a text. "" for a placeholder."""
    if not isinstance(item, str | int | float):
        return FieldFault(field, f"{quoted(item)} is not one text")
    text = BULLET.sub("", str(item), count=1).strip()
    return "" if PLACEHOLDER.fullmatch(text) or _MARKS_ALONE.fullmatch(text) else one_line(unwrapped(text))


def read_pair(field: Field, item: Any) -> str | FieldFault:
    """Reads `question | answer`, also as an object or a list of two, or a question alone."""
    plain = BULLET.sub("", str(item), count=1).strip()
    if PLACEHOLDER.fullmatch(plain):
        return ""
    parts = item if isinstance(item, list) else unwrapped(plain).split("|")
    if isinstance(item, dict):
        parts = [item.get(name, "") for name in PAIR]
    texts = [one_line(unwrapped(str(part))) for part in parts]
    if not 1 <= len(texts) <= 2 or not texts[0]:
        return FieldFault(field, f"{quoted(item)} is not a question and its answer")
    return "" if PLACEHOLDER.fullmatch(texts[0]) else " | ".join(filter(None, texts))


def read_call(field: Field, item: Any) -> str | FieldFault:
    """Reads `tool | words`, also written `tool: words`, `tool("words")`, or as an object."""
    tools = {tool.casefold(): tool for tool in field.tools or ("texts", "pictures", "web")}
    tool = words = ""
    if isinstance(item, dict):
        tool, words = (str(item.get(name, "")) for name in CALL)
    elif match := _CALL.fullmatch(unwrapped(BULLET.sub("", str(item), count=1))):
        tool, words = match[1], match[3].removesuffix(")" if match[2] else "")
    tool, words = tools.get(tool.strip(" `\"'*_").casefold(), ""), unwrapped(one_line(words))
    if not tool or not words or PLACEHOLDER.fullmatch(words):
        return FieldFault(field, f"{quoted(item)} is not `{', '.join(tools.values())} | what to look for`")
    return f"{tool} | {words}"


def read_edge(field: Field, item: Any) -> str | FieldFault:
    """Reads a triple. "" for the form's own words."""
    if triple := read_triple(item):
        form = any(map(PLACEHOLDER.fullmatch, triple)) or all(map(_FORM.fullmatch, triple))
        return "" if form else " | ".join(triple)
    plain = BULLET.sub("", str(item), count=1).strip()
    if PLACEHOLDER.fullmatch(plain) and plain.count("|") <= 2:
        return ""
    return FieldFault(field, f"{quoted(item)} is not of three parts")


def read_triple(value: Any) -> tuple[str, str, str] | None:
    """Returns head, relation and tail. None for anything that does not clearly have just these three."""
    parts = value
    if isinstance(value, str):
        text = _bare(BULLET.sub("", value.replace("｜", "|").strip(), count=1))
        text = _CITED.sub("", text).rstrip(" .;,") if not text.endswith(")") or _CITED.search(text) else text
        parts = _bare(text.rstrip(" .;,")).strip().strip("|").split("|")
    elif isinstance(value, dict):
        parts = [value.get(name) for name in TRIPLE]
    if not isinstance(parts, list) or len(parts) != 3 or not all(isinstance(part, str | int | float) for part in parts):
        return None
    # On one line each, without marks around the whole, and with another mark for the bar between parts.
    head, relation, tail = (" ".join(_bare(str(part)).replace("|", "/").split()) for part in parts)
    triple = head, relation, tail
    if any(map(_BETWEEN.fullmatch, triple)):
        return None
    # One part may be a mark with a meaning: `5 | < | 7`, `+ | is | a positive charge`; `P | > | >` states nothing.
    return triple if sum(re.search(r"\w", part) is not None for part in triple) > 1 else None


def _bare(text: str) -> str:
    """Removes brackets, quotation marks or emphasis around the whole."""
    text = text.strip()
    while len(text) > 1 and _PAIRS.get(text[0]) == text[-1] and not {text[0], text[-1]} & set(text[1:-1].strip("*`")):
        text = text[1:-1].strip()
    return text


def paired(text: str) -> str:
    """Puts each answer after its question, `question | answer`, where each question is followed by one.

    Answers that come apart from the questions may be to another one, or to all, so the text then stays as it is.
    """
    joined, pairs = _QUESTION_AND_ANSWER.subn(r"\g<question> | \g<answer>", text)
    apart = any(map(ANSWER_LINE.match, joined.split("\n")))
    return text if apart or pairs < len(_QUESTION_END.findall(text)) else joined


def decode(text: str, start: int = 0) -> tuple[Any, int]:
    """Returns the JSON value that begins at `start`, and its end. Raises ValueError where the text is no JSON, and
    RecursionError where brackets are nested too deeply."""
    value, end = _DECODER.raw_decode(text, start)
    if text.find("\\", start, end) >= 0:
        value = _DECODER.decode(doubled(text[start:end]))
    return value, end


def _object(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Returns an object. Raises ValueError where a key has two different values."""
    made = dict(pairs)
    if any(made[name] != value for name, value in pairs):
        raise ValueError("a key occurs twice")
    return made


# Not strict: models leave line breaks in strings as they are.
_DECODER = json.JSONDecoder(strict=False, object_pairs_hook=_object)
