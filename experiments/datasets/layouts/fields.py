"""The kinds of fields that schemas are made of, and the one line that a record of another form gets.

Schemas are dataclasses that pydantic checks: it is there already (AutoGen needs it), reads JSON itself and faster than
the standard library, tells what it found, and refuses lone surrogates, endless numbers and endless nesting. Fields that
no loader reads are not in a schema and may hold anything.
"""

from __future__ import annotations

import math
import re
import reprlib
from typing import Annotated, Any, TypeVar

from pydantic import FailFast, PlainValidator, StringConstraints, TypeAdapter, ValidationError
from pydantic_core import PydanticCustomError

from actors.errors import UserError
from experiments.datasets.layouts.limits import ID, LINE, ROW

T = TypeVar("T")

_NOT_BLANK = r"\S"
_ONE_LINE = r"^[^\p{Cc}\p{Zl}\p{Zp}]*$"

# The limit that no record can reach has pydantic look at the characters: without one, lone surrogates pass in a row.
Text = Annotated[str, StringConstraints(max_length=ROW)]
Said = Annotated[str, StringConstraints(max_length=LINE, pattern=_NOT_BLANK)]  # a question, an answer
# What stands in tables, in names of files and on the terminal: one line.
Label = Annotated[str, StringConstraints(max_length=ID, pattern=_ONE_LINE)]
Id = Annotated[str, StringConstraints(min_length=1, max_length=ID, pattern=_ONE_LINE)]
# Reading ends at the first error: a long list of wrong values would be a longer one of errors.
Many = Annotated[tuple[T, ...], FailFast()]

_EXPECTED = {
    "string_type": "text",
    "string_unicode": "text in UTF-8",
    "string_too_long": "text of at most {max_length} characters",
    "string_too_short": "text that is not empty",
    "int_type": "a whole number",
    "dict_type": "an object",
    "dataclass_type": "an object",
    "tuple_type": "a list",
}
_PATTERNS: dict[str, str] = {
    _NOT_BLANK: "text that is not empty",
    _ONE_LINE: "one line of text without control characters",
}

_shown = reprlib.Repr()
_shown.maxstring = _shown.maxother = _shown.maxlong = 60


def like(pattern: str, expected: str) -> StringConstraints:
    """Text of a pattern; `expected` is what errors call it."""
    _PATTERNS[pattern] = expected
    return StringConstraints(pattern=pattern)


def number_text(value: float) -> str:
    """The text of a computed answer, without floating-point noise (300, not 300.0; 1.144)."""
    return f"{value:.10g}"


def answer_text(value: Any) -> str:
    """A gold answer that is text or a computed number. Raises PydanticCustomError for anything else."""
    if isinstance(value, str) and value.strip():
        return value
    if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
        return number_text(value)
    raise PydanticCustomError("answer", "text that is not empty, or a number")


# Gold answers are texts, but for computed numbers, which become texts here.
Answer = Annotated[str, PlainValidator(answer_text)]


def checked(schema: TypeAdapter[T], text: bytes | str, where: str) -> T:
    """The typed record of a JSON text. Raises UserError, beginning with `where`, that names the field at fault."""
    try:
        return schema.validate_json(text)
    except ValidationError as error:
        reason = str(error.errors(include_url=False)[0].get("ctx", {}).get("error", ""))
        # Of a text of several lines the one at fault is told; a record of one line is told where it begins already.
        if broken := re.fullmatch(r"(?s)(.*) at line (\d+) column \d+", reason):
            line = f", line {broken[2]}" if broken[2] != "1" else ""
            raise UserError(
                f"{where}{line}: broken JSON ({broken[1]}); the file may be truncated, download it again"
            ) from None
        raise UserError(f"{where}: {complaint(error)}") from None


def checked_value(schema: TypeAdapter[T], value: object, where: str) -> T:
    """The same of a value that is in memory: a row's cells by column."""
    try:
        return schema.validate_python(value)
    except ValidationError as error:
        raise UserError(f"{where}: {complaint(error)}") from None


def complaint(error: ValidationError) -> str:
    """Field, what was expected and what was found, of the first thing that is wrong."""
    first = error.errors(include_url=False)[0]
    context = first.get("ctx", {})
    field = ".".join(map(str, first["loc"]))
    if first["type"] == "missing":
        outer, _, last = field.rpartition(".")
        return f"{f'{outer}: ' if outer else ''}the record has no {last!r} as the official release has"
    expected = _PATTERNS.get(context.get("pattern", "")) or _EXPECTED.get(first["type"])
    expected = expected.format(**context) if expected else first["msg"].removeprefix("Input should be ")
    place = f"{field}: " if field else ""
    return f"{place}expected {expected}, found {_shown.repr(first['input'])}: not of the official release's form"
