"""Finds the fields of a form in JSON, also in broken JSON and in Python's spelling."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from actors.messages import FieldKind, Value
from actors.prompting.form import Form, RawField, Twice
from actors.prompting.line_reply import FINAL, Labels, fields_in_lines, untagged

_VALUES = 200  # tried as JSON in one reply: each costs a scan of the rest at worst
_SCANNED = 100_000  # characters searched for the ends of broken JSON
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


def fields_in_json(text: str, form: Form, names: Labels, cut_off: bool) -> tuple[str, list[RawField]]:
    """Finds fields in objects whose keys name them, and on lines after the objects, which may revise them.

    Returns the text before the first object, and the fields; of an object that was cut off only the complete pairs.
    """
    found: list[RawField] = []
    start, end = None, 0
    for begun, ended, value in _values(text):
        inside = list(_of_value(value, names)) or _unnamed(value, form)
        if inside:
            found += inside
            start, end = begun if start is None else start, ended
    if start is None:
        return _in_broken_json(text, form, names, cut_off)
    return text[:start], _with_after(found, text[end:], form, names, cut_off)


def _in_broken_json(text: str, form: Form, names: Labels, cut_off: bool) -> tuple[str, list[RawField]]:
    """Finds the complete pairs of a broken object, and the field in which it was `cut_off`, without a value."""
    start = text.find("{")
    if start < 0 or not re.match(r"\{\s{0,80}[\"'“]", text[start : start + 100]):
        return "", []
    found, end = [], 0
    for pair in _PAIR.finditer(text, start):
        field = names.field(pair[1])
        if field is None:
            continue
        _, double, single, items, bare = pair.groups()
        value = literal(items) if items is not None else _string(double, single, bare)
        broken_off = cut_off and bare is not None and not text[pair.end() :].strip()
        if value is not None and not broken_off:
            found.append(RawField(field, value=value))
            end = pair.end()
    if cut_off:
        keys = ((names.field(key[1]), key[2]) for key in _KEY.finditer(text, end or start))
        field, unfinished = next((key for key in keys if key[0]), (None, None))
        # Reasoning is of use without its end; the value of any other field is not.
        if field:
            written = _string(unfinished, None, None) if unfinished and field.kind is FieldKind.REASONING else ""
            found.append(RawField(field, lines=tuple(str(written).split("\n"))))
    if not found:
        return "", []
    return text[:start], _with_after(found, text[end:], form, names, cut_off)


def _with_after(found: Sequence[RawField], text: str, form: Form, names: Labels, cut_off: bool) -> list[RawField]:
    if cut_off or not text.strip():
        return [*found]
    between, later = fields_in_lines(untagged(text, names), form, names)
    return [*found[:-1], replace(found[-1], after=tuple(between.split("\n"))), *later]


def _values(text: str) -> Iterator[tuple[int, int, Any]]:
    """Yields (start, end, value) of the outermost JSON objects and lists in a text."""
    place, left = 0, _SCANNED
    for _ in range(_VALUES):
        opening = re.compile(r"[{\[]").search(text, place)
        if opening is None:
            return
        start = opening.start()
        try:
            value, end = decode(text, start)
        except (ValueError, RecursionError):  # the latter for brackets that are nested too deeply
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
    """Returns the JSON value that begins at `start`, and its end.

    Raises:
        ValueError: the text is no JSON.
        RecursionError: brackets are nested too deeply.
    """
    value, end = _DECODER.raw_decode(text, start)
    if text.find("\\", start, end) >= 0:
        value = _DECODER.decode(_doubled(text[start:end]))
    return value, end


def _doubled(text: str) -> str:
    return _ESCAPE.sub(lambda escape: escape[0] if len(escape[0]) > 1 else "\\\\", text)


def _object(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for name, value in pairs:
        made[name] = Twice() if name in made and made[name] != value else value
    return made


# Not strict: models leave line breaks in strings as they are.
_DECODER = json.JSONDecoder(strict=False, object_pairs_hook=_object)


def _balanced(text: str, start: int, limit: int) -> int:
    """Finds the end of the bracket that opens at `start`, outside of quotation marks; 0 where the limit comes first."""
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
    """Reads JSON with commas before a closing bracket, with comments, or in Python's spelling; None for other text."""
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


def _of_value(value: Any, names: Labels) -> Iterator[RawField]:
    """Yields the fields in an object: its own keys, or those of objects inside it or a list."""
    if isinstance(value, list):
        for item in value:
            if isinstance(item, dict):
                yield from _of_value(item, names)
    elif isinstance(value, dict):
        named = [(field, k, v) for k, v in value.items() if isinstance(k, str) and (field := names.field(k))]
        for field, label, inner in named:
            yield RawField(field, value=inner, several=names.is_plural(label), final=bool(FINAL.search(label)))
        if not named:
            for inner in value.values():
                if isinstance(inner, dict | list):
                    yield from _of_value(inner, names)


def _unnamed(value: Any, form: Form) -> list[RawField]:
    """Takes a list without a name, or one object, for the triples or calls that a form asks for."""
    if isinstance(value, dict) and len(value) == 1:
        value = next(iter(value.values()))
    field = next((field for field in form.fields if field.value in (Value.TRIPLE, Value.CALL)), None)
    items = value if isinstance(value, list) else [value]
    if field is None or not items:
        return []
    shapes = [
        (isinstance(item, dict) and len(item) > 1) or (isinstance(item, list) and len(item) == 3) for item in items
    ]
    return [RawField(field, value=items)] if all(shapes) else []


def _string(double: str | None, single: str | None, bare: str | None) -> Any:
    if bare is not None:
        try:
            return json.loads(bare)
        except ValueError:
            return bare.strip()
    if single is not None:
        return single.replace("\\'", "'")
    try:
        return _DECODER.decode(_doubled(f'"{double}"'))
    except ValueError:
        return double
