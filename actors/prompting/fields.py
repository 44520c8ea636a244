"""Reads the lines of a task's reply, `<name>: <value>`, whatever emphasis, bullets or numbers models add to them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from actors.messages import Field
from actors.prompting.prompt import one_line

# Possessive and bounded repetitions keep matching linear in the length of what a model writes.
_BEFORE = r"\s*+(?:[-*+•#>]{1,3}\s++|\d{1,2}[.)]\s*+)?[*_`\"]{0,3}+"
_AFTER = r"(?:\s?+\d{1,2})?[*_`\"]{0,3}+\s?+[:：][*_`]{0,3}+"
# Words that models put where a line has no value.
_EMPTY = frozenset(("", "none", "n/a", "-", "(none)"))


def parse_fields(text: str, fields: Sequence[Field]) -> tuple[tuple[str, str], ...] | None:
    """(name, value) of every line that is of a field, in the reply's order; None unless the reply has what it must.

    A field that is not `many` counts with its last line, as models draft before they settle. The reply must have every
    field that is not optional (of `many`, at least one line), and a field with `values` has one of these, as spelt
    there: a value that is none of them makes the reply unreadable and is not replaced by another.

    A line that begins with no field's name goes on with the free text before it. `none` is no value of a field that is
    optional.
    """
    pattern = re.compile(
        f"{_BEFORE}(?P<name>{'|'.join(re.escape(field.name) for field in fields)}){_AFTER}(?P<value>.*)", re.IGNORECASE
    )
    by_name = {field.name.lower(): field for field in fields}
    lines: list[tuple[Field, list[str]]] = []
    for line in text.split("\n"):
        match = pattern.match(line)
        if match:
            lines.append((by_name[match["name"].lower()], [match["value"]]))
        # A value out of a list is complete on its line: what follows is a remark.
        elif lines and line.strip() and not lines[-1][0].values:
            lines[-1][1].append(line)
    values: list[tuple[Field, str]] = []
    for field, parts in lines:
        value = _stripped(one_line(" ".join(parts)))
        if value.lower().rstrip(".") in _EMPTY:
            # Only a required field needs a value; of an optional one, `none` is as good as no line.
            if not field.optional:
                return None
            continue
        if field.values:
            allowed = _one_of(value, field.values)
            if allowed is None:
                return None
            value = allowed
        values.append((field, value))
    # Later entries overwrite earlier ones, which leaves each field's last line.
    last = {field.name: place for place, (field, _) in enumerate(values)}
    kept = tuple((f.name, value) for place, (f, value) in enumerate(values) if f.many or last[f.name] == place)
    names = {name for name, _ in kept}
    return kept if all(field.optional or field.name in names for field in fields) else None


def _stripped(value: str) -> str:
    value = value.strip()
    if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'`":
        value = value[1:-1].strip()
    return value.rstrip("*_`").strip()


def _one_of(value: str, values: Sequence[str]) -> str | None:
    """The allowed value that this one is, or begins with as a word of its own (`yes, because ...`)."""
    spelling = value.lower()
    whole = [allowed for allowed in values if spelling.rstrip(".!") == allowed.lower()]
    # A hyphen goes on with a word: `no-one` does not begin with `no`.
    begun = [allowed for allowed in values if re.match(rf"{re.escape(allowed.lower())}(?![\w-])", spelling)]
    # The longest, as one allowed value may begin with another.
    return max(whole or begun, key=len, default=None)
