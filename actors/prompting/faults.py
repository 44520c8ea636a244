"""What could not be read of a reply, why, and what to ask for again."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from actors.messages import Field
from actors.prompting.form import Form
from actors.prompting.text import one_line

_QUOTED_CHARACTERS = 80
_QUOTED = re.compile(r"`[^`]*`")
_BEFORE_REASON = 3  # words: `the Triple`
_TELLING = 6  # words of a reason that nobody says by chance
Values = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Fault:
    """A field that could not be read, and why, for the model that is to put it right."""

    field: Field
    reason: str

    def is_repeated_by(self, value: str) -> bool:
        """Whether a value says no more than the reason, or says a long one among other things: a small model copies it
        when it is told of the fault."""
        reason, said = _words(_QUOTED.sub(" ", self.reason)), _words(value)
        if len(reason) >= _TELLING and f" {' '.join(reason)} " in f" {' '.join(said)} ":
            return True
        return 0 < len(reason) <= len(said) <= len(reason) + _BEFORE_REASON and said[-len(reason) :] == reason


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.casefold())


def quoted(item: Any) -> str:
    """The item as it is shown to the model, shortened."""
    line = one_line(item if isinstance(item, str) else _as_json(item))
    return f"`{line if len(line) <= _QUOTED_CHARACTERS else line[:_QUOTED_CHARACTERS] + ' ...'}`"


def _as_json(item: Any) -> str:
    """JSON, or Python's spelling of what JSON has not: a key that came twice, or one that is no text."""
    try:
        return json.dumps(item, ensure_ascii=False)
    except TypeError:
        return repr(item)


def still_asked(form: Form, faults: Sequence[Fault]) -> Form:
    """The part of a form that could not be read, and is to be asked for again."""
    return form.only([fault.field.name for fault in faults])
