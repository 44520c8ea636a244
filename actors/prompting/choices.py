"""Reads one of several values that a field may have."""

from __future__ import annotations

import re
from collections.abc import Sequence

from actors.messages import Field, FieldKind
from actors.prompting.marks import in_digits
from actors.prompting.stated import undecorated

_TICKS = "✅✔☑✓❌\ufe0f"
_ZEROS = re.compile(r"\.0{1,2}(?!\d)")
_MORE_DIGITS = re.compile(r"[.,:]\d")
# What a grade is out of: `/5`, ` out of 5`, ` (on a scale of 1 to 5)`.
_SCALE = re.compile(
    r"[\s(,]{0,3}(?:/|(?:out )?of(?: a (?:possible|maximum))?|on a scale (?:of|from) 1\s?(?:to|[-–]))\s?"
    r"(?P<most>\d{1,4}|ten|hundred)(?:\.0)?(?![\w])\)?"
)
_COUNTED = re.compile(r" (?!(?:or|and|to)\b)[a-z][a-z -]{2,40}\.?")
_ENDS_A_CHOICE = re.compile(r"\s*(?:(?:node|type)?$|[.,;:!)\]–—(\n]|-\s|\s[-–—]\s|\b(?:because|since|as)\b)")


def one_of(text: str, field: Field) -> str | None:
    """The field's value that a text is, or begins with before a remark (`yes, because ...`)."""
    values = field.values
    plain = undecorated(text.strip(f" {_TICKS}"))[0].strip(f" \"'`*_()[]<>{_TICKS}").casefold()
    if plain in ("true", "false") and {"yes", "no"} <= set(values):
        plain = "yes" if plain == "true" else "no"
    if all(map(str.isdigit, values)):
        plain = in_digits(plain)
    begun = [value for value in values if plain.startswith(value.casefold())]
    # The longest, as one allowed value may begin with another.
    value = max(begun, key=len, default=None)
    if value is None:
        return None
    rest = plain[len(value) :].lstrip("*_`\"'")
    if value.isdigit():
        return _one_number(value, rest, field)
    return value if _ENDS_A_CHOICE.match(rest) and not _names_another(rest, value, values) else None


def _one_number(value: str, rest: str, field: Field) -> str | None:
    """The number that a text begins with, unless it goes on, is on another scale, or stands beside another."""
    rest = _ZEROS.sub("", rest, count=1) if rest.startswith(".") else rest
    scale = _SCALE.match(rest) if field.kind is FieldKind.GRADE else None
    if scale and scale["most"] != field.values[-1]:
        return None
    rest = rest[scale.end() :] if scale else rest
    counted = field.kind is not FieldKind.GRADE and _COUNTED.fullmatch(rest)
    if _MORE_DIGITS.match(rest) or not (_ENDS_A_CHOICE.match(rest) or counted):
        return None
    hedged = any(
        re.search(rf"\b(?:or|maybe|perhaps|possibly)\s(?:even |a )?{other}\b", rest)
        for other in field.values
        if other != value
    )
    return None if hedged or _names_another(rest, value, field.values) else value


def _names_another(rest: str, value: str, values: Sequence[str]) -> bool:
    """True for `yes / no` and `yes, no`, which state both; in a sentence after a value the other may be spoken of."""
    others = [re.escape(other.casefold()) for other in values if other != value]
    return any(re.fullmatch(rf"\W{{1,3}}(?:or )?{other}\W*", rest) for other in others)
