"""A trace as one line of JSON and back, exactly. Fields at their default are left out, as most of a message's are."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

from actors.messages import Lookup, Message, Status, Trace

_EDGES = ("spatial", "temporal", "allowed_spatial", "allowed_temporal")


def encode(trace: Trace) -> str:
    """One line, without its newline, of plain ASCII: any reader of JSON lines takes it, whatever a model has said.

    Raises ValueError when a confidence is not a finite number, which JSON cannot hold.
    """
    line = _told(trace, _TRACE)
    line["turns"] = [_told(message, _MESSAGE) for message in trace.turns]
    if trace.lookups:
        line["lookups"] = [_told(lookup, _LOOKUP) for lookup in trace.lookups]
    return json.dumps(line, separators=(",", ":"), allow_nan=False)


def decode(line: str) -> Trace:
    """The trace that `encode` wrote. Raises ValueError when the line is anything else."""
    try:
        told: dict[str, Any] = json.loads(line)
        turns = tuple(_message(message) for message in told.pop("turns"))
        status = Status(told.pop("status"))
        edges: dict[str, Any] = {
            kind: tuple((t, i, j) for t, i, j in told.pop(kind)) for kind in _EDGES if kind in told
        }
        lookups = tuple(Lookup(**_tuples(lookup)) for lookup in told.pop("lookups", ()))
        paths = tuple(map(tuple, told.pop("paths"))) if "paths" in told else None
        return Trace(turns=turns, status=status, lookups=lookups, paths=paths, **edges, **_tuples(told))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not a trace: {error!r} in {line[:80]!r}") from error


def _message(told: dict[str, Any]) -> Message:
    if "status" in told:
        told["status"] = Status(told["status"])
    if "fields" in told:
        told["fields"] = [(name, value) for name, value in told["fields"]]
    return Message(**_tuples(told))


def _tuples(told: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in told.items()}


def _told(value: Trace | Message | Lookup, defaults: list[tuple[str, Any]]) -> dict[str, Any]:
    return {name: held for name, default in defaults if (held := getattr(value, name)) != default}


_TRACE = [(field.name, field.default) for field in fields(Trace)]
_LOOKUP = [(field.name, field.default) for field in fields(Lookup)]
_MESSAGE = [(field.name, field.default) for field in fields(Message)]
