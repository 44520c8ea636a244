"""Reads the values of a field by what the field holds. An uncertain one is a fault with its reason.

A value ends before remarks, notes and offers of help. Fields with many values hold texts, triples, tool calls, or
questions with their answers.
"""

import ast
import json
import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from actors.messages import Field, FieldKind, Value
from actors.prompting.answer_value import answer_text, is_unstated, read_answer
from actors.prompting.form import PROSE, FieldFault, RawField, Twice, Values, quoted
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
_NUMBER_WORDS = {"one": "1", "two": "2", "three": "3", "four": "4", "five": "5"}
_NUMBER_WORD = re.compile(rf"\b(?:{'|'.join(_NUMBER_WORDS)})\b", re.IGNORECASE)
_TO_LINE_END = re.compile(r"[ .,`]*+(?:\n\s*+|$)")

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
_PAIR_NAMES = frozenset(("question", "sub-question", "subquestion", "sub question", "answer", "short answer"))
# `Answer: ...` or `- **Answer 2:** ...`, and the heading of all answers.
ANSWER_LINE = re.compile(
    r"[\s>*_#•-]{0,8}+(?:short )?answers?(?:\s?#?(?P<number>\d{1,2}))?[*_]{0,3}\s?[:：][*_]{0,3}(?P<answer>.*)",
    re.IGNORECASE,
)
_QUESTION = re.compile(r".*[?？][\s*_`\"'”]*+")
_CALL = re.compile(r"[\s*_`\"'<\[(]*(\w+)[*_`\"'>]*\s*(?:[|:：–—]|->|→|\s-\s|(\()(?=.*\)$))\s*(.+)", re.DOTALL)
_LABEL = re.compile(r"(?:[*_]{0,2}triplet?s?(?:\s\d{1,2})?[*_]{0,2}\s?[:：]\s*)", re.IGNORECASE)
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
_HEAD = tuple("head subject source from entity1 object1 start s h entity".split())
_RELATION = tuple("relation predicate relationship property attribute type label edge p r verb".split())
_TAIL = tuple("tail object target to value entity2 object2 end o t".split())
# Marks between words; `=`, `<` and `+` may be a relation.
_BETWEEN = re.compile(r"[\s:;,./_'\"`]*+")

Parts = tuple[str, str, str]
# A backslash with what it escapes. Alone it is LaTeX's or of no meaning: `\alpha`, and `\frac` and `\times`, of which
# JSON would make a form feed and a tab.
_ESCAPE = re.compile(
    r"\\(?:[\\\"'/]|u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|(?!(?:text(?:bf|it|rm|tt|sf|sc)?|tfrac|times|theta|therefore|tilde"
    r"|triangle|tan|tau|to|top|right[a-z]*|rho|rangle|rfloor|rceil|rm|neq?|neg|nu|nabla|not|notin)(?![A-Za-z]))[nrt])?"
)
_doubled = partial(_ESCAPE.sub, lambda escape: escape[0] if len(escape[0]) > 1 else "\\\\")


def read_values(raw: RawField, choices: Sequence[str] = ()) -> Values | FieldFault | None:
    """Reads the values of a field. () where it states none, None where it has no content at all.

    An answer that is stated not to be known has no value.
    """
    field = raw.field
    value = raw.value
    if isinstance(value, Twice):
        return FieldFault(field, "it occurs twice, with different values")
    if raw.lines:
        value = None if field.kind in PROSE else _json_in(raw.lines)
        if value is None:
            return _of_lines(field, raw.lines, raw.several, choices, raw.closed)
    elif value is None:
        return () if field.optional or field.value is Value.ANSWER else FieldFault(field, "it is null")
    if isinstance(value, str):
        return _of_lines(field, tuple(value.split("\n")), field.many, choices)
    items = value if isinstance(value, list) else [value]
    if field.value is Value.NUMBERS:
        return _numbers(field, [", ".join(map(str, items))]) if items else none(field)
    if field.many:
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


