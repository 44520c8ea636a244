"""Finds what a reply states of each field of a form. Nothing is understood here: a part is the text, or the JSON value,
that stands under a field's name."""

from __future__ import annotations

from actors.prompting.form import Form
from actors.prompting.json_parts import parts_in_json
from actors.prompting.labels import Labels, labels
from actors.prompting.line_parts import parts_in_lines, untagged
from actors.prompting.part import Part


def find_parts(text: str, form: Form, cut_off: bool = False) -> tuple[str, list[Part]]:
    """The text before the first part, and the parts in order; none where no field is named.

    Of an object that was cut off only the pairs that are complete count.
    """
    names = labels(form.fields)
    before, parts = parts_in_json(text, form, names, cut_off)
    if parts and not _is_quoted(before, text, form, names):
        return before, parts
    return parts_in_lines(untagged(text, names), form, names)


def _is_quoted(before: str, text: str, form: Form, names: Labels) -> bool:
    """True for an object within a line, where lines state all that is required: `Reasoning: the record {...} is`."""
    if not before.rpartition("\n")[2].strip():
        return False
    stated = {part.field for part in parts_in_lines(text, form, names)[1]}
    return all(field.optional or field in stated for field in form.fields)
