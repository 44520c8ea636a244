"""Finds the fields of a form in JSON, also in broken JSON and in Python's spelling."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from actors.messages import FieldKind
from actors.prompting.form import Form, RawField, Twice
from actors.prompting.line_reply import FINAL, Labels, fields_in_lines, untagged

_VALUES = 200  # tried as JSON in one reply: each costs a scan of the rest at worst
_COMMAS = 200  # tried as the end of a broken object, from the last
# A key, and the text under it where that goes on to the end.
_KEY = re.compile(r"[\s,{]*+[\"'“]([^\"'“”\n]{1,40})[\"'”]\s{0,8}+:(?:\s{0,80}+\"((?:[^\"\\]|\\.)*+)\\?$)?", re.DOTALL)
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
        inside = list(_of_value(value, names))
        if inside:
            found += inside
            start, end = begun if start is None else start, ended
    if start is None:
        return _in_broken_json(text, form, names, cut_off)
    return text[:start], _with_after(found, text[end:], form, names, cut_off)


def _in_broken_json(text: str, form: Form, names: Labels, cut_off: bool) -> tuple[str, list[RawField]]:
    """Finds the fields of an object without its end: where it was `cut_off` the complete pairs, and the field in which
    it was, without a value."""
    start = text.find("{")
    if start < 0 or not re.match(r"\{\s{0,80}[\"'“]", text[start : start + 100]):
        return "", []
    commas = [start + comma.start() for comma in re.finditer(r",(?=\s*[\"'“])", text[start:])][-_COMMAS:]
    value, end = None, start
    for end in (*([] if cut_off else [len(text)]), *reversed(commas)):
        with suppress(ValueError, RecursionError):
            value, _ = decode(f"{text[start:end].rstrip()}}}")
            break
    found = list(_of_value(value, names)) if isinstance(value, dict) else []
    if {raw.field for raw in found} & {names.field(key[1]) for key in _KEY.finditer(text, end)}:
        return "", []  # the text behind the last complete pair may change a value
    key = _KEY.match(text, end if found else start)
    if not cut_off and end < len(text) and (key is None or text[key.end() :].strip()):
        return "", []
    if key and (field := names.field(key[1])):
        # Reasoning is of use without its end; the value of any other field is not.
        written = literal(f'["{key[2]}"]') if key[2] and field.kind is FieldKind.REASONING else None
        lines = tuple(str(written[0]).split("\n")) if isinstance(written, list) else ("",)
        found.append(RawField(field, lines=lines))
    return text[:start], found


def _with_after(found: Sequence[RawField], text: str, form: Form, names: Labels, cut_off: bool) -> list[RawField]:
    if cut_off or not text.strip():
        return [*found]
    between, later = fields_in_lines(untagged(text, names), form, names)
    return [*found[:-1], replace(found[-1], after=tuple(between.split("\n"))), *later]


def _values(text: str) -> Iterator[tuple[int, int, Any]]:
    """Yields (start, end, value) of the outermost JSON objects and lists in a text."""
    place, last = 0, max(text.rfind("}"), text.rfind("]")) + 1
    for _ in range(_VALUES):
        opening = re.compile(r"[{\[]").search(text, place)
        if opening is None:
            return
        start = opening.start()
        try:
            value, end = decode(text, start)
        except (ValueError, RecursionError):  # the latter for brackets that are nested too deeply
            # Python's spelling, or a comma too many, where it is all there is.
            end, last = last, 0
            value = literal(text[start:end]) if end > start else None
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
