"""Reads a line of JSON as a record of a given type: each field of its type and within its bounds, and no others."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Annotated, Any, TypeVar

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

T = TypeVar("T")

# For a record's class, as `__pydantic_config__`: a number is a number and no text, and NaN is none.
STRICT = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

Share = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=0, lt=2**63)]
FileName = Annotated[str, Field(pattern=r"^\w[\w.,=+-]*$", max_length=250)]
"""A name that is part of a file's or a folder's, and leads nowhere else."""


def read_record(kind: TypeAdapter[T], line: str) -> T:
    """The record of a line, a dataclass's. Raises ValueError, of one line, that names the first field that is wrong."""
    try:
        if "\\ud" not in line.lower():
            return kind.validate_json(line)
        # Halves of surrogate pairs, which Python's JSON has and pydantic takes for no text: checked without, and kept.
        said: Any = json.loads(line)
        checked: Any = kind.validate_json(json.dumps(said, ensure_ascii=False).encode(errors="replace"))
    except ValidationError as error:
        first: Any = error.errors(include_url=False, include_input=False)[0]
        field = ".".join(map(str, first["loc"]))
        raise ValueError(f"{field + ': ' if field else ''}{first['msg']}") from None
    texts = {name: tuple(value) if isinstance(value, list) else value for name, value in said.items()}
    kept: T = replace(
        checked, **{name: value for name, value in texts.items() if isinstance(value, (str, tuple, dict))}
    )
    return kept
