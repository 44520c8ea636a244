"""Finds the parts of a form in JSON, or in what models write in its place."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from actors.messages import FieldKind, Value
from actors.prompting.form import Form
from actors.prompting.labels import SETTLED, Labels
from actors.prompting.line_parts import parts_in_lines, untagged
from actors.prompting.part import Part, Twice

# Values that are tried as JSON in one reply: each costs a scan of the rest at worst.
_VALUES = 200
# Characters that are looked through, in Python, for the ends of what is not quite JSON.
_SCANNED = 100_000
_STRING = r"\"((?:[^\"\\]|\\.)*+)\"|'((?:[^'\\]|\\.)*+)'"
# Another quotation mark may stand within the string: `"the song "Help!" by the Beatles"`, `'Men's 100 m'`.
_STRING_ENDS = r"(?=[^\S\n]*+(?:[}\n]|$|,\s*+(?:[\"'“}]|\w{1,40}\s?:|$)))"
_PAIR = re.compile(
    rf"(?:[\"'“]([^\"'“”\n]{{1,40}})[\"'”])\s{{0,8}}+:\s{{0,80}}+"
    rf"(?:(?:{_STRING}){_STRING_ENDS}|(\[[^\[\]{{}}]*+\])|(0,\d{{1,9}}|[^\s\"'\[\]{{}},][^,}}\n]*+)(?=\s*+(?:,(?!\d)|\}}|$)))",
    re.DOTALL,
)
# A key, and the text under it where that goes on to the end.
_KEY = re.compile(r"[\"'“]([^\"'“”\n]{1,40})[\"'”]\s{0,8}+:(?:\s{0,80}+\"((?:[^\"\\]|\\.)*+)\\?$)?", re.DOTALL)
# A backslash with what it escapes. Alone it is LaTeX's or of no meaning: `\alpha`, and `\frac` and `\times`, of which
# JSON would make a form feed and a tab.
_ESCAPE = re.compile(
    r"\\(?:[\\\"'/]|u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|(?!(?:text(?:bf|it|rm|tt|sf|sc)?|tfrac|times|theta|therefore|tilde"
    r"|triangle|tan|tau|to|top|right[a-z]*|rho|rangle|rfloor|rceil|rm|neq?|neg|nu|nabla|not|notin)(?![A-Za-z]))[nrt])?"
)


def parts_in_json(text: str, form: Form, names: Labels, cut_off: bool) -> tuple[str, list[Part]]:
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
    return text[:start], _with_after(parts, text[end:], form, names, cut_off)


def _in_broken_json(text: str, form: Form, names: Labels, cut_off: bool) -> tuple[str, list[Part]]:
    """The complete pairs of an object that is broken off or is not quite JSON, and the field in which one was
    `cut_off`, without a value."""
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
        broken_off = cut_off and bare is not None and not text[pair.end() :].strip()
        if value is not None and not broken_off:
            parts.append(Part(field, value=value))
            end = pair.end()
    if cut_off:
        keys = ((names.field(key[1]), key[2]) for key in _KEY.finditer(text, end or start))
        field, unfinished = next((key for key in keys if key[0]), (None, None))
        # Of reasoning, what it says until it breaks off is of use; the value of any other field has no end.
        if field:
            said = _string(unfinished, None, None) if unfinished and field.kind is FieldKind.REASONING else ""
            parts.append(Part(field, lines=tuple(str(said).split("\n"))))
    if not parts:
        return "", []
    return text[:start], _with_after(parts, text[end:], form, names, cut_off)


def _with_after(parts: Sequence[Part], text: str, form: Form, names: Labels, cut_off: bool) -> list[Part]:
    """The parts of an object with those on lines after it, which may settle on something else."""
    if cut_off or not text.strip():
        return [*parts]
    between, later = parts_in_lines(untagged(text, names), form, names)
    return [*parts[:-1], replace(parts[-1], after=tuple(between.split("\n"))), *later]


def _values(text: str) -> Iterator[tuple[int, int, Any]]:
    """(start, end, value) of the JSON objects and lists in a text, outermost ones only."""
    place, left = 0, _SCANNED
    for _ in range(_VALUES):
        opening = re.compile(r"[{\[]").search(text, place)
        if opening is None:
            return
        start = opening.start()
        try:
            value, end = decode(text, start)
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


def decode(text: str, start: int = 0) -> tuple[Any, int]:
    """The JSON value that begins at `start`, and its end.

    Raises:
        ValueError: for what is no JSON.
        RecursionError: for brackets that are nested too deeply.
    """
    value, end = _DECODER.raw_decode(text, start)
    if text.find("\\", start, end) >= 0:
        value = _DECODER.decode(_doubled(text[start:end]))
    return value, end


def _doubled(text: str) -> str:
    """The text of JSON with backslashes that escape nothing as strings spell them."""
    return _ESCAPE.sub(lambda escape: escape[0] if len(escape[0]) > 1 else "\\\\", text)


def _object(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    held: dict[str, Any] = {}
    for name, value in pairs:
        held[name] = Twice() if name in held and held[name] != value else value
    return held


# Not strict: models leave line breaks in strings as they are.
_DECODER = json.JSONDecoder(strict=False, object_pairs_hook=_object)


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


def _string(double: str | None, single: str | None, bare: str | None) -> Any:
    if bare is not None:
        return _scalar(bare.strip())
    if single is not None:
        return single.replace("\\'", "'")
    try:
        return _DECODER.decode(_doubled(f'"{double}"'))
    except ValueError:
        return double


def _scalar(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
