"""What could not be read of a reply, why, and what to ask for again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from actors.messages import Field
from actors.prompting.form import Form
from actors.prompting.text import one_line

_QUOTED_CHARACTERS = 80
Values = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Fault:
    """A field that could not be read, and why, for the model that is to put it right."""

    field: Field
    reason: str


def quoted(item: Any) -> str:
    """The item as it is shown to the model, shortened."""
    line = one_line(item if isinstance(item, str) else json.dumps(item, ensure_ascii=False))
    return f"`{line if len(line) <= _QUOTED_CHARACTERS else line[:_QUOTED_CHARACTERS] + ' ...'}`"


def still_asked(form: Form, faults: Sequence[Fault]) -> Form:
    """The part of a form that could not be read, and is to be asked for again."""
    return form.only([fault.field.name for fault in faults])
