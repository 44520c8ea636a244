"""Finds the places in a raw reply of the values read from it. A value with several places is left out."""

import re
from collections.abc import Sequence
from typing import Any

from actors.messages import Completion, FieldKind
from actors.prompting.form import Form, still_asked
from actors.prompting.reply import read


def marks(form: Form, completions: Sequence[Completion]) -> list[dict[str, Any]]:
    """The places of the values of a reply and its repair: `call` (from 0), `start`, `end`, and the `field`'s name.

    Places count UTF-16 units, as a browser's strings do.
    """
    found, asked = [], form
    for call, completion in enumerate(completions):
        text = completion.text
        reading = read(asked, text, completion.stop == "length", form)
        for name, value in reading.values:
            if span := _place(text, name, value):
                start, end = (len(text[:place].encode("utf-16-le", "surrogatepass")) // 2 for place in span)
                found.append({"call": call, "start": start, "end": end, "field": name})
        asked = still_asked(asked, reading.faults)
    return found


def _place(text: str, name: str, value: str) -> tuple[int, int] | None:
    # On one line or several; a number may end in zeros.
    written = r"\s+".join(map(re.escape, value.split())) + ("0*" if name == FieldKind.CONFIDENCE else "")
    # Its label makes a value unique that others mention.
    for before in (rf"(?<!\w){re.escape(name)}\W{{1,8}}", ""):
        places = [each.span("value") for each in re.finditer(rf"(?i){before}(?<!\w)(?P<value>{written})(?!\w)", text)]
        if len(places) == 1:
            return places[0]
    return None
