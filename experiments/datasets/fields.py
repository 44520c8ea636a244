"""Types of fields in layouts of releases, and the one line of an error about a record.

A layout is a frozen dataclass that pydantic validates: pydantic parses JSON itself, names the field at fault, and
refuses lone surrogates, huge numbers and endless nesting. A field that no loader reads is left out of the layout and
may hold anything.
"""

import math
import reprlib
from typing import Annotated, Any, TypeVar

from pydantic import AliasPath, BeforeValidator, FailFast, Field, StringConstraints, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError

from actors.errors import UserError

T = TypeVar("T")

# Limits are far above what the official releases hold; the largest of these are in brackets.
MB = 2**20
RECORD = 8 * MB  # bytes of a JSON record (20 kB, a WebQA question)
ROW = 64 * MB  # characters of a table's row, with its picture in base64 (some MB, MMBench)
ID = 512  # characters of an id

_NOT_BLANK = r"\S"
_ONE_LINE = r"^[^\p{Cc}\p{Zl}\p{Zp}]*$"

# Without any limit pydantic does not look at a row's characters, and lone surrogates pass.
Text = Annotated[str, StringConstraints(max_length=ROW)]
NonBlank = Annotated[str, StringConstraints(max_length=RECORD, pattern=_NOT_BLANK)]
# Text of tables, file names and the terminal.
Label = Annotated[str, StringConstraints(max_length=ID, pattern=_ONE_LINE)]
Stripped = Annotated[Text, StringConstraints(strip_whitespace=True)]
Id = Annotated[str, StringConstraints(min_length=1, max_length=ID, pattern=_ONE_LINE)]
# Validation ends at the first error: a long list of wrong values would make a longer list of errors.
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
_PATTERNS = {_NOT_BLANK: "text that is not empty", _ONE_LINE: "one line of text without control characters"}

_shown = reprlib.Repr()
_shown.maxstring = _shown.maxother = _shown.maxlong = 60


def matching(pattern: str, expected: str) -> StringConstraints:
    """Constrains a text to a pattern, which errors call `expected`."""
    _PATTERNS[pattern] = expected
    return StringConstraints(pattern=pattern)


def inside(outer: str, name: str) -> FieldInfo:
    """Takes a field from the record's object `outer`."""
    field: FieldInfo = Field(validation_alias=AliasPath(outer, name))
    return field


def member(name: str) -> BeforeValidator:
    """Takes the member `name` of an object in its place."""

    def taken(value: Any) -> Any:
        if not isinstance(value, dict) or name not in value:
            raise PydanticCustomError("member", f"an object with {name!r}")
        return value[name]

    return BeforeValidator(taken)


def answer_text(value: Any) -> str:
    """Writes a gold answer: 300 and not 300.0. Raises PydanticCustomError unless it is text or a finite number."""
    if isinstance(value, str) and value.strip():
        return value
    if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
        return f"{value:.10g}"
    raise PydanticCustomError("answer", "text that is not empty, or a number")


Answer = Annotated[str, BeforeValidator(answer_text)]


def adapter(layout: type[T] | TypeAdapter[T]) -> TypeAdapter[T]:
    """Returns pydantic's validator of a layout: a dataclass, or that of another type itself."""
    return layout if isinstance(layout, TypeAdapter) else TypeAdapter(layout)


def validated(schema: TypeAdapter[T], value: object, where: str) -> T:
    """Validates a JSON text in bytes, or a value in memory. Returns its typed record.

    Raises UserError that begins with `where` and names the field at fault.
    """
    try:
        return schema.validate_json(value) if isinstance(value, bytes) else schema.validate_python(value)
    except ValidationError as error:
        raise UserError(f"{where}: {complaint(error)}") from None


def complaint(error: ValidationError) -> str:
    """Describes the first error of a record: its field, what was expected and what was found."""
    first = error.errors(include_url=False)[0]
    context = first.get("ctx", {})
    field = ".".join(map(str, first["loc"]))
    if first["type"] == "json_invalid":
        # A record of one line has its line before this.
        reason = str(context["error"]).replace(" at line 1 ", " at ")
        return f"broken JSON ({reason}); the file may be truncated, download it again"
    if first["type"] == "missing":
        outer, _, last = field.rpartition(".")
        return f"{f'{outer}: ' if outer else ''}the record has no {last!r} as the official release has"
    expected = _PATTERNS.get(context.get("pattern", "")) or _EXPECTED.get(first["type"])
    expected = expected.format(**context) if expected else first["msg"].removeprefix("Input should be ")
    place = f"{field}: " if field else ""
    return f"{place}expected {expected}, found {_shown.repr(first['input'])}: not of the official release's form"
