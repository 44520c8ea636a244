"""The form of a reply, and three ways to ask for it: in lines, as JSON, or by a JSON schema that a model is kept to."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from actors.messages import Field, FieldKind, Question, Task, Turn, Value, wire

ANSWER_FIELDS = (
    Field(FieldKind.REASONING, "one or two sentences that name what the answer rests on", optional=True),
    Field(FieldKind.ANSWER, "the answer itself in as few words as possible", value=Value.ANSWER),
    Field(FieldKind.CONFIDENCE, "how sure you are, a number from 0 to 1", optional=True, value=Value.SHARE),
)
IN_LINES = "Reply in these lines and nothing else, each of them beginning with its name:"
AS_JSON = "Reply with one JSON object and nothing else, in this form:"
SEPARATORS = (",", ":")  # of JSON without blanks; xgrammar takes them in this form
_NONE = "none"
_PAIR = ("question", "answer")
_TRIPLE = ("head", "relation", "tail")
_CALL = ("tool", "query")
_ITEM_TOKENS = 24  # of a triple in JSON, with some to spare; texts have fewer


@wire
class Form:
    """`fields` in the order in which they are asked for. `choices` are the question's, for fields that hold an
    answer; `shown` is the highest number by which anything goes in the prompt, for fields that name things by it."""

    fields: tuple[Field, ...]
    choices: tuple[str, ...] = ()
    shown: int | None = None

    def only(self, names: Collection[str]) -> Form:
        """The fields with these names; without their answers, an optional one is asked for all the same."""
        return replace(self, fields=tuple(field for field in self.fields if field.name in names))


def form_of(turn: Turn) -> Form:
    """The form of the reply to a turn: its task's, or that of an answer."""
    if turn.task is None:
        return Form(ANSWER_FIELDS, turn.question.choices)
    named = any(field.value is Value.NUMBERS for field in turn.task.fields)
    return Form(turn.task.fields, turn.question.choices, _highest_number(turn, turn.task) if named else None)


def _highest_number(turn: Turn, task: Task) -> int | None:
    """Of sources, which go by their place in the question's evidence or order, and of the task's material."""
    return max([len(places(turn.question)), *(given.number for given in task.given if given.number)]) or None


def places(question: Question) -> dict[str, int]:
    """The place of each source, by id: in the question's order, and what is in none, as an attacker's source, after
    it."""
    ids = dict.fromkeys((*question.order, *(source.id for source in question.evidence)))
    return {id: place for place, id in enumerate(ids, 1)}


@lru_cache(maxsize=1024)
def in_lines(form: Form) -> str:
    """A line for each field, with what belongs there in angle brackets."""
    return "\n".join([IN_LINES, *(f"{field.name}: {_in_brackets(field, form.choices)}" for field in form.fields)])


@lru_cache(maxsize=1024)
def as_json(form: Form) -> str:
    """One object with a key for each field, without blanks: so it is written where a model is kept to a schema."""
    pairs = []
    for field in form.fields:
        text = f"<{_placeholder(field, form.choices, in_json=True)}>"
        value = text if field.value is Value.SHARE else _compact(text)
        pairs.append(f'"{key(field)}":{_items(field, value)}')
    return f"{AS_JSON}\n{{{','.join(pairs)}}}"


def key(field: Field) -> str:
    """The field's key in a JSON object."""
    return field.name.lower().replace("-", "_")


def letters(choices: Sequence[str]) -> list[str]:
    """The letters by which choices go, in their order."""
    return [chr(ord("A") + i) for i in range(len(choices))]


