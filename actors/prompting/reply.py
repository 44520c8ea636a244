"""Turns a model's reply into reasoning, answer and confidence, or says that it cannot. No guess is ever made.

Linear in the reply's length: repetitions in patterns are bounded, possessive, or tried from one place only.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from actors.messages import Turn
from actors.prompting.fields import parse_fields
from actors.prompting.prompt import FORM, clean, one_line
from actors.prompting.stated import BOXED, stated_answer, stated_confidence

_NAME = "reasoning|reason|rationale|explanation|answer|confidence"
# The quick way: a reply in exactly the form that was asked for.
_AS_ASKED = re.compile(r"Reasoning: ([^\n]*)\nAnswer: ([^\n]*)(?:\nConfidence: ([^\n]*))?")
# Such as `**Final answer:** ...`, `2. My answer is: ...`, `"confidence": ...`, or a heading alone on its line.
_FIELD = re.compile(
    r"\s*+(?P<before>(?:\W|_){0,16}+(?:\d{1,2}[.)](?:\W|_){0,8}+)?)"
    rf"(?:(?:the|my|our|final|correct)[ _]){{0,3}}(?P<name>{_NAME})(?:[ _](?:level|score))?(?:\sis(?=\s?[:：]))?"
    r"(?P<after>[\s*_`\"'”’]{0,8}+)(?:[:：﹕=](?P<closing>[*_`]{0,3}+)(?P<value>.*)|$)",
    re.IGNORECASE,
)
# A line such as `Note: ...`, which is no part of the value above it.
_OTHER_FIELD = re.compile(r"(?:\W|_){0,8}+\w{1,20}(?: \w{1,20})?[*_]{0,3}[:：](?:\s|$)")
_ON_ONE_LINE = re.compile(r"(.*[\s.,;*_|])(?:final )?answer[*_`]{0,3}[:：](.*)", re.IGNORECASE)
_OPENED = re.compile(r"[*_`\"'“‘]+$")
# All other marks close with themselves.
_CLOSED_BY = str.maketrans("“‘", "”’")
_OBJECT = re.compile(rf"\{{\s{{0,80}}+[\"'“](?:final[ _])?({_NAME})[\"'”]\s{{0,8}}+:", re.IGNORECASE)
_STRING = r"\"((?:[^\"\\]|\\.)*+)\"|'((?:[^'\\]|\\.)*+)'"
_PAIR = re.compile(
    rf"[\"'“](?:final[ _])?({_NAME})[\"'”]\s{{0,8}}+:\s{{0,80}}+"
    rf"(?:{_STRING}|\[([^\[\]{{}}]*+)\]|([^\s\"'\[\]{{}},][^,}}\n]*+))",
    re.IGNORECASE | re.DOTALL,
)
_ITEM = re.compile(rf"{_STRING}|([^\s,\"'][^,]*+)", re.DOTALL)
_THOUGHT = re.compile(r"<(/?)(?:think|thinking|thought)>", re.IGNORECASE)
_TAG = re.compile(r"<(/?)(reasoning|answer|confidence)>", re.IGNORECASE)
_TURN_START = re.compile(r"<\|im_start\|>\s?assistant\b|<\|start_header_id\|>\s?assistant\s?<\|end_header_id\|>")
_TURN_END = re.compile(r"<\|(?:im_end|im_start|eot_id|end_of_text|endoftext|end)\|>|</s>|^## Question$", re.MULTILINE)
_FENCE = re.compile(r"\s*+(?:`{3,}+|~{3,}+)\s*+\w{0,20}+\s*+")
_BULLET = re.compile(r"\s*+(?:[-*+•·]|\d{1,2}[.)])\s+(?=\S)")
# The form's own words after each name: a model that repeats the form has not answered.
_ECHO = frozenset(line.partition(": ")[2] for line in FORM.splitlines())


@dataclass(frozen=True, slots=True)
class Reply:
    """`content` is one line. `answer` is None when the agent says that it does not know, and one of the choices where
    there are any; `confidence` is None when it states none in [0, 1]. The reply to a task has `fields` and no answer.
    """

    content: str
    answer: str | None
    confidence: float | None
    fields: tuple[tuple[str, str], ...] = ()


def fill_in(reply: Reply) -> str:
    """The form filled in, as an agent that keeps to it writes it: `parse_reply` reads the same reply back."""
    lines = [f"Reasoning: {reply.content}", f"Answer: {'unknown' if reply.answer is None else one_line(reply.answer)}"]
    return "\n".join(lines if reply.confidence is None else [*lines, f"Confidence: {reply.confidence!r}"])


def read_reply(turn: Turn, text: str, cut_off: bool = False) -> Reply | None:
    """The reply to a turn in the form that it asked for; None when that cannot be read."""
    if turn.task is None:
        return parse_reply(text, turn.question.choices, cut_off)
    fields = parse_fields(spoken(text, cut_off), turn.task.fields)
    if fields is None:
        return None
    return Reply("; ".join(f"{name}: {value}" for name, value in fields), None, None, fields)


def spoken(text: str, cut_off: bool) -> str:
    """The part of a reply that is meant to be read: no thoughts, no marks of a chat template, no last line cut off."""
    text = clean(text)
    return _spoken((text.rpartition("\n")[0] if cut_off else text).strip())


def parse_reply(text: str, choices: Sequence[str] = (), cut_off: bool = False) -> Reply | None:
    """Reads the form that the prompt asks for, or what models make of it; None when no answer is stated.

    Of several answers the last counts: models restate the form, or draft, before they settle. What stands in
    `<think>` blocks is not said. With `choices`, an answer has to name one of them, or be unknown. `cut_off` says that
    the text ended at a limit: its last line may lack words, so it states nothing.
    """
    text = clean(text)
    text = (text.rpartition("\n")[0] if cut_off else text).strip()
    as_asked = _AS_ASKED.fullmatch(text)
    if as_asked:
        before, fields = "", [("reasoning", as_asked[1]), ("answer", as_asked[2]), ("confidence", as_asked[3] or "")]
    else:
        before, fields = _fields(_spoken(text))
    content, confidence, early = "", None, None
    answer: str | None = ""  # nothing stated yet; None is a statement
    for name, value in fields:
        if name == "confidence":
            number = stated_confidence(value)
            if answer == "":
                # A confidence before any answer is meant for the first one.
                early = number
            elif number is not None:
                confidence = number
        elif name == "answer":
            if not value.strip() or one_line(value) in _ECHO:
                continue
            stated, number = stated_answer(value, choices)
            # Another answer takes back the confidence in the one before; the same answer again keeps it.
            if stated != answer:
                answer, confidence, early = stated, early if answer == "" else None, None
            confidence = confidence if number is None else number
        elif value and (not content or name == "reasoning"):
            content = one_line(value)
    return None if answer == "" else Reply(content or one_line(before), answer, confidence)


def _spoken(text: str) -> str:
    """The part of a reply that is said: no thoughts, no tokens of the chat template, no code fences, tags as fields."""
    kept: list[str] = []
    depth, start = 0, 0
    for tag in _THOUGHT.finditer(text):
        if not depth:
            kept.append(text[start : tag.start()])
        if not tag[1]:
            depth += 1
        elif depth:
            depth -= 1
        else:
            kept.clear()  # the template opened the block, so that all up to here was thought
        start = tag.end()
    # Where a block was never closed, the rest was thought and nothing was said.
    text = "".join(kept) + ("" if depth else text[start:])
    begun = _TURN_START.match(text.lstrip())
    text = text.lstrip()[begun.end() if begun else 0 :]
    ended = _TURN_END.search(text)
    # A mark before any text ends nothing: the reply comes after it.
    if ended and text[: ended.start()].strip():
        text = text[: ended.start()]
    text = _TAG.sub(lambda tag: "\n" if tag[1] else f"\n{tag[2]}: ", text)
    return "\n".join(line for line in text.split("\n") if not _FENCE.fullmatch(line))


def _fields(text: str) -> tuple[str, list[tuple[str, str]]]:
    """The text before the first field, and the fields with their values in order."""
    # From the most explicit form to the loosest; the first that states an answer counts.
    opening = _OBJECT.search(text)
    pairs = list(_PAIR.finditer(text, opening.start())) if opening else []
    if opening and any(pair[1].lower() == "answer" for pair in pairs):
        # Lines after the object count as well: they may settle on another answer.
        _, later = _lines(text[pairs[-1].end() :])
        return text[: opening.start()], [*((_named(pair[1]), _unquoted(pair)) for pair in pairs), *later]
    before, fields = _lines(text)
    if any(name == "answer" and value.strip() for name, value in fields):
        return before, fields
    boxes = list(BOXED.finditer(text))
    if boxes:
        return text[: boxes[-1].start()], [("answer", boxes[-1][0]), *(f for f in fields if f[0] == "confidence")]
    return _on_one_line(text) or (before, fields)


def _lines(text: str) -> tuple[str, list[tuple[str, str]]]:
    """Fields that begin a line. A reasoning goes on to the next field, a confidence takes one line, an answer one line
    or the lines of a list, or all lines down to the next field unless one of these is a sentence."""
    before: list[str] = []
    named: list[tuple[str, list[str]]] = []
    for line in text.split("\n"):
        field = _FIELD.match(line)
        if field:
            named.append((_named(field["name"]), [_after_colon(field)]))
        else:
            (named[-1][1] if named else before).append(line)
    fields = []
    for i, (name, lines) in enumerate(named):
        value = " ".join(lines) if name == "reasoning" else _value(lines, closed=i + 1 < len(named))
        fields.append((name, value))
    return "\n".join(before), fields


def _named(name: str) -> str:
    name = name.lower()
    return name if name in ("answer", "confidence") else "reasoning"


def _after_colon(field: re.Match[str]) -> str:
    """The value on the field's own line, without the end of an emphasis or quotation that began before the name."""
    value = (field["value"] or "").strip()
    opened = _OPENED.search(field["before"])
    closed = field["after"].strip() + (field["closing"] or "")
    if opened and closed:
        if field["after"].startswith(('"', "'")):  # one line of an object that is none, or is broken off
            return "" if value.startswith("{") else value.rstrip(",")
        return value
    # Marks are closed in the reverse order of opening.
    return value.removesuffix(opened[0].translate(_CLOSED_BY)[::-1]) if opened else value


