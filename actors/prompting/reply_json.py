"""Decodes JSON as models write it: with line breaks in strings, LaTeX, single quotes, or without its end."""

import ast
import json
import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Literal

from pydantic_core import from_json

# A backslash that escapes nothing in JSON, or is LaTeX's: `\alpha`, and `\frac` and `\times`, of which JSON would make
# a form feed and a tab.
_ESCAPE = re.compile(
    r"(?P<json>\\(?:[\\\"/]|u[0-9a-fA-F]{4}|n(?!(?:eq?|abla|u|ot|otin|eg)(?![A-Za-z]))|[rt](?![a-z])))|\\"
)


def escaped(text: str) -> str:
    """Doubles the backslashes that are none of JSON's."""
    return _ESCAPE.sub(lambda escape: escape["json"] or "\\\\", text)


def decode(text: str, start: int = 0) -> tuple[Any, int]:
    """Returns the value that begins at `start` of an escaped text, and its end.

    Raises ValueError where the text is no JSON, and RecursionError where brackets are nested too deeply.
    """
    return _DECODER.raw_decode(text, start)


def mended(text: str, cut_off: bool) -> Any:
    """Returns an object that is in Python's spelling, or lacks its end. Empty where there is none."""
    if re.match(r"\{\s*'", text):
        with suppress(ValueError, SyntaxError, RecursionError, MemoryError):
            return ast.literal_eval(text)
    if text and (cut_off or not text.rstrip("`\n ").endswith("}")):
        partial: Literal[True, "trailing-strings"] = "trailing-strings" if cut_off else True
        with suppress(ValueError):  # line breaks in strings are none of JSON's
            return from_json(text.replace("\n", " "), allow_partial=partial)
    return {}


def _object(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Returns an object. Raises ValueError where a key has two different values."""
    keys: dict[str, Any] = {}
    for key, value in pairs:
        if keys.setdefault(key, value) != value:
            raise ValueError("a key occurs twice")
    return keys


# Not strict: models leave line breaks in strings as they are.
_DECODER = json.JSONDecoder(strict=False, object_pairs_hook=_object)
