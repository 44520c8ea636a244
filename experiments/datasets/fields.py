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

_ONE_LINE = r"^[^\p{Cc}\p{Zl}\p{Zp}]*$"  # without control characters

# Without any limit pydantic does not look at a row's characters, and lone surrogates pass.
Text = Annotated[str, StringConstraints(max_length=ROW)]
NonBlank = Annotated[str, StringConstraints(max_length=RECORD, pattern=r"\S")]
# Text of tables, file names and the terminal.
Label = Annotated[str, StringConstraints(max_length=ID, pattern=_ONE_LINE)]
Stripped = Annotated[Text, StringConstraints(strip_whitespace=True)]
Id = Annotated[str, StringConstraints(min_length=1, max_length=ID, pattern=_ONE_LINE)]
# Validation ends at the first error: a long list of wrong values would make a longer list of errors.
Many = Annotated[tuple[T, ...], FailFast()]

_shortened = reprlib.Repr()
_shortened.maxstring = _shortened.maxother = _shortened.maxlong = 60


def inside(outer: str, name: str) -> FieldInfo:
    """Takes a field from the record's object `outer`."""
    field: FieldInfo = Field(validation_alias=AliasPath(outer, name))
    return field


def member(name: str) -> BeforeValidator:
    """Takes the member `name` of an object in its place."""

    def member_of(value: Any) -> Any:
        if not isinstance(value, dict) or name not in value:
            raise PydanticCustomError("member", f"expected an object with {name!r}")
        return value[name]

    return BeforeValidator(member_of)


def answer_text(value: Any) -> str:
    """Writes a gold answer: 300 and not 300.0. Raises PydanticCustomError unless it is text or a finite number."""
    if isinstance(value, str) and value.strip():
        return value
    if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
        return f"{value:.10g}"
    raise PydanticCustomError("answer", "expected text that is not empty, or a number")


Answer = Annotated[str, BeforeValidator(answer_text)]


def validated(schema: TypeAdapter[T], value: object, where: str, form: str = "") -> T:
    """Validates a JSON text in bytes, or a value in memory. Returns its typed record.

    form: what was expected; by default the form of an official release. Raises UserError that begins with `where` and
    names the field at fault.
    """
    try:
        return schema.validate_json(value) if isinstance(value, bytes) else schema.validate_python(value)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        place = ": ".join(filter(None, [where, ".".join(map(str, problem["loc"]))]))
        remedy = "not of the official release's form; if the file is truncated, download it again"
        if form:
            remedy = f"expected {form}; correct it, or remove it"
        raise UserError(f"{place}: {problem['msg']}, found {shortened(problem['input'])}: {remedy}") from None


def shortened(value: object) -> str:
    """Writes a wrong value, cut where it is long."""
    return _shortened.repr(value)
