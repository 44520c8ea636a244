"""Reads fields that may have many values: texts, triples, tool calls, and questions with their answers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from actors.messages import Field, FieldKind, Value
from actors.prompting.form import FieldFault, Values, quoted
from actors.prompting.reply_text import (
    BULLET,
    CHATTER,
    MARKS_ALONE,
    NONE_BECAUSE,
    NOTHING,
    PLACEHOLDER,
    is_rule,
    undecorated,
    unwrapped,
)
from actors.prompting.safe_text import one_line
from actors.prompting.triples import is_form, read_triple

_PLAIN = r"[^\W_]++(?:[ '&-][^\W_]++)*+"
_PLAIN_TRIPLE = re.compile(rf"(?!none-)({_PLAIN}) \| ({_PLAIN}) \| ({_PLAIN})", re.IGNORECASE)
_QUESTION_NAMES = frozenset(("question", "sub-question", "subquestion", "sub question"))
_ANSWER_NAMES = frozenset(("answer", "short answer"))
# `Answer: ...` or `- **Answer 2:** ...`, and the heading of all answers.
ANSWER_LINE = re.compile(
    r"[\s>*_#•-]{0,8}+(?:short )?answers?(?:\s?#?(?P<number>\d{1,2}))?[*_]{0,3}\s?[:：][*_]{0,3}(?P<answer>.*)",
    re.IGNORECASE,
)
_QUESTION = re.compile(r".*[?？][\s*_`\"'”]*+")
_CALL = re.compile(
    r"[\s*_`\"'<\[(]*(\w+)[*_`\"'>]*\s*(?:\||:|：|->|→|–|—|\s-\s|\()\s*[*_]{0,2}\s*(.+?)\s*\)?", re.DOTALL
)


def none(field: Field) -> Values | FieldFault:
    """Reads a field that is stated to be empty."""
    return () if field.optional else FieldFault(field, "it is empty")


def read_list(field: Field, lines: Sequence[str], several: bool) -> Values | FieldFault | None:
    """Reads values on the label's line, on a line each, or as a list. `several`: the label is in the plural."""
    if field.value is Value.TRIPLE and len(lines) == 1:
        # The quick way: only words between the bars, and not those of the form.
        plain = _PLAIN_TRIPLE.fullmatch(lines[0])
        if plain and not is_form((plain[1], plain[2], plain[3])):
            return (lines[0],)
    if field.value is Value.PAIR and any(map(ANSWER_LINE.match, lines)):
        return FieldFault(field, "it is not certain which answer is to which question")
    items = _item_lines(field, lines, several)
    if field.value is Value.TRIPLE:
        # Several on one line: `(a, b, c); (d, e, f)`.
        items = [part for item in items for part in re.split(r"(?<=\))\s*[;,]\s*(?=\()", item)]
    items = [item for item in items if item]
    if not items:
        return None
    first = unwrapped(items[0]).strip(" .!*_`\"'")
    # A candidate is an answer, which may be `no`.
    is_no = field.kind is FieldKind.CANDIDATE and first.casefold() == "no"
    if len(items) == 1 and not is_no and (NOTHING.fullmatch(first) or NONE_BECAUSE.fullmatch(first)):
        return none(field)
    if several and field.value is Value.TEXT and len(items) == 1 and field.kind is not FieldKind.SUB_QUESTION:
        items = [part.strip() for part in re.split(r"\s*;\s*" if ";" in items[0] else r",\s+(?:and\s+)?", items[0])]
    return read_items(field, items)


def _item_lines(field: Field, lines: Sequence[str], several: bool) -> list[str]:
    """Returns the lines that are items: the first, and those of a list that follows."""
    items: list[str] = []
    blank = False
    for number, line in enumerate(lines):
        plain = line.strip()
        if not plain or (items and re.fullmatch(r"[\s|:+=-]+", plain)):
            blank = bool(items)
            continue
        bulleted = bool(BULLET.match(line))
        if items and (is_rule(line) or (CHATTER.match(line) and not bulleted)):
            break
        if is_rule(line):
            continue
        if items and not bulleted:
            is_triple = field.value is Value.TRIPLE and read_triple(plain) is not None
            # After a blank line, or after a value on the label's own line, only what has the form of an item is one.
            if (blank or (lines[0].strip() and not several)) and not is_triple:
                if number and plain[0].islower() and not blank and field.value is Value.TEXT:
                    items[-1] += f" {plain}"
                    continue
                if field.value is Value.TRIPLE and re.search(r"[|→]|->", plain):
                    items.append(plain)  # meant as one, and read as a fault below
                    continue
                break
        items.append(plain)
        blank = False
    return items


