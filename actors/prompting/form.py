"""Defines the form of a reply, and asks for it in lines, as JSON, or with a JSON schema."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from actors.messages import Field, FieldKind, Question, Turn, Value, wire
from actors.prompting.safe_text import one_line

ANSWER_FIELDS = (
    Field(FieldKind.REASONING, "one or two sentences that name what the answer rests on", optional=True),
    Field(FieldKind.ANSWER, "the answer itself in as few words as possible", value=Value.ANSWER),
    Field(FieldKind.CONFIDENCE, "how sure you are, a number from 0 to 1", optional=True, value=Value.SHARE),
)
AMOUNT_FIELDS = tuple(
    replace(field, asks=f"{field.asks}, a number with its scale (thousand, million, billion or percent)")
    if field.kind is FieldKind.ANSWER
    else field
    for field in ANSWER_FIELDS
)
IN_LINES = "Reply in these lines and nothing else, each of them beginning with its name:"
AS_JSON = "Reply with one JSON object and nothing else, in this form:"
SEPARATORS = (",", ":")  # of JSON without blanks; xgrammar takes them in this form
# Fields of free text that may be long; the value of any other ends with its line.
PROSE = frozenset((FieldKind.REASONING, FieldKind.THOUGHT, FieldKind.SUMMARY, FieldKind.DESCRIPTION))
# Keys of a value's parts in JSON.
PAIR = ("question", "answer")
TRIPLE = ("head", "relation", "tail")
CALL = ("tool", "query")
PARTS = {Value.PAIR: PAIR, Value.TRIPLE: TRIPLE, Value.CALL: CALL}
_ITEM_TOKENS = 24  # of a triple in JSON, with some to spare; texts have fewer
_QUOTED_CHARACTERS = 80
_REASON_PREFIX = 3  # words before a repeated reason: `the Triple`
_LONG_REASON = 6  # words of a reason that no value contains by chance
Values = tuple[str, ...]


@wire
class Form:
    """The fields of a reply, in the order in which a prompt asks for them.

    `choices` are the question's, for fields that hold an answer. `shown` is the highest number in the prompt, for
    fields that name sources by number.
    """

    fields: tuple[Field, ...]
    choices: tuple[str, ...] = ()
    shown: int | None = None


@dataclass(frozen=True, slots=True)
class FieldFault:
    """A field that could not be read. The model is shown the reason when it is asked again."""

    field: Field
    reason: str

    def is_repeated_by(self, value: str) -> bool:
        """True for a value that repeats the reason. Small models copy it from the correction."""
        reason, said = (re.findall(r"\w+", text.casefold()) for text in (re.sub("`[^`]*`", " ", self.reason), value))
        if len(reason) >= _LONG_REASON and f" {' '.join(reason)} " in f" {' '.join(said)} ":
            return True
        return 0 < len(reason) <= len(said) <= len(reason) + _REASON_PREFIX and said[-len(reason) :] == reason


@dataclass(frozen=True, slots=True)
class RawField:
    """The lines that a reply has under a field's name, as the model wrote them, before they are read.

    `several` marks a label in the plural.
    """

    field: Field
    lines: tuple[str, ...]
    several: bool = False


def is_long(field: Field) -> bool:
    """True for fields of text or lists, behind which remarks may stand."""
    return field.many or field.kind in PROSE or field.value is Value.NUMBERS


def still_asked(form: Form, faults: Sequence[FieldFault]) -> Form:
    """Returns the part of a form that has to be asked for again."""
    names = {fault.field.name for fault in faults}
    return replace(form, fields=tuple(field for field in form.fields if field.name in names))


def quoted(item: Any) -> str:
    """Quotes a value for a model, shortened to one line."""
    if not isinstance(item, str):
        item = json.dumps(item, ensure_ascii=False)
    line = one_line(item)
    return f"`{line if len(line) <= _QUOTED_CHARACTERS else line[:_QUOTED_CHARACTERS] + ' ...'}`"


def form_of(turn: Turn) -> Form:
    """Returns the form of the reply to a turn: its task's, or that of an answer."""
    if turn.task is None:
        # Where amounts are compared, one without its scale is another answer.
        fields = AMOUNT_FIELDS if turn.question.compared == "amounts" else ANSWER_FIELDS
        return Form(fields, turn.question.choices)
    shown = None
    if any(field.value is Value.NUMBERS for field in turn.task.fields):
        inputs = (given.number for given in turn.task.inputs if given.number)
        shown = max([len(places(turn.question)), *inputs]) or None
    return Form(turn.task.fields, turn.question.choices, shown)


def places(question: Question) -> dict[str, int]:
    """Numbers the sources by id. Those of the question's order come first, then others, such as an attacker's."""
    ids = dict.fromkeys((*question.order, *(source.id for source in question.evidence)))
    return {id: place for place, id in enumerate(ids, 1)}


