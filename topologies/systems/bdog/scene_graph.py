"""Blueprints that models wrote as JSON scene graphs, in whatever keys: objects or nodes, attributes, relationships.

For first blueprints that are given and not drawn. The authors' own, made by GPT-4 and Gemini, come in dozens of shapes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from topologies.systems.bdog.blueprint import Blueprint, Edge, blueprint

# The keys under which models put the same thing, in the order in which they are tried.
_OBJECTS = ("objects", "nodes", "entities")
_RELATIONS = ("relationships", "relations", "edges", "relationship")
_NAMES = ("name", "object", "entity", "label", "id", "type", "title")
_HEADS = ("source", "subject", "from", "head", "object1", "entity1", "start")
_TAILS = ("with", "target", "to", "tail", "object", "object2", "entity2", "end", "entity")
_LABELS = ("relationship", "relation", "predicate", "type", "label", "name", "action")
_UNNAMED = "related to"


def read_scene_graph(text: str) -> Blueprint | None:
    """The graph in the first JSON value of a text; None when there is none, when it is broken or cut off, or when it
    names no entity. Nothing is repaired: half a graph would pass for a smaller one."""
    # A sentence or a code fence before the JSON is skipped, and `raw_decode` ignores what follows it.
    start = min((at for bracket in "{[" if (at := text.find(bracket)) >= 0), default=-1)
    if start < 0:
        return None
    try:
        value, _ = json.JSONDecoder().raw_decode(text, start)
    except json.JSONDecodeError:
        return None
    holder = _holder(value)
    objects = [node for part in _items(_first(holder, _OBJECTS)) if part for node in _entries(part)]
    # Edges may refer to objects by their ids.
    names: dict[str, str] = {}
    for node in objects:
        if isinstance(node, dict) and node.get("id") is not None and (name := _name(node)):
            names[str(node["id"])] = name
    triples: list[Edge] = []
    for node in objects:
        if isinstance(node, dict):
            triples += _of_node(node, names)
    for edge in _items(_first(holder, _RELATIONS)):
        triples += _between(edge, names)
    graph = blueprint(triples, [name for node in objects if (name := _name(node))])
    return graph if graph.entities else None


def _holder(value: Any) -> dict[str, Any]:
    """The dictionary that holds the objects, however deep it lies; a bare list is one of objects."""
    if isinstance(value, dict):
        if any(key in value for key in _OBJECTS):
            return value
        inner = [holder for part in value.values() if (holder := _holder(part))]
        return inner[0] if inner else {}
    return {_OBJECTS[0]: value} if isinstance(value, list) and any(isinstance(part, dict) for part in value) else {}


def _entries(node: Any) -> list[Any]:
    """An object, or all those in a dictionary that holds objects by their names."""
    if isinstance(node, dict) and all(isinstance(inner, dict) for inner in node.values()):
        return [{"name": name, **inner} for name, inner in node.items()]
    return [node]


def _of_node(node: dict[str, Any], names: dict[str, str]) -> Iterator[Edge]:
    """The attributes and relations in an object's own entry."""
    head = _name(node)
    for key, value in node.items():
        if key in _RELATIONS:
            for relation in _items(value):
                yield from _from_node(head, relation, names)
        elif key == "attributes":
            for attribute, stated in _pairs(value):
                yield head, f"has {attribute}" if attribute else "is", stated
        # The id and the name itself are no attributes.
        elif key != "id" and not (isinstance(value, str) and value == head):
            for attribute, stated in _pairs({key: value}):
                yield head, f"has {attribute}", stated


def _from_node(head: str, relation: Any, names: dict[str, str]) -> Iterator[Edge]:
    """A relation in its head's entry: `{with: x, relationship: r}`, or `{r: x}` with one tail or several."""
    if not isinstance(relation, dict):
        if isinstance(relation, str):
            yield head, "is", relation
        return
    tails = _first(relation, _TAILS)
    if tails is not None:
        label = _text(_first(relation, _LABELS)) or _UNNAMED
        # One tail or a list of them, each an edge of its own.
        yield from ((head, label, tail) for tail in _called(tails, names))
        return
    for label, ends in relation.items():
        yield from ((head, label, tail) for tail in _called(ends, names))


def _between(edge: Any, names: dict[str, str]) -> Iterator[Edge]:
    """A relation in a list of its own: `{source, target, type}`. What names no head or no tail is no edge."""
    if isinstance(edge, dict):
        label = _text(_first(edge, _LABELS)) or _UNNAMED
        for head in _called(_first(edge, _HEADS), names):
            yield from ((head, label, tail) for tail in _called(_first(edge, _TAILS), names))


def _called(value: Any, names: dict[str, str]) -> Iterator[str]:
    for part in _items(value):
        name = _name(part)
        if name:
            yield names.get(name, name)


def _pairs(value: Any) -> Iterator[tuple[str, str]]:
    """(attribute, value) of all that is said under an attribute; a bare value has an attribute without a name."""
    for part in _items(value):
        if not isinstance(part, dict):
            yield "", _text(part)
        elif "value" in part and (name := _text(_first(part, ("attribute", "name", "key", "type")))):
            yield from ((name, _text(stated)) for stated in _items(part["value"]))
        else:
            for key, inner in part.items():
                yield from ((key, _text(stated)) for stated in _items(inner))


def _name(node: Any) -> str:
    if not isinstance(node, dict):
        return _text(node)
    stated = {key: _text(node[key]) for key in _NAMES if isinstance(node.get(key), str | int)}
    # A name in words comes before a number, which is most often an id.
    worded = (name for name in stated.values() if name and not name.isdigit())
    return next(worded, next(iter(stated.values()), ""))


def _items(value: Any) -> list[Any]:
    return [] if value is None else value if isinstance(value, list) else [value]


def _first(node: dict[str, Any], keys: tuple[str, ...]) -> Any:
    return next((node[key] for key in keys if node.get(key) is not None), None)


def _text(value: Any) -> str:
    if isinstance(value, dict | list):
        parts = value.items() if isinstance(value, dict) else (("", part) for part in value)
        return ", ".join(f"{key} {_text(part)}".strip() for key, part in parts)
    # Booleans as JSON writes them.
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
