"""Reads a field that may have many values: on its line, on a line each, or as a list."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from actors.messages import Field, FieldKind, Value
from actors.prompting.faults import Fault, Values, quoted
from actors.prompting.line_parts import is_rule
from actors.prompting.marks import BULLET, CHATTER, MARKS_ALONE, NONE_BECAUSE, NOTHING, PLACEHOLDER, unwrapped
from actors.prompting.pairs import ANSWER_LINE, ANSWER_NAMES, QUESTION_NAMES
from actors.prompting.stated import undecorated
from actors.prompting.text import one_line
from actors.prompting.triples import read_triple

# The forms' own words for the parts of a triple: one of these alone is the form given back.
_PARTS = {"has attribute", *"entity object thing relation attribute value head tail subject predicate".split()}
_PLAIN = r"[^\W_]++(?:[ '&-][^\W_]++)*+"
_PLAIN_TRIPLE = re.compile(rf"(?!none-)({_PLAIN})(?: \| {_PLAIN}){{2}}", re.IGNORECASE)


def none(field: Field) -> Values | Fault:
    return () if field.optional else Fault(field, "it is empty")


def read_list(field: Field, lines: Sequence[str], several: bool) -> Values | Fault | None:
    """The values of a field that may have many: on its line, on a line each, or as a list."""
    if field.value is Value.TRIPLE and len(lines) == 1:
        # The quick way: nothing but words between the bars, and not those of the form.
        plain = _PLAIN_TRIPLE.fullmatch(lines[0])
        if plain and plain[1] not in _PARTS:
            return (lines[0],)
    if field.value is Value.PAIR and any(map(ANSWER_LINE.match, lines)):
        return Fault(field, "it is not certain which answer is to which question")
    items = list(_list_lines(field, lines, several))
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


def _list_lines(field: Field, lines: Sequence[str], several: bool) -> list[str]:
    """The lines that are items: the first, and those of a list that follows."""
    kept: list[str] = []
    blank = False
    for number, line in enumerate(lines):
        plain = line.strip()
        if not plain or (kept and re.fullmatch(r"[\s|:+=-]+", plain)):
            blank = bool(kept)
            continue
        bulleted = bool(BULLET.match(line))
        if kept and (is_rule(line) or (CHATTER.match(line) and not bulleted)):
            break
        if is_rule(line):
            continue
        if kept and not bulleted:
            is_triple = field.value is Value.TRIPLE and read_triple(plain) is not None
            # After a blank line, or after a value on the label's own line, only what has the form of an item is one.
            if (blank or (lines[0].strip() and not several)) and not is_triple:
                if number and plain[0].islower() and not blank and field.value is Value.TEXT:
                    kept[-1] += f" {plain}"
                    continue
                if field.value is Value.TRIPLE and re.search(r"[|→]|->", plain):
                    kept.append(plain)  # meant as one, and read as a fault below
                    continue
                break
        kept.append(plain)
        blank = False
    return kept


def read_items(field: Field, items: Sequence[Any]) -> Values | Fault | None:
    values: list[str] = []
    for item in items:
        value = _item(field, item)
        if isinstance(value, Fault):
            return value
        if value:
            values.append(value)
    if not values:
        return None
    return tuple(values)


def _item(field: Field, item: Any) -> str | Fault:
    if field.value is Value.TRIPLE:
        triple = read_triple(item)
        parts = {part.lower() for part in triple or ()}
        if triple and (any(map(PLACEHOLDER.fullmatch, parts)) or parts <= _PARTS):
            return ""
        if triple is None and isinstance(item, str) and PLACEHOLDER.fullmatch(BULLET.sub("", item, count=1).strip()):
            return ""
        return " | ".join(triple) if triple else Fault(field, f"{quoted(item)} is not of three parts")
    if field.value is Value.CALL:
        return _call(field, item)
    if field.value is Value.PAIR:
        return _pair(field, item)
    if isinstance(item, dict):
        texts = [held for held in item.values() if isinstance(held, str)]
        if len(texts) != 1:
            return Fault(field, f"{quoted(item)} is not one text")
        item = texts[0]
    if not isinstance(item, str | int | float):
        return Fault(field, f"{quoted(item)} is not one text")
    text = BULLET.sub("", str(item), count=1).strip()
    return "" if PLACEHOLDER.fullmatch(text) or MARKS_ALONE.fullmatch(text) else one_line(unwrapped(text))


def _pair(field: Field, item: Any) -> str | Fault:
    """`question | answer`, also as an object or a list of two; a question alone where no answer is given."""
    if isinstance(item, dict):
        # Numbers of questions are left out; the question comes first, wherever the object has it.
        held = {str(key).lower(): value for key, value in item.items() if isinstance(value, str)}
        item = [held[key] for key in sorted(held, key=lambda key: "question" not in key)]
    parts = item if isinstance(item, list) else _bare(BULLET.sub("", str(item), count=1).strip()).split("|")
    texts = [one_line(unwrapped(str(part))) for part in parts]
    if not 1 <= len(texts) <= 2 or not texts[0]:
        return Fault(field, f"{quoted(str(item))} is not a question and its answer")
    if PLACEHOLDER.fullmatch(texts[0]) or {text.lower() for text in texts} <= QUESTION_NAMES | ANSWER_NAMES:
        return ""
    return " | ".join(text for text in texts if text)


def _bare(pair: str) -> str:
    """Without what wraps the whole of it, `**a | b**`; of `"a" | "b"` each part has its own, and keeps it."""
    inner = unwrapped(pair)
    wrapper = pair[: max(0, pair.find(inner))]
    return inner if wrapper and wrapper not in inner else pair


def _call(field: Field, item: Any) -> str | Fault:
    """`tool | words`, also written `tool: words`, `tool("words")`, or as an object."""
    tools = {tool.casefold(): tool for tool in field.tools or ("texts", "pictures", "web")}
    tool = words = ""
    if isinstance(item, dict):
        held = {str(k).lower(): v for k, v in item.items()}
        tool = str(next((held[k] for k in ("tool", "name", "tool_name", "action") if k in held), ""))
        rest = [v for k, v in held.items() if k not in ("tool", "name", "tool_name", "action", "step", "id", "number")]
        if len(rest) == 1 and isinstance(rest[0], dict):
            rest = list(rest[0].values())
        words = rest[0] if len(rest) == 1 and isinstance(rest[0], str) else ""
    elif isinstance(item, list | tuple) and len(item) == 2:
        tool, words = map(str, item)
    elif isinstance(item, str):
        plain = BULLET.sub("", item.strip(), count=1).strip().strip("`").strip()
        plain = re.sub(r"^(?:step|call)\s?\d{0,2}\s?[:：.]\s*", "", plain, flags=re.IGNORECASE)
        plain = undecorated(plain)[0]
        match = re.fullmatch(
            r"[\s*_`\"'<\[(]*(\w+)[*_`\"'>]*\s*(?:\||:|：|->|→|–|—|\s-\s|\()\s*[*_]{0,2}\s*(.+?)\s*\)?",
            plain,
            re.DOTALL,
        )
        if match:
            tool, words = match[1], match[2]
            if "(" in plain[: match.start(2)] and not plain.rstrip(" .;").endswith(")"):
                return Fault(field, f"{quoted(item)} is not `tool | what to look for`")
        elif PLACEHOLDER.fullmatch(plain):
            return ""
    tool = tools.get(tool.strip(" `\"'*_").casefold(), "")
    words = re.sub(r"^(?:query|q|words|search)\s?=\s?", "", one_line(words))
    words = unwrapped(words)
    if not tool or not words or PLACEHOLDER.fullmatch(words):
        return Fault(field, f"{quoted(item)} is not `{', '.join(tools.values())} | what to look for`")
    return f"{tool} | {words}"