def letters(choices: Sequence[str]) -> list[str]:
    """Returns the letters that name choices, in their order."""
    return [chr(ord("A") + i) for i in range(len(choices))]


def key(field: Field) -> str:
    """Returns the field's key in a JSON object."""
    return field.name.lower().replace("-", "_")


@lru_cache(maxsize=1024)
def in_lines(form: Form) -> str:
    """Asks for a line for each field, with a description in angle brackets."""
    lines = [IN_LINES]
    for field in form.fields:
        most = "" if field.most is None else f" (at most {field.most})"
        each = f"one such line for each{most}{', or none' if field.may_be_left_out else ''}"
        asked = _description(field, form.choices)
        if field.value is Value.CALL:
            # In separate brackets: small models write no words after a tool that shares them.
            lines.append(f"{field.name}: <{_either(field.tools)}> | <{field.asks}> ({each})")
            continue
        if field.many:
            asked += f"; {each}"
        elif field.may_be_left_out and field.value is not Value.SHARE:
            asked += "; or none"
        lines.append(f"{field.name}: <{asked}>")
    return "\n".join(lines)


@lru_cache(maxsize=1024)
def as_json(form: Form) -> str:
    """Asks for one object with a key for each field. Without blanks, as decoders with a schema write it."""
    pairs = []
    for field in form.fields:
        text = f"<{_description(field, form.choices)}>"
        value = text if field.value is Value.SHARE else _compact(text)
        if field.value is Value.PAIR:
            value = _compact({part: f"<{part}>" for part in PAIR})
        elif field.value is Value.TRIPLE:
            # An object for each form in `a | b | c, or d | e | f`; else one with the names of its parts.
            forms = [form.split(" | ") for form in field.asks.split(", or ")]
            if any(len(parts) != len(TRIPLE) for parts in forms):
                forms = [list(TRIPLE)]
            triples = [{name: f"<{part}>" for name, part in zip(TRIPLE, parts, strict=True)} for parts in forms]
            value = ",".join(map(_compact, triples))
        elif field.value is Value.CALL:
            value = _compact(dict(zip(CALL, (f"<{_either(field.tools)}>", "<what to look for>"), strict=True)))
        listed = f"[{value}]" if field.value is Value.NUMBERS else f"[{value},...]" if field.many else value
        pairs.append(f'"{key(field)}":{listed}')
    return f"{AS_JSON}\n{{{','.join(pairs)}}}"


@lru_cache(maxsize=1024)
def schema(form: Form, max_tokens: int | None = None) -> str:
    """Returns the JSON schema of the form. Optional fields are required and may be null, as strict schemas demand.

    Lists are as long as `max_tokens` allow, and numbers end with the highest one shown: small models under a schema go
    on with a list until they are cut off.
    """
    room = None if max_tokens is None else max(1, max_tokens // _ITEM_TOKENS)
    text: dict[str, Any] = {"type": "string"}
    properties = {}
    for field in form.fields:
        most = field.most or (form.shown if field.value is Value.NUMBERS else room if field.many else None)
        bounds = {} if field.may_be_left_out else {"minItems": 1}
        if most is not None:
            bounds["maxItems"] = most
        one = text
        if field.values:
            one = {"type": "string", "enum": list(field.values)}
        elif field.value is Value.ANSWER and form.choices:
            one = {"type": "string", "enum": letters(form.choices)}
        elif field.value is Value.SHARE:
            one = {"type": "number", "minimum": 0, "maximum": 1}
        elif field.value is Value.NUMBERS:
            one = {"type": "array", "items": {"type": "integer", "minimum": 1, "maximum": form.shown or 999}, **bounds}
        elif field.value in (Value.PAIR, Value.TRIPLE):
            one = _object(dict.fromkeys(PAIR if field.value is Value.PAIR else TRIPLE, text))
        elif field.value is Value.CALL:
            one = _object(dict(zip(CALL, ({"type": "string", "enum": list(field.tools)}, text), strict=True)))
        if field.many:
            one = {"type": "array", "items": one, **bounds}
        elif field.may_be_left_out and one["type"] != "array":  # a list that is left out is empty
            one = {"anyOf": [one, {"type": "null"}]}
        properties[key(field)] = one
    return json.dumps(_object(properties))


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def _description(field: Field, choices: Sequence[str]) -> str:
    parts = [field.asks] if field.asks else []
    if field.values:
        return ": ".join([*parts, _either(field.values)])
    if field.value is Value.ANSWER:
        parts = [f"the letter of one choice: {_either(letters(choices))}"] if choices else [*parts, "or unknown"]
    return ", ".join(parts)


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=SEPARATORS)


def _either(values: Sequence[str]) -> str:
    return " or ".join(filter(None, [", ".join(values[:-1]), values[-1]]))
