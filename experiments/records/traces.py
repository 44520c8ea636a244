"""A trace as one line of JSON, and back without loss. Fields at their default, most of them, are left out."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

from actors.messages import Lookup, Message, Status, Trace

_PAIRS = frozenset({"fields", "likelihoods"})
_EDGES = ("spatial", "temporal", "allowed_spatial", "allowed_temporal")


def encode(trace: Trace) -> str:
    """One line, without its newline, of plain ASCII: any reader of JSON lines takes it, whatever a model wrote.

    Raises ValueError when a confidence or a likelihood is not a finite number, which JSON cannot hold.
    """
    line = _record(trace, _TRACE)
    line["turns"] = [_record(message, _MESSAGE) for message in trace.turns]
    if trace.lookups:
        line["lookups"] = [_record(lookup, _LOOKUP) for lookup in trace.lookups]
    # Without `allow_nan=False` Python writes NaN, which is no JSON and which other readers refuse.
    return json.dumps(line, separators=(",", ":"), allow_nan=False)


def decode(line: str) -> Trace:
    """The trace that `encode` wrote. Raises ValueError when the line is anything else."""
    try:
        values: dict[str, Any] = json.loads(line)
        turns = tuple(_message(message) for message in values.pop("turns"))
        status = Status(values.pop("status"))
        # Unpacking three names also checks that every edge has three parts.
        edges: dict[str, Any] = {
            kind: tuple((t, i, j) for t, i, j in values.pop(kind)) for kind in _EDGES if kind in values
        }
        lookups = tuple(Lookup(**_tuples(lookup)) for lookup in values.pop("lookups", ()))
        # None (no paths followed) and an empty list (none found) differ.
        paths = tuple(map(tuple, values.pop("paths"))) if "paths" in values else None
        descriptions = tuple((entity, text) for entity, text in values.pop("descriptions", ()))
        return Trace(
            turns=turns,
            status=status,
            lookups=lookups,
            paths=paths,
            descriptions=descriptions,
            **edges,
            **_tuples(values),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not a trace: {error!r} in {line[:80]!r}") from error


def _message(values: dict[str, Any]) -> Message:
    if "status" in values:
        values["status"] = Status(values["status"])
    for pairs in _PAIRS & values.keys():
        # Pairs again: JSON knows lists only, and `_tuples` converts the outer one.
        values[pairs] = [(name, value) for name, value in values[pairs]]
    return Message(**_tuples(values))


def _tuples(values: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}


def _record(value: Trace | Message | Lookup, defaults: list[tuple[str, Any]]) -> dict[str, Any]:
    return {name: present for name, default in defaults if (present := getattr(value, name)) != default}


# Read once: `fields` is slow, and every message of a run passes here.
_TRACE = [(field.name, field.default) for field in fields(Trace)]
_LOOKUP = [(field.name, field.default) for field in fields(Lookup)]
_MESSAGE = [(field.name, field.default) for field in fields(Message)]
