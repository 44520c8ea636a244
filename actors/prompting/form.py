"""Defines the form of a reply, and asks for it in lines, as JSON, or with a JSON schema."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from operator import attrgetter
from typing import Any

from actors.messages import Field, FieldKind, Question, Turn, Value
from actors.prompting.safe_text import one_line
from actors.wire import wire

_REASONING = Field(FieldKind.REASONING, "one or two sentences that name what the answer rests on", optional=True)
_ANSWER = Field(FieldKind.ANSWER, "the answer itself in as few words as possible", value=Value.ANSWER)
_AMOUNT = replace(_ANSWER, asks=f"{_ANSWER.asks}, a number with its scale (thousand, million, billion or percent)")
_CONFIDENCE = Field(FieldKind.CONFIDENCE, "how sure you are, a number from 0 to 1", optional=True, value=Value.SHARE)
ANSWER_FIELDS = (_REASONING, _ANSWER, _CONFIDENCE)
AMOUNT_FIELDS = (_REASONING, _AMOUNT, _CONFIDENCE)
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
        reason = _spaced_words(re.sub("`[^`]*`", " ", self.reason))
        words = _spaced_words(value)
        if reason.count(" ") > _LONG_REASON and reason in words:
            return True
        return words.endswith(reason) and words.count(" ") - reason.count(" ") <= _REASON_PREFIX


def _spaced_words(text: str) -> str:
    """Returns the words of a text, each with a space before and behind it."""
    words = " ".join(re.findall(r"\w+", text.casefold()))
    return f" {words} "


@dataclass(slots=True)
class FieldText:
    """The lines that a reply has under a field's name, as the model wrote them, before they are read.

    is_plural: the label is in the plural. is_cut: the reply was cut off in it.
    """

    field: Field
    lines: list[str]
    is_plural: bool = False
    is_cut: bool = False


Outcome = Values | FieldFault | None
"""Values of a field, the fault that keeps them from being read, or nothing."""


def is_long(field: Field) -> bool:
    """True for fields of text or lists, behind which remarks may stand."""
    return field.many or field.kind in PROSE or field.value is Value.NUMBERS


def still_asked(form: Form, faults: Sequence[FieldFault]) -> Form:
    """Returns the part of a form that has to be asked for again."""
    fields = {fault.field for fault in faults}
    return replace(form, fields=tuple(filter(fields.__contains__, form.fields)))


def quoted(text: str) -> str:
    """Quotes a text for a model, shortened to one line."""
    line = one_line(text)
    if len(line) > _QUOTED_CHARACTERS:
        line = f"{line[:_QUOTED_CHARACTERS]} ..."
    return f"`{line}`"


def form_of(turn: Turn) -> Form:
    """Returns the form of the reply to a turn: its task's, or that of an answer."""
    if turn.task is None:
        fields = ANSWER_FIELDS
        if turn.question.compared == "amounts":  # one without its scale is another answer
            fields = AMOUNT_FIELDS
        return Form(fields, turn.question.choices)

    shown = None
    if any(field.value is Value.NUMBERS for field in turn.task.fields):
        numbers = [input.number or 0 for input in turn.task.inputs]
        shown = max([len(places(turn.question)), *numbers]) or None
    return Form(turn.task.fields, turn.question.choices, shown)


def places(question: Question) -> dict[str, int]:
    """Numbers the sources by id. Those of the question's order come first, then others, such as an attacker's."""
    numbers: dict[str, int] = {}
    for id in (*question.order, *map(attrgetter("id"), question.evidence)):
        numbers.setdefault(id, len(numbers) + 1)
    return numbers


def letters(choices: Sequence[str]) -> list[str]:
    """Returns the letters that name choices, in their order."""
    return [chr(ord("A") + number) for number in range(len(choices))]


def key(field: Field) -> str:
    """Returns the field's key in a JSON object."""
    return field.name.lower().replace("-", "_")


@lru_cache(maxsize=1024)
def in_lines(form: Form) -> str:
    """Asks for a line for each field, with a description in angle brackets."""
    lines = [IN_LINES]
    for field in form.fields:
        repeated = "one such line for each"
        if field.most is not None:
            repeated += f" (at most {field.most})"
        if field.may_be_left_out:
            repeated += ", or none"

        description = _description(field, form.choices)
        if field.many:
            description += f"; {repeated}"
        elif field.may_be_left_out and field.value is not Value.SHARE:
            description += "; or none"

        line = f"<{description}>"
        if field.value is Value.CALL:
            # In separate brackets: small models write no words after a tool that shares them.
            line = f"<{_either(field.tools)}> | <{field.asks}> ({repeated})"
        lines.append(f"{field.name}: {line}")
    return "\n".join(lines)