def _json_in(lines: Sequence[str]) -> Any:
    """Returns the JSON list or object that the lines are, or None. Values on separate lines are a list."""
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
        if not own and _RULE.fullmatch(line):
            continue
        if own and not prose and (blank or not line.strip()[0].islower()):
            return own, lines[number:]
        own.append(line)
        blank = False
    return own, ()


def lines_behind(raw: RawField) -> Sequence[str]:
    """Returns the lines below a value, which may take it back. None of a text or a list."""
    if raw.lines and raw.field.value is Value.SHARE and (remark := _AFTER_SHARE.search(raw.lines[0])):
        return (remark[1], *raw.lines[1:])
    if len(raw.lines) < 2 or raw.field.many or raw.field.kind in PROSE or raw.field.value is Value.NUMBERS:
        return raw.after
    if raw.field.value is Value.ANSWER:
        return (*answer_text(raw.lines, raw.closed)[1], *raw.after)
    return (*_own_lines(raw.lines, prose=False)[1], *raw.after)


def in_digits(text: str) -> str:
    """Writes small numbers in digits."""
    return _NUMBER_WORD.sub(lambda word: _NUMBER_WORDS[word[0].lower()], text)


def one_of(text: str, field: Field) -> str | None:
    """Returns the field's value that a text is, or begins with before a remark (`yes, because ...`)."""
    values = field.values
    plain = uncited(undecorated(text.strip(f" {_TICKS}"))[0]).strip(f" \"'`*_()[]<>{_TICKS}").casefold()
    if all(map(str.isdigit, values)):
        plain = in_digits(plain)
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
    elif field.kind is FieldKind.TYPE:
        rest = re.sub(r"\A\s(?:node|type)\b", "", rest, count=1)
    if field.kind is FieldKind.TYPE and "(" in text:
        return None  # a node's parents may be stated there
    others = [other for other in values if other != value]
    return value if not rest[:1].isalnum() and ends_a_value(rest, others if value.isdigit() else ()) else None


def _numbers(field: Field, lines: Sequence[str]) -> Values | FieldFault:
    whole = undecorated("\n".join(line.strip() for line in lines).strip())[0].strip(" .*_`\"'")
    text = in_digits(whole)
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


def none(field: Field) -> Values | FieldFault:
    """Reads a field that is stated to be empty."""
    return () if field.optional else FieldFault(field, "it is empty")


def read_list(field: Field, lines: Sequence[str], several: bool) -> Values | FieldFault | None:
    """Reads values on the label's line, on a line each, or as a list. `several`: the label is in the plural."""
    if field.value is Value.PAIR and any(map(ANSWER_LINE.match, lines)):
        return FieldFault(field, "it is not certain which answer is to which question")
    # The items are the first line, and those of a list that follows.
    items: list[str] = []
    blank = False
    for number, line in enumerate(lines):
        plain = line.strip()
        if not plain or (items and re.fullmatch(r"[\s|:+=-]+", plain)):
            blank = bool(items)
            continue
        bulleted = bool(BULLET.match(line))
        if items and (_RULE.fullmatch(line) or (CHATTER.match(line) and not bulleted)):
            break
        if _RULE.fullmatch(line):
            continue
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
    if field.value is Value.TRIPLE:  # several on one line: `a | b | c; d | e | f`
        apart: list[str] = []
        for item in items:
            parts = [part for part in re.split(r"\s*;\s*", item.strip("<> ")) if part]
            apart += parts if len(parts) > 1 and all(part.count("|") == 2 for part in parts) else [item]
        items = apart
    items = [item for item in items if item]
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
    values: list[str] = []
    for item in items:
        plain = BULLET.sub("", item, count=1).strip() if isinstance(item, str) else ""
        value: str | FieldFault
        if field.value is Value.CALL:
            value = _call(field, item)
        elif field.value is Value.PAIR:
            value = _pair(field, item)
        elif field.value is Value.TRIPLE:
            if triple := read_triple(item):
                form = any(map(PLACEHOLDER.fullmatch, triple)) or all(map(_FORM.fullmatch, triple))
                value = "" if form else " | ".join(triple)
            elif PLACEHOLDER.fullmatch(plain) and plain.count("|") <= 2:
                value = ""
            else:
                return FieldFault(field, f"{quoted(item)} is not of three parts")
        else:
            texts = [text for text in item.values() if isinstance(text, str)] if isinstance(item, dict) else []
            item = texts[0] if len(texts) == 1 else item
            if not isinstance(item, str | int | float):
                return FieldFault(field, f"{quoted(item)} is not one text")
            text = BULLET.sub("", str(item), count=1).strip()
            value = "" if PLACEHOLDER.fullmatch(text) or _MARKS_ALONE.fullmatch(text) else one_line(unwrapped(text))
        if isinstance(value, FieldFault):
            return value
        if value:
            values.append(value)
    return tuple(values) or None