@lru_cache(maxsize=1024)
def schema(form: Form, max_tokens: int | None = None) -> str:
    """The JSON schema of the form. All keys are required and optional ones may be null, as strict schemas demand.

    A list has no more items than a reply of `max_tokens` has room for: a small model that is kept to a schema goes on
    with a list until it is cut off, and then nothing of it can be read. Numbers are of what was shown, for it counts
    on and on just the same.
    """
    room = None if max_tokens is None else max(1, max_tokens // _ITEM_TOKENS)
    fields = [replace(field, most=field.most or _most(field, form, room)) for field in form.fields]
    properties = {key(field): _schema(field, form) for field in fields}
    whole = {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}
    return json.dumps(whole)


def _most(field: Field, form: Form, room: int | None) -> int | None:
    """The most items that a field can have of which the form names no number."""
    return form.shown if field.value is Value.NUMBERS else room if field.many else None


def _schema(field: Field, form: Form) -> dict[str, Any]:
    text: dict[str, Any] = {"type": "string"}
    one: dict[str, Any]
    if field.values:
        one = {"type": "string", "enum": list(field.values)}
    elif field.value is Value.ANSWER and form.choices:
        one = {"type": "string", "enum": letters(form.choices)}
    elif field.value is Value.SHARE:
        one = {"type": "number", "minimum": 0, "maximum": 1}
    elif field.value is Value.NUMBERS:
        one = {
            "type": "array",
            "items": {"type": "integer", "minimum": 1, "maximum": form.shown or 999},
            **_bounds(field),
        }
    elif field.value is Value.PAIR:
        one = _object(dict.fromkeys(_PAIR, text))
    elif field.value is Value.TRIPLE:
        one = _object(dict.fromkeys(_TRIPLE, text))
    elif field.value is Value.CALL:
        one = _object({"tool": {"type": "string", "enum": list(field.tools)}, "query": text})
    else:
        one = text
    if field.many:
        return {"type": "array", "items": one, **_bounds(field)}
    # An empty list says that there is none; of anything else null does.
    return {"anyOf": [one, {"type": "null"}]} if field.may_be_left_out and one.get("type") != "array" else one


def _bounds(field: Field) -> dict[str, int]:
    least = {} if field.may_be_left_out else {"minItems": 1}
    return least if field.most is None else {**least, "maxItems": field.most}


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def _in_brackets(field: Field, choices: Sequence[str]) -> str:
    """What belongs on a field's line."""
    if field.value is not Value.CALL:
        return f"<{_placeholder(field, choices)}>"
    # In brackets of their own, for small models write no words behind a tool that shares them.
    return f"<{_either(field.tools)}> | <{field.asks}> ({_for_each(field)})"


def _placeholder(field: Field, choices: Sequence[str], in_json: bool = False) -> str:
    parts = [field.asks] if field.asks else []
    if field.values:
        parts.append(_either(field.values))
    elif field.value is Value.ANSWER:
        parts = [f"the letter of one choice: {_either(letters(choices))}"] if choices else [*parts, "or unknown"]
    asked = ": ".join(parts) if field.values else ", ".join(parts)
    if in_json:
        return asked
    if field.many:
        asked += f"; {_for_each(field)}"
    elif field.may_be_left_out and field.value is not Value.SHARE:
        asked += f"; or {_NONE}"
    return asked


def _for_each(field: Field) -> str:
    """How many lines a list has."""
    most = "" if field.most is None else f" (at most {field.most})"
    return f"one such line for each{most}" + (f", or {_NONE}" if field.may_be_left_out else "")


def _items(field: Field, value: str) -> str:
    if field.value is Value.NUMBERS:
        return f"[{value}]"
    if field.value is Value.PAIR:
        value = _compact({part: f"<{part}>" for part in _PAIR})
    elif field.value is Value.TRIPLE:
        value = _triples(field.asks)
    elif field.value is Value.CALL:
        value = _compact({"tool": f"<{_either(field.tools)}>", "query": "<what to look for>"})
    if field.many:
        return f"[{value},...]"
    return value


def _triples(asks: str) -> str:
    """An object for each form in `a | b | c, or d | e | f`; else one with the names of its parts."""
    forms = [form.split(" | ") for form in asks.split(", or ")]
    if any(len(parts) != len(_TRIPLE) for parts in forms):
        forms = [list(_TRIPLE)]
    return ",".join(_compact({name: f"<{part}>" for name, part in zip(_TRIPLE, parts, strict=True)}) for parts in forms)


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=SEPARATORS)


def _either(values: Sequence[str]) -> str:
    return " or ".join(filter(None, [", ".join(values[:-1]), values[-1]]))
