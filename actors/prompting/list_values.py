"""Reads fields that may have many values: texts, triples, tool calls, and questions with their answers.

A triple is read with bars between its parts, or as an object.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from actors.messages import Field, FieldKind, Value
from actors.prompting.form import FieldFault, Values, quoted
from actors.prompting.not_known import is_unstated
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
# Keys of objects.
_HEAD = tuple("head subject source from entity1 object1 start s h entity".split())
_RELATION = tuple("relation predicate relationship property attribute type label edge p r verb".split())
_TAIL = tuple("tail object target to value entity2 object2 end o t".split())
# Marks between words; `=`, `<` and `+` may be a relation.
_BETWEEN = re.compile(r"[\s:;,./_'\"`]*+")
_WORD = re.compile(r"\w")

Parts = tuple[str, str, str]


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
        items = [part for item in items for part in _triples_in(item)]
    items = [item for item in items if item]
    if not items:
        return None
    first = unwrapped(items[0]).strip(" .!*_`\"'")
    # A candidate is an answer, which may be `no`.
    is_no = field.kind is FieldKind.CANDIDATE and first.casefold() == "no"
    unstated = field.optional and field.value is Value.TEXT and is_unstated(first)
    if len(items) == 1 and not is_no and (unstated or NOTHING.fullmatch(first) or NONE_BECAUSE.fullmatch(first)):
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
                if field.value is Value.TRIPLE and "|" in plain:
                    items.append(plain)  # meant as one, and read as a fault below
                    continue
                break
        items.append(plain)
        blank = False
    return items


def _triples_in(item: str) -> list[str]:
    """Splits several triples on one line: `a | b | c; d | e | f`."""
    parts = [part for part in re.split(r"\s*;\s*", item.strip().strip("<>")) if part]
    return parts if len(parts) > 1 and all(part.count("|") == 2 for part in parts) else [item]


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
    texts = [text for text in item.values() if isinstance(text, str)] if isinstance(item, dict) else []
    item = texts[0] if len(texts) == 1 else item
    if not isinstance(item, str | int | float):
        return FieldFault(field, f"{quoted(item)} is not one text")
    text = BULLET.sub("", str(item), count=1).strip()
    return "" if PLACEHOLDER.fullmatch(text) or MARKS_ALONE.fullmatch(text) else one_line(unwrapped(text))


def _triple(field: Field, item: Any) -> str | FieldFault:
    triple = read_triple(item)
    if triple and (any(map(PLACEHOLDER.fullmatch, triple)) or is_form(triple)):
        return ""
    plain = BULLET.sub("", item, count=1).strip() if isinstance(item, str) else ""
    if triple is None and PLACEHOLDER.fullmatch(plain) and plain.count("|") <= 2:
        return ""
    return " | ".join(triple) if triple else FieldFault(field, f"{quoted(item)} is not of three parts")


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
    if PLACEHOLDER.fullmatch(texts[0]) or {text.lower() for text in texts} <= _QUESTION_NAMES | _ANSWER_NAMES:
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
        if PLACEHOLDER.fullmatch(plain):
            return ""
        if match := _CALL.fullmatch(plain):
            tool, words = match[1], match[3].removesuffix(")" if match[2] else "")
    tool, words = tools.get(tool.strip(" `\"'*_").casefold(), ""), unwrapped(one_line(words))
    if not tool or not words or PLACEHOLDER.fullmatch(words):
        return FieldFault(field, f"{quoted(item)} is not `{', '.join(tools.values())} | what to look for`")
    return f"{tool} | {words}"


def read_triple(value: Any) -> Parts | None:
    """Returns head, relation and tail; None for anything that does not clearly have just these three."""
    if isinstance(value, str):
        return _of_text(value)
    if isinstance(value, Mapping):
        keys = {str(key).lower(): inner for key, inner in value.items()}
        if len(keys) >= 3:
            return _checked([next((keys[k] for k in names if k in keys), None) for names in (_HEAD, _RELATION, _TAIL)])
        return None
    return _checked(value) if isinstance(value, Sequence) else None


def is_form(triple: Parts) -> bool:
    """True for the form's own words in place of a triple, as in the headings of a table."""
    return all(map(_FORM.fullmatch, triple))


def looks_like_triple(line: str) -> bool:
    """True for a line that could be nothing but a triple: three parts between bars."""
    return "|" in line and _of_text(line.strip()) is not None


def _of_text(text: str) -> Parts | None:
    text = _bare(_LABEL.sub("", BULLET.sub("", text.replace("｜", "|").strip(), count=1), count=1))
    text = _CITED.sub("", text).rstrip(" .;,") if not text.endswith(")") or _CITED.search(text) else text
    inner = _bare(text.rstrip(" .;,"))
    if "|" in inner:
        return _checked(re.split(r"\s*\|\s*", inner.strip().strip("|")))
    return None


def _bare(text: str) -> str:
    """Removes brackets, quotation marks or emphasis around the whole."""
    text = text.strip()
    while len(text) > 1 and _PAIRS.get(text[0]) == text[-1] and not {text[0], text[-1]} & set(text[1:-1].strip("*`")):
        text = text[1:-1].strip()
    return text


def _checked(parts: Sequence[Any]) -> Parts | None:
    if len(parts) != 3 or not all(isinstance(part, str | int | float) for part in parts):
        return None
    head, relation, tail = (_part(str(part).lower() if isinstance(part, bool) else str(part)) for part in parts)
    triple = head, relation, tail
    if any(map(_BETWEEN.fullmatch, triple)):
        return None
    # One part may be a mark with a meaning: `5 | < | 7`, `+ | is | a positive charge`; `P | > | >` states nothing.
    return triple if sum(_WORD.search(part) is not None for part in triple) > 1 else None


def _part(part: str) -> str:
    """Puts a part on one line, without marks around the whole, and with another mark for the bar between parts."""
    part = part.strip()
    if len(part) > 1 and part[0] == part[-1] == "'":
        part = part[1:-1]
    return " ".join(_bare(part).replace("|", "/").split())


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
