"""Finds what a reply states of each field of a form: as JSON, in tags, in tables, or on lines that begin with its name.

Nothing is understood here: a part is the text, or the JSON value, that stands under a field's name. Linear in the
reply's length: repetitions in patterns are bounded, possessive, or tried from one place only.
"""

from __future__ import annotations

import ast
import html
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from actors.messages import Field, FieldKind, Value
from actors.prompting.form import Form
from actors.prompting.labels import BEFORE, SETTLED, Labels, labels
from actors.prompting.triples import are_headings, looks_like_triple

# Values that are tried as JSON in one reply: each costs a scan of the rest at worst.
_VALUES = 200
# Characters that are looked through, in Python, for the ends of what is not quite JSON.
_SCANNED = 100_000
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
_STRING = r"\"((?:[^\"\\]|\\.)*+)\"|'((?:[^'\\]|\\.)*+)'"
_PAIR = re.compile(
    rf"(?:[\"'“]([^\"'“”\n]{{1,40}})[\"'”])\s{{0,8}}+:\s{{0,80}}+"
    rf"(?:{_STRING}|(\[[^\[\]{{}}]*+\])|([^\s\"'\[\]{{}},][^,}}\n]*+)(?=\s*+[,}}]))",
    re.DOTALL,
)
# A line such as `Note: ...`, which is no part of the value above it.
OTHER_LABEL = re.compile(r"(?:\W|_){0,8}+[A-Z]\w{0,20}(?: \w{1,20})?[*_]{0,3}[:：](?:\s|$)")


@dataclass(frozen=True, slots=True)
class Part:
    """What stands under a field's name: `lines` as they were written, or a JSON `value` (then `lines` is empty).

    `several` says that the name was a plural, `settled` that the label says so (`Final answer`),
    `closed` that another field follows.
    """

    field: Field
    lines: tuple[str, ...] = ()
    value: Any = None
    several: bool = False
    settled: bool = False
    closed: bool = False


class Twice:
    """A key that an object has twice, with different values."""


def find_parts(text: str, form: Form, cut_off: bool = False) -> tuple[str, list[Part]]:
    """The text before the first part, and the parts in order; none where no field is named.

    Of an object that was cut off only the pairs that are complete count.
    """
    names = labels(form.fields)
    before, parts = _in_json(text, form, names, cut_off)
    if parts and not _is_quoted(before, text, form, names):
        return before, parts
    return _in_lines(_untagged(text, names), form, names)


def _is_quoted(before: str, text: str, form: Form, names: Labels) -> bool:
    """True for an object within a line, where lines state all that is required: `Reasoning: the record {...} is`."""
    if not before.rpartition("\n")[2].strip():
        return False
    stated = {part.field for part in _in_lines(text, form, names)[1]}
    return all(field.optional or field in stated for field in form.fields)


def _in_json(text: str, form: Form, names: Labels, cut_off: bool) -> tuple[str, list[Part]]:
    """Parts in objects whose keys are fields, with those on lines after them, which may settle on something else."""
    parts: list[Part] = []
    start, end = None, 0
    for begun, ended, value in _values(text):
        found = list(_of_value(value, names)) or _unnamed(value, form)
        if found:
            parts += found
            start, end = begun if start is None else start, ended
    if start is None:
        return _in_broken_json(text, form, names, cut_off)
    return text[:start], [*parts, *_after(text[end:], form, names, cut_off)]


def _in_broken_json(text: str, form: Form, names: Labels, cut_off: bool) -> tuple[str, list[Part]]:
    """The complete pairs of an object that is broken off or is not quite JSON."""
    start = text.find("{")
    if start < 0 or not re.match(r"\{\s{0,80}[\"'“]", text[start : start + 100]):
        return "", []
    parts, end = [], 0
    for pair in _PAIR.finditer(text, start):
        field = names.field(pair[1])
        if field is None:
            continue
        _, double, single, items, bare = pair.groups()
        value = literal(items) if items is not None else _string(double, single, bare)
        if value is not None:
            parts.append(Part(field, value=value))
            end = pair.end()
    if not parts:
        return "", []
    return text[:start], [*parts, *_after(text[end:], form, names, cut_off)]


def _after(text: str, form: Form, names: Labels, cut_off: bool) -> list[Part]:
    """Parts on lines after an object, which may settle on something else."""
    return [] if cut_off else _in_lines(_untagged(text, names), form, names)[1]


def _values(text: str) -> Iterator[tuple[int, int, Any]]:
    """(start, end, value) of the JSON objects and lists in a text, outermost ones only."""
    decoder, place, left = json.JSONDecoder(strict=False, object_pairs_hook=_object), 0, _SCANNED
    for _ in range(_VALUES):
        opening = re.compile(r"[{\[]").search(text, place)
        if opening is None:
            return
        start = opening.start()
        try:
            value, end = decoder.raw_decode(text, start)
        # Brackets that are nested too deeply end in a RecursionError.
        except (ValueError, RecursionError):
            limit = min(len(text), start + 20_000, start + left)
            end = _balanced(text, start, limit)
            left -= (end or limit) - start
            value = literal(text[start:end]) if end else None
            if value is None:
                place = start + 1
                continue
        yield start, end, value
        place = end