def _pair(field: Field, item: Any) -> str | FieldFault:
    """Reads `question | answer`, also as an object or a list of two, or a question alone."""
    parts = item
    if isinstance(item, dict):  # the question comes first, wherever the object has it
        by_key = sorted(item.items(), key=lambda pair: "question" not in str(pair[0]).lower())
        parts = [part for _, part in by_key if isinstance(part, str)]
    if not isinstance(parts, list):
        pair = BULLET.sub("", str(item), count=1).strip()
        if PLACEHOLDER.fullmatch(pair):
            return ""
        inner = unwrapped(pair)
        # Without what wraps the whole, `**a | b**`; in `"a" | "b"` each part has its own marks.
        wrapper = pair[: max(0, pair.find(inner))]
        parts = (inner if wrapper and wrapper not in inner else pair).split("|")
    texts = [one_line(unwrapped(str(part))) for part in parts]
    if not 1 <= len(texts) <= 2 or not texts[0]:
        return FieldFault(field, f"{quoted(str(item))} is not a question and its answer")
    if PLACEHOLDER.fullmatch(texts[0]) or {text.lower() for text in texts} <= _PAIR_NAMES:
        return ""
    return " | ".join(text for text in texts if text)


def _call(field: Field, item: Any) -> str | FieldFault:
    """Reads `tool | words`, also written `tool: words`, `tool("words")`, or as an object."""
    tools = {tool.casefold(): tool for tool in field.tools or ("texts", "pictures", "web")}
    tool = words = ""
    if isinstance(item, dict):
        arguments = item.get("arguments")
        items = [*item.items(), *(arguments.items() if isinstance(arguments, dict) else ())]
        by_key = {str(key).lower(): text for key, text in items if isinstance(text, str)}
        tool = next((by_key.pop(k) for k in ("tool", "name", "action") if k in by_key), "")
        words = next(iter(by_key.values())) if len(by_key) == 1 else ""
    elif isinstance(item, str):
        plain = undecorated(BULLET.sub("", item.strip(), count=1).strip().strip("`").strip())[0]
        if match := _CALL.fullmatch(plain):
            tool, words = match[1], match[3].removesuffix(")" if match[2] else "")
    tool, words = tools.get(tool.strip(" `\"'*_").casefold(), ""), unwrapped(one_line(words))
    if not tool or not words or PLACEHOLDER.fullmatch(words):
        return FieldFault(field, f"{quoted(item)} is not `{', '.join(tools.values())} | what to look for`")
    return f"{tool} | {words}"


