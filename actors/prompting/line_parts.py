"""Finds the parts of a form on lines that begin with a field's name, in tables and in tags.

Linear in the reply's length: repetitions in patterns are bounded, possessive, or tried from one place only.
"""

from __future__ import annotations

import html
import re
from functools import lru_cache

from actors.messages import Field, FieldKind, Value
from actors.prompting.form import Form
from actors.prompting.labels import BEFORE, SETTLED, Labels
from actors.prompting.pairs import are_pair_headings
from actors.prompting.part import Part
from actors.prompting.stated import undecorated
from actors.prompting.triples import are_headings, looks_like_triple

_MARKS = r"(?:\W|_){0,16}+"
_CLOSED_BY = str.maketrans("“‘([<", "”’)]>")
_OPENED = re.compile(r"[*_`\"'“‘]+$")
_RULE = re.compile(r"\s*+[-=_*~]{3,}+\s*+")
_CELLS = re.compile(r"\s*+\|(.*)\|\s*+")
_COUNT = re.compile(r"#|no\.?|nr\.?|\d{1,2}\.?", re.IGNORECASE)
_NEXT_QUESTION = re.compile(r"\W{0,6}(?:next )?question(?: \d{1,2})?[*_]{0,3}\s?[:：]", re.IGNORECASE)
_BRACKETED = re.compile(r"^\s*\[([A-Za-z][\w -]{2,20})\]\s*[:：]?\s*")
_TAG = re.compile(r"<(/?)([A-Za-z][\w -]{1,20})>")
_TABLE_RULE = re.compile(r"[\s|:+=-]*-[\s|:+=-]*")
# A node as prompts show it: `Retrieval (from 1, 3): Look up ...`.
_NODE = re.compile(
    r"(?P<type>[\w*_`]{1,20})\s?\(from\s(?P<parents>[^()]{0,30}\d[^()]{0,30})\)(?:\s?[:：]\s*(?P<instruction>.*))?"
)
# A line such as `Note: ...`, which is no part of the value above it.
OTHER_LABEL = re.compile(r"(?:\W|_){0,8}+[A-Z]\w{0,20}(?: \w{1,20})?[*_]{0,3}[:：](?:\s|$)")


def untagged(text: str, names: Labels) -> str:
    """Tags that are fields' names as labels on lines: `<answer>Paris</answer>`. Those around them are left out."""
    if "<" not in text:
        return text
    fields = 0

    def labelled(tag: re.Match[str]) -> str:
        nonlocal fields
        field = names.field(tag[2])
        fields += field is not None
        return tag[0] if field is None else "\n" if tag[1] else f"\n{field.name}: "

    lines = _TAG.sub(labelled, text)
    if not fields:
        return text
    return html.unescape("\n".join(line for line in lines.split("\n") if not _TAG.fullmatch(line.strip())))


@lru_cache(maxsize=256)
def _label_pattern(names: Labels) -> re.Pattern[str]:
    """A line that begins with a field's name: `**Final answer:** ...`, `2. My answer is: ...`, `### Answer`."""
    any_name = "|".join(re.escape(name).replace("\\ ", r"[ _-]?").replace("\\-", r"[ _-]?") for name in names.names)
    return re.compile(
        rf"\s*+(?P<before>{_MARKS}(?:\d{{1,2}}[.)](?:\W|_){{0,8}}+)?)"
        rf"(?P<words>(?:(?:{BEFORE})[ _]){{0,3}})(?P<name>{any_name})(?P<number>[\s_]?+(?:#\s?)?\d{{1,2}}(?![\w.]))?"
        r"(?:\sis(?=\s?[:：]))?(?:\s?\([^()\n]{1,40}\)(?=[*_`]{0,3}\s?[:：]))?"
        r"(?P<after>[\s*_`\"'”’]{0,8}+)(?:(?:[:：﹕]|=(?!=)|->|=>|→|(?<=[*_\s])[–—-](?=\s))(?P<closing>[*_`]{0,3}+)(?P<value>.*)|$)",
        re.IGNORECASE,
    )