@lru_cache(maxsize=1024)
def as_json(form: Form) -> str:
    """Asks for one object with a key for each field. Without blanks, as decoders with a schema write it."""
    pairs = []
    for field in form.fields:
        example = _example(field, form.choices)
        if field.value is Value.NUMBERS:
            example = f"[{example}]"
        elif field.many:
            example = f"[{example},...]"
        pairs.append(f'"{key(field)}":{example}')
    return f"{AS_JSON}\n{{{','.join(pairs)}}}"


def _example(field: Field, choices: Sequence[str]) -> str:
    """Writes a value of a field in JSON, with descriptions in place of texts."""
    text = f"<{_description(field, choices)}>"
    if field.value is Value.SHARE:
        return text
    if field.value is Value.CALL:
        return _example_of_parts(CALL, (_either(field.tools), "what to look for"))
    if field.value is Value.PAIR:
        return _example_of_parts(PAIR, PAIR)
    if field.value is Value.TRIPLE:
        # An object for each form in `a | b | c, or d | e | f`; else one with the names of its parts.
        examples: list[str] = []
        for form in field.asks.split(", or "):
            parts = form.split(" | ")
            if len(parts) != len(TRIPLE):
                return _example_of_parts(TRIPLE, TRIPLE)
            examples.append(_example_of_parts(TRIPLE, parts))
        return ",".join(examples)
    return _compact(text)


def _example_of_parts(names: Sequence[str], descriptions: Sequence[str]) -> str:
    return _compact({name: f"<{description}>" for name, description in zip(names, descriptions, strict=True)})


@lru_cache(maxsize=1024)
def schema(form: Form, max_tokens: int | None = None) -> str:
    """Returns the JSON schema of the form. Optional fields are required and may be null, as strict schemas demand.

    Lists are as long as `max_tokens` allow, and numbers end with the highest one shown: small models under a schema go
    on with a list until they are cut off.
    """
    room = None
    if max_tokens is not None:
        room = max(1, max_tokens // _ITEM_TOKENS)
    properties = {key(field): _schema_of(field, form, room) for field in form.fields}
    return json.dumps(_object(properties))


def _schema_of(field: Field, form: Form, room: int | None) -> dict[str, Any]:
    """Returns the schema of a field. room: the most items that a list can have."""
    value = _schema_of_value(field, form)
    if not field.many and field.value is not Value.NUMBERS:
        return {"anyOf": [value, {"type": "null"}]} if field.may_be_left_out else value

    array: dict[str, Any] = {"type": "array", "items": value}
    if not field.may_be_left_out:  # a list that is left out is empty
        array["minItems"] = 1
    highest = room if field.many else form.shown
    most = field.most or highest
    if most is not None:
        array["maxItems"] = most
    return array


def _schema_of_value(field: Field, form: Form) -> dict[str, Any]:
    if field.value is Value.SHARE:
        return {"type": "number", "minimum": 0, "maximum": 1}
    if field.value is Value.NUMBERS:
        return {"type": "integer", "minimum": 1, "maximum": form.shown or 999}
    if field.value in PARTS:
        parts = dict.fromkeys(PARTS[field.value], _string())
        if field.value is Value.CALL:
            parts["tool"] = _string(field.tools)
        return _object(parts)
    if field.value is Value.ANSWER:
        return _string(letters(form.choices))
    return _string(field.values)


def _string(options: Sequence[str] = ()) -> dict[str, Any]:
    string: dict[str, Any] = {"type": "string"}
    if options:
        string["enum"] = list(options)
    return string


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def _description(field: Field, choices: Sequence[str]) -> str:
    if field.value is Value.ANSWER and choices and not field.values:
        return f"the letter of one choice: {_either(letters(choices))}"
    if field.values:
        return ": ".join(filter(None, (field.asks, _either(field.values))))
    if field.value is Value.ANSWER:
        return ", ".join(filter(None, (field.asks, "or unknown")))
    return field.asks


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=SEPARATORS)


def _either(values: Sequence[str]) -> str:
    *first, last = values
    if not first:
        return last
    return f"{', '.join(first)} or {last}"