def _object(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    held: dict[str, Any] = {}
    for name, value in pairs:
        held[name] = Twice() if name in held and held[name] != value else value
    return held


def _balanced(text: str, start: int, limit: int) -> int:
    """The end of the bracket that opens at `start`, quotation marks minded; 0 where that is not before the limit."""
    depth, quote = 0, ""
    for place in range(start, limit):
        mark = text[place]
        if quote:
            if mark == quote and text[place - 1] != "\\":
                quote = ""
        elif mark == '"' or (mark == "'" and not text[place - 1].isalnum()):
            quote = mark
        elif mark in "{[":
            depth += 1
        elif mark in "}]":
            depth -= 1
            if not depth:
                return place + 1
    return 0


def literal(text: str) -> Any:
    """The value of what is nearly JSON: commas before a closing bracket, comments, or Python's spelling; None if it is
    none of these."""
    plain = re.sub(r",(\s{0,80})([}\]])", r"\1\2", re.sub(r"(?m)(?<=[\s,])(?://|#)\s.{0,200}$", "", text))
    try:
        return json.loads(plain, strict=False)
    except (ValueError, RecursionError):
        pass
    try:
        value = ast.literal_eval(text)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None
    return value if isinstance(value, dict | list) else None


def _of_value(value: Any, names: Labels) -> Iterator[Part]:
    """The parts in an object: its own keys, or those of objects inside it; a list's objects count one by one."""
    if isinstance(value, list):
        for item in value:
            if isinstance(item, dict):
                yield from _of_value(item, names)
    elif isinstance(value, dict):
        named = [(field, k, v) for k, v in value.items() if isinstance(k, str) and (field := names.field(k))]
        # `{"field": "Answer", "value": "Paris"}` names the field in a value.
        label = value.get("field", value.get("name"))
        if not named and isinstance(label, str) and "value" in value and (field := names.field(label)):
            named = [(field, label, value["value"])]
        for field, label, held in named:
            yield Part(field, value=held, several=names.is_plural(label), settled=bool(SETTLED.search(label)))
        if not named:
            for held in value.values():
                if isinstance(held, dict | list):
                    yield from _of_value(held, names)


def _unnamed(value: Any, form: Form) -> list[Part]:
    """A list without a name, or one object of a kind that only one field of the form has."""
    if isinstance(value, dict) and len(value) == 1:
        value = next(iter(value.values()))
    field = next((field for field in form.fields if field.value in (Value.TRIPLE, Value.CALL)), None)
    items = value if isinstance(value, list) else [value]
    if field is None or not items:
        return []
    shapes = [
        (isinstance(item, dict) and len(item) > 1) or (isinstance(item, list) and len(item) == 3) for item in items
    ]
    return [Part(field, value=items)] if all(shapes) else []


def _untagged(text: str, names: Labels) -> str:
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


def _in_lines(text: str, form: Form, names: Labels) -> tuple[str, list[Part]]:
    """Parts under labels that begin a line, and in tables.

    A line that is a triple all by itself is one, wherever a form asks for triples.
    """
    pattern = _label_pattern(names)
    triples = next((field for field in form.fields if field.value is Value.TRIPLE), None)
    before: list[str] = []
    parts: list[tuple[Field, list[str], bool, bool]] = []
    columns: list[Field | None] = []
    in_triples = False
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
            if triples and (are_headings(cells) or (in_triples and cells)):
                if in_triples:
                    parts.append((triples, [" | ".join(cells)], True, False))
                in_triples = True
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
        in_triples = False
        label = pattern.match(line)
        field = names.field(label["name"]) if label else None
        if label and field and _is_label(label):
            settled = bool(SETTLED.search(f"{label['words']} {label['name']}"))
            several = names.is_plural(label["name"]) and not label["number"]
            parts.append((field, [_after_label(label)], several, settled))
        elif triples and parts and parts[-1][0] is not triples and looks_like_triple(line):
            parts.append((triples, [line], True, False))
        else:
            (parts[-1][1] if parts else before).append(line)
    return "\n".join(before), [
        Part(f, tuple(lines), None, several, settled, closed=number < len(parts))
        for number, (f, lines, several, settled) in enumerate(parts, 1)
    ]


def on_lines_of_their_own(text: str, form: Form) -> str:
    """The text with a line break before each label within a line: `Reasoning: ... Answer: ... Confidence: ...`.

    Only where every label stands there once: one that comes again may be quoted.
    """
    names = "|".join(re.escape(field.name) for field in form.fields)
    pattern = re.compile(rf"(?:(?<=[\s|;,.])|^)(?:\|\s?)?[*_]{{0,3}}(?P<name>{names})[*_]{{0,3}}:(?=[\s*_])")
    found = list(pattern.finditer(text))
    if len(found) < max(2, len(form.fields)) or len({label["name"] for label in found}) < len(found):
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
            return "" if value.startswith("{") else value.rstrip(",")
        return value
    if not opened:
        return value
    # Marks are closed in the reverse order of opening, and where they close within the line a remark may follow.
    mark = opened[0].translate(_CLOSED_BY)[::-1]
    inner, closing, rest = value.partition(mark)
    return inner if closing and re.match(r"\s?(?:$|[–—(-])", rest) else value.removesuffix(mark)


def _string(double: str | None, single: str | None, bare: str | None) -> Any:
    if bare is not None:
        return _scalar(bare.strip())
    if single is not None:
        return single.replace("\\'", "'")
    try:
        # Not strict: models leave line breaks in strings as they are.
        return json.loads(f'"{double}"', strict=False)
    except ValueError:
        return double


def _scalar(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def is_rule(line: str) -> bool:
    """True for a line that separates: `---`."""
    return bool(_RULE.fullmatch(line))


__all__: Sequence[str] = ("OTHER_LABEL", "Part", "find_parts", "is_rule", "literal")