def read_triple(value: Any) -> Parts | None:
    """Returns head, relation and tail. None for anything that does not clearly have just these three."""
    if isinstance(value, str):
        text = _bare(_LABEL.sub("", BULLET.sub("", value.replace("｜", "|").strip(), count=1), count=1))
        text = _CITED.sub("", text).rstrip(" .;,") if not text.endswith(")") or _CITED.search(text) else text
        inner = _bare(text.rstrip(" .;,"))
        return _checked(re.split(r"\s*\|\s*", inner.strip().strip("|"))) if "|" in inner else None
    if isinstance(value, Mapping):
        keys = {str(key).lower(): inner for key, inner in value.items()}
        if len(keys) >= 3:
            return _checked([next((keys[k] for k in names if k in keys), None) for names in (_HEAD, _RELATION, _TAIL)])
        return None
    return _checked(value) if isinstance(value, Sequence) else None


def _bare(text: str) -> str:
    """Removes brackets, quotation marks or emphasis around the whole."""
    text = text.strip()
    while len(text) > 1 and _PAIRS.get(text[0]) == text[-1] and not {text[0], text[-1]} & set(text[1:-1].strip("*`")):
        text = text[1:-1].strip()
    return text


def _checked(parts: Sequence[Any]) -> Parts | None:
    if len(parts) != 3 or not all(isinstance(part, str | int | float) for part in parts):
        return None
    # On one line each, without marks around the whole, and with another mark for the bar between parts.
    texts = (_bare(str(part).lower() if isinstance(part, bool) else str(part)) for part in parts)
    head, relation, tail = (" ".join(text.replace("|", "/").split()) for text in texts)
    triple = head, relation, tail
    if any(map(_BETWEEN.fullmatch, triple)):
        return None
    # One part may be a mark with a meaning: `5 | < | 7`, `+ | is | a positive charge`; `P | > | >` states nothing.
    return triple if sum(re.search(r"\w", part) is not None for part in triple) > 1 else None


def paired(text: str) -> str:
    """Puts each answer after its question, `question | answer`, where each question is followed by one.

    Answers that come apart from the questions may be to another one, or to all, so the text then stays as it is.
    """
    lines = [line for line in text.split("\n") if line.strip()]
    answers = [ANSWER_LINE.match(line) for line in lines]
    questions = [not answer and bool(_QUESTION.fullmatch(line)) for answer, line in zip(answers, lines, strict=True)]
    if not any(answers) or questions.count(True) != len(lines) - answers.count(None):
        return text
    joined: list[str] = []
    number = 0
    for place, (line, answer) in enumerate(zip(lines, answers, strict=True)):
        if answer is None:
            joined.append(line)
            continue
        number += 1
        value = answer["answer"].strip()
        if not place or not questions[place - 1] or not value or int(answer["number"] or number) != number:
            return text
        joined[-1] = f"{joined[-1].rstrip()} | {value}"
    return "\n".join(joined)


def decode(text: str, start: int = 0) -> tuple[Any, int]:
    """Returns the JSON value that begins at `start`, and its end. Raises ValueError where the text is no JSON, and
    RecursionError where brackets are nested too deeply."""
    value, end = _DECODER.raw_decode(text, start)
    if text.find("\\", start, end) >= 0:
        value = _DECODER.decode(_doubled(text[start:end]))
    return value, end


def _object(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for name, value in pairs:
        made[name] = Twice() if name in made and made[name] != value else value
    return made


# Not strict: models leave line breaks in strings as they are.
_DECODER = json.JSONDecoder(strict=False, object_pairs_hook=_object)


def literal(text: str) -> Any:
    """Reads JSON with commas before a closing bracket, with comments, or in Python's spelling. None for other text."""
    text = _doubled(text)
    plain = re.sub(r",(\s{0,80})([}\]])", r"\1\2", re.sub(r"(?m)(?<=[\s,])(?://|#)\s.{0,200}$", "", text))
    try:
        return _DECODER.decode(plain)
    except (ValueError, RecursionError):
        pass
    try:
        value = ast.literal_eval(text)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None
    return value if isinstance(value, dict | list) else None
