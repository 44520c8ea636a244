"""A trace as one line of JSON, and back without loss. Fields at their default, most of them, are left out."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
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
        _check(values, _TRACE_TYPES)
        turns = tuple(_message(message) for message in values.pop("turns"))
        status = Status(values.pop("status"))
        # Unpacking three names also checks that every edge has three parts.
        edges: dict[str, Any] = {
            kind: tuple((t, i, j) for t, i, j in values.pop(kind)) for kind in _EDGES if kind in values
        }
        _check_edges(edges)
        lookups = tuple(Lookup(**_tuples(_check(lookup, _LOOKUP_TYPES))) for lookup in values.pop("lookups", ()))
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
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"not a trace: {error!r} in {line[:80]!r}") from error


def _check(values: dict[str, Any], types: Mapping[str, frozenset[type]]) -> dict[str, Any]:
    """The values themselves. Raises ValueError for one that is not of its field's type: sums and texts of reports are
    made of them much later."""
    for name, value in values.items():
        if type(value) not in types[name] or (type(value) is float and not math.isfinite(value)):
            raise ValueError(f"{name}: expected {' or '.join(sorted(kind.__name__ for kind in types[name]))}")
        if type(value) is list and name in _NAMES and not all(type(part) is str for part in value):
            raise ValueError(f"{name}: expected a list of texts")
    return values


def _check_edges(edges: Mapping[str, Sequence[tuple[Any, Any, Any]]]) -> None:
    for kind, listed in edges.items():
        for edge in listed:
            if not all(type(number) is int and number >= 0 for number in edge):
                raise ValueError(f"{kind}: expected numbers of rounds and agents")


def _message(values: dict[str, Any]) -> Message:
    _check(values, _MESSAGE_TYPES)
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


def _types(kind: type[Trace | Message | Lookup]) -> dict[str, frozenset[type]]:
    """What JSON may hold for each field, by the first words of its annotation."""
    found = {}
    for field in fields(kind):
        parts = [part.partition("[")[0] for part in str(field.type).split(" | ")]
        found[field.name] = frozenset(one for part in parts for one in _JSON[part])
    return found


_JSON: Mapping[str, tuple[type, ...]] = {
    **{"str": (str,), "int": (int,), "float": (float, int), "None": (type(None),)},
    **{"tuple": (list,), "Status": (str,)},
}
_TRACE_TYPES, _LOOKUP_TYPES, _MESSAGE_TYPES = _types(Trace), _types(Lookup), _types(Message)
_NAMES = frozenset({"agents", "evidence", "decision", "attacked", "found", "heard", "cut", "tampered"})