def read_items(field: Field, items: Sequence[Any]) -> Values | FieldFault | None:
    """Reads the items of a list, texts or JSON; None where all of them are empty or placeholders."""
    read = {Value.TRIPLE: _triple, Value.CALL: _call, Value.PAIR: _pair}.get(field.value, _text)
    values: list[str] = []
    for item in items:
        value = read(field, item)
        if isinstance(value, FieldFault):
            return value
        if value:
            values.append(value)
    return tuple(values) or None


def _text(field: Field, item: Any) -> str | FieldFault:
    if isinstance(item, dict):
        texts = [inner for inner in item.values() if isinstance(inner, str)]
        item = texts[0] if len(texts) == 1 else item
    if not isinstance(item, str | int | float):
        return FieldFault(field, f"{quoted(item)} is not one text")
    text = BULLET.sub("", str(item), count=1).strip()
    return "" if PLACEHOLDER.fullmatch(text) or MARKS_ALONE.fullmatch(text) else one_line(unwrapped(text))


def _triple(field: Field, item: Any) -> str | FieldFault:
    triple = read_triple(item)
    if triple and (any(map(PLACEHOLDER.fullmatch, triple)) or is_form(triple)):
        return ""
    if triple is None and isinstance(item, str) and PLACEHOLDER.fullmatch(BULLET.sub("", item, count=1).strip()):
        return ""
    return " | ".join(triple) if triple else FieldFault(field, f"{quoted(item)} is not of three parts")


def _pair(field: Field, item: Any) -> str | FieldFault:
    """Reads `question | answer`, also as an object or a list of two, or a question alone."""
    if isinstance(item, dict):
        # Numbers of questions are left out; the question comes first, wherever the object has it.
        texts_by_key = {str(key).lower(): value for key, value in item.items() if isinstance(value, str)}
        item = [texts_by_key[key] for key in sorted(texts_by_key, key=lambda key: "question" not in key)]
    parts = item
    if not isinstance(item, list):
        pair = BULLET.sub("", str(item), count=1).strip()
        inner = unwrapped(pair)
        # Without what wraps the whole, `**a | b**`; in `"a" | "b"` each part has its own marks.
        wrapper = pair[: max(0, pair.find(inner))]
        parts = (inner if wrapper and wrapper not in inner else pair).split("|")
    texts = [one_line(unwrapped(str(part))) for part in parts]
    if not 1 <= len(texts) <= 2 or not texts[0]:
        return FieldFault(field, f"{quoted(str(item))} is not a question and its answer")
    if PLACEHOLDER.fullmatch(texts[0]) or {text.lower() for text in texts} <= _QUESTION_NAMES | _ANSWER_NAMES:
        return ""
    return " | ".join(text for text in texts if text)


def _call(field: Field, item: Any) -> str | FieldFault:
    """Reads `tool | words`, also written `tool: words`, `tool("words")`, or as an object."""
    tools = {tool.casefold(): tool for tool in field.tools or ("texts", "pictures", "web")}
    tool = words = ""
    if isinstance(item, dict):
        by_key = {str(k).lower(): v for k, v in item.items()}
        tool = str(next((by_key[k] for k in ("tool", "name", "tool_name", "action") if k in by_key), ""))
        rest = [
            v for k, v in by_key.items() if k not in ("tool", "name", "tool_name", "action", "step", "id", "number")
        ]
        if len(rest) == 1 and isinstance(rest[0], dict):
            rest = list(rest[0].values())
        words = rest[0] if len(rest) == 1 and isinstance(rest[0], str) else ""
    elif isinstance(item, str):
        plain = BULLET.sub("", item.strip(), count=1).strip().strip("`").strip()
        plain = re.sub(r"^(?:step|call)\s?\d{0,2}\s?[:：.]\s*", "", plain, flags=re.IGNORECASE)
        plain = undecorated(plain)[0]
        match = _CALL.fullmatch(plain)
        if match:
            tool, words = match[1], match[2]
            if "(" in plain[: match.start(2)] and not plain.rstrip(" .;").endswith(")"):
                return FieldFault(field, f"{quoted(item)} is not `tool | what to look for`")
        elif PLACEHOLDER.fullmatch(plain):
            return ""
    tool = tools.get(tool.strip(" `\"'*_").casefold(), "")
    words = unwrapped(re.sub(r"^(?:query|q|words|search)\s?=\s?", "", one_line(words)))
    if not tool or not words or PLACEHOLDER.fullmatch(words):
        return FieldFault(field, f"{quoted(item)} is not `{', '.join(tools.values())} | what to look for`")
    return f"{tool} | {words}"


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