def parts_in_lines(text: str, form: Form, names: Labels) -> tuple[str, list[Part]]:
    """Parts under labels that begin a line, and in tables.

    A line that is a triple all by itself is one, wherever a form asks for triples.
    """
    pattern = _label_pattern(names)
    triples = next((field for field in form.fields if field.value is Value.TRIPLE), None)
    pairs = next((field for field in form.fields if field.value is Value.PAIR), None)
    before: list[str] = []
    parts: list[tuple[Field, list[str], bool, bool]] = []
    columns: list[Field | None] = []
    rows: Field | None = None  # of what a table has one in each row
    for line in text.split("\n"):
        # Small models go on with a question of their own, and answer that.
        if parts and _NEXT_QUESTION.match(line):
            break
        line = _BRACKETED.sub(lambda m: f"{m[1]}: " if names.field(m[1]) else m[0], line, count=1)
        if _CELLS.fullmatch(line) or columns:
            if _TABLE_RULE.fullmatch(line):
                continue
            cells = _cells(line)
            many_cells = len(cells) > 1
            if cells and _COUNT.fullmatch(cells[0]):
                cells = cells[1:]
            if rows and cells:
                parts.append((rows, [" | ".join(cells)], True, False))
                continue
            rows = triples if are_headings(cells) else pairs if are_pair_headings(cells) else None
            if rows:
                continue
            headings = [names.field(cell) for cell in cells]
            if columns and len(cells) == len(columns):
                parts += [(f, [cell], False, False) for f, cell in zip(columns, cells, strict=True) if f and cell]
                continue
            columns = []
            if many_cells and sum(f is not None for f in headings) == len(cells):
                columns = headings
                continue
            if len(cells) > 1 and headings[0] is not None:
                parts.append((headings[0], [" | ".join(cells[1:])], False, False))
                continue
        rows = None
        label = pattern.match(line)
        field = names.field(label["name"]) if label else None
        if label and field and _is_label(label):
            settled = bool(SETTLED.search(f"{label['words']} {label['name']}"))
            several = names.is_plural(label["name"]) and not label["number"]
            parts += [(f, [value], several, settled) for f, value in _of_label(field, _after_label(label), form)]
        elif triples and parts and parts[-1][0] is not triples and looks_like_triple(line):
            parts.append((triples, [line], True, False))
        else:
            (parts[-1][1] if parts else before).append(line)
    return "\n".join(before), [
        Part(f, tuple(lines), None, several, settled, closed=number < len(parts))
        for number, (f, lines, several, settled) in enumerate(parts, 1)
    ]


def on_lines_of_their_own(text: str, form: Form) -> str:
    """The text with a line break before each label within a line: `Reasoning: ... Answer: ... Confidence: ...`, and
    `Reasoning: ... Answer: ... (confidence 0.80)`, as prompts show what others said.

    Only where every label stands there once: one that comes again may be quoted.
    """
    names = "|".join(re.escape(field.name) for field in form.fields)
    pattern = re.compile(rf"(?:(?<=[\s|;,.])|^)(?:\|\s?)?[*_]{{0,3}}(?P<name>{names})[*_]{{0,3}}:(?=[\s*_])")
    found = list(pattern.finditer(text))
    stated = {label["name"] for label in found}
    if len(stated) < len(found):
        return text
    if found and found[-1]["name"] == FieldKind.ANSWER and undecorated(text[found[-1].end() :])[1] is not None:
        stated.add(FieldKind.CONFIDENCE)
    if len(stated) < max(2, len(form.fields)):
        return text
    pieces, start = [], 0
    for label in found:
        before = text[start : label.start()].rstrip(" \t\n|;,")
        # The sentence in which an answer stands ends before its confidence.
        stop = label["name"] == FieldKind.CONFIDENCE and re.search(r"[a-z0-9)]\.$", before[-2:])
        pieces += [before[:-1] if stop else before, f"\n{label['name']}:"]
        start = label.end()
    return "".join([*pieces, text[start:]])


def _cells(line: str) -> list[str]:
    match = _CELLS.fullmatch(line)
    if match is None or _TABLE_RULE.fullmatch(line):
        return []
    return [cell.strip().strip("*_`").strip() for cell in match[1].split("|")]


def _is_label(label: re.Match[str]) -> bool:
    """A name alone on its line is a heading where it is marked as one, or is spelt as the form spells it."""
    if label["value"] is not None:
        return True
    return bool(set(label["before"]) & set("#*_") or label["name"][0].isupper())


def _after_label(label: re.Match[str]) -> str:
    """The value on the label's own line, without the end of an emphasis or quotation that began before the name."""
    value = (label["value"] or "").strip()
    opened = _OPENED.search(label["before"])
    closed = label["after"].strip() + (label["closing"] or "")
    if opened and closed:
        if label["after"].startswith(('"', "'")):  # one line of an object that is none, or is broken off
            return _of_key(label["before"], value)
        return value
    if not opened:
        return value
    # Marks are closed in the reverse order of opening, and where they close within the line a remark may follow.
    mark = opened[0].translate(_CLOSED_BY)[::-1]
    inner, closing, rest = value.partition(mark)
    return inner if closing and re.match(r"\s?(?:$|[–—(-])", rest) else value.removesuffix(mark)


def _of_label(field: Field, value: str, form: Form) -> list[tuple[Field, str]]:
    """The fields that a label's line states: its own, or a node's type with its parents and its instruction."""
    node = _NODE.fullmatch(value) if field.kind is FieldKind.TYPE else None
    kinds = {field.kind: field for field in form.fields}
    if node is None or not {FieldKind.PARENTS, FieldKind.INSTRUCTION} <= kinds.keys():
        return [(field, value)]
    stated = [(field, node["type"]), (kinds[FieldKind.PARENTS], node["parents"])]
    return [*stated, (kinds[FieldKind.INSTRUCTION], node["instruction"])] if node["instruction"] else stated


def _of_key(before: str, value: str) -> str:
    """The value of a key at the beginning of its line; behind others on the line it cannot be told where it ends."""
    if before.strip() not in ('"', "'") or value.startswith("{"):
        return ""
    value = value.rstrip(",")
    value = value if "{" in value else value.rstrip(" }")
    # `"The song "Help!" by the Beatles"`: the line ends where the string does.
    wrapped = len(value) > 1 and value[0] == value[-1] and value[0] in "\"'"
    return value[1:-1] if wrapped else value


def is_rule(line: str) -> bool:
    """True for a line that separates: `---`."""
    return bool(_RULE.fullmatch(line))