def _value(lines: list[str], closed: bool) -> str:
    """The value that starts on the first of these lines, or on the next one that says anything."""
    first = next((i for i, line in enumerate(lines) if any(map(str.isalnum, line))), 0)
    value, rest = lines[first].strip(), lines[first + 1 :]
    if first and _OTHER_FIELD.match(value):
        return ""
    if _BULLET.match(value):
        items = [value]
        for line in rest:
            if not _BULLET.match(line):
                break
            items.append(line)
        # A single `1. ...` may be how the answer is spelt; only several make a list.
        if len(items) > 1 or not value[0].isdigit():
            return ", ".join(_BULLET.sub("", item, count=1).strip() for item in items)
    while rest and not any(map(str.isalnum, rest[-1])):
        rest.pop()
    if closed and all(line.strip() and line.strip()[-1] not in ".!?" and not _OTHER_FIELD.match(line) for line in rest):
        return " ".join([value, *map(str.strip, rest)])
    return value


def _on_one_line(text: str) -> tuple[str, list[tuple[str, str]]] | None:
    """`... Answer: Paris (confidence 0.8)`: the last line on which an answer is followed by its confidence.

    Without one it may be a quotation, or cut off.
    """
    for line in reversed(text.split("\n")):
        match = _ON_ONE_LINE.match(line)
        if match and stated_answer(match[2])[1] is not None:
            reasoning = _FIELD.match(match[1])
            return "", [("reasoning", (reasoning and reasoning["value"]) or match[1]), ("answer", match[2])]
    return None


def _unquoted(pair: re.Match[str]) -> str:
    """The value of one pair of an object: a string, a number, or a list of them."""
    _, double, single, items, bare = pair.groups()
    if items is not None:
        return ", ".join(_string(*item.groups()) for item in _ITEM.finditer(items))
    return _string(double, single, bare)


def _string(double: str | None, single: str | None, bare: str | None) -> str:
    if double is None:
        return (bare or "").strip() if single is None else single.replace("\\'", "'")
    try:
        # Not strict: models leave line breaks in strings as they are.
        return clean(str(json.loads(f'"{double}"', strict=False)))
    except ValueError:
        return double
