"""First blueprint graphs of BDoG from a file: JSON scene graphs of models, in whatever keys.

The authors' own, by GPT-4 and Gemini, have dozens of shapes: objects or nodes, attributes, relationships.
"""

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from actors.errors import UserError
from topologies.systems.bdog_graph import Blueprint, Edge, blueprint

log = logging.getLogger(__name__)

# The keys under which models put the same thing, in the order in which they are tried.
_OBJECTS = ("objects", "nodes", "entities")
_RELATIONS = ("relationships", "relations", "edges", "relationship")
_NAMES = ("name", "object", "entity", "label", "id", "type", "title")
_HEADS = ("source", "subject", "from", "head", "object1", "entity1", "start")
_TAILS = ("with", "target", "to", "tail", "object", "object2", "entity2", "end", "entity")
_LABELS = ("relationship", "relation", "predicate", "type", "label", "name", "action")
LABEL = "related to"  # of a relation without one


def read_blueprints(path: str | None) -> dict[str, Blueprint]:
    """Reads graphs by question id from a JSON object of a model's texts, or of `{"kg": text}`.

    Texts without a whole graph are left out and counted in the log: these graphs are drawn. Raises UserError.
    """
    if path is None:
        return {}
    try:
        entries = json.loads(Path(path).read_text(encoding="utf-8"))
    # Broken JSON and broken UTF-8 are both ValueErrors.
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"systems.blueprints={path}: cannot be read ({error}); name a JSON file of graphs") from None
    if not isinstance(entries, dict):
        raise UserError(f"systems.blueprints={path}: expected a JSON object of graphs by question id")
    texts = {id: entry.get("kg") if isinstance(entry, dict) else entry for id, entry in entries.items()}
    read = {id: read_scene_graph(text) for id, text in texts.items() if isinstance(text, str)}
    graphs = {id: graph for id, graph in read.items() if graph}
    if unread := len(entries) - len(graphs):
        log.warning("%s: %d of %d graphs cannot be read and are drawn anew", path, unread, len(entries))
    return graphs


def read_scene_graph(text: str) -> Blueprint:
    """Reads the graph in the first JSON value of a text. Empty for a broken one: half would pass for a smaller."""
    # A sentence or a code fence before the JSON is skipped, and `raw_decode` ignores what follows it.
    start = min((at for bracket in "{[" if (at := text.find(bracket)) >= 0), default=len(text))
    try:
        value, _ = json.JSONDecoder().raw_decode(text, start)
    except (json.JSONDecodeError, RecursionError):
        return Blueprint()
    holder = _holder(value)
    objects: list[Any] = []
    for part in filter(None, _items(_first(holder, _OBJECTS))):
        by_name = isinstance(part, dict) and all(isinstance(inner, dict) for inner in part.values())
        objects += [{"name": name, **inner} for name, inner in part.items()] if by_name else [part]
    nodes = [node for node in objects if isinstance(node, dict)]
    # Edges may refer to objects by their ids.
    names = {str(node["id"]): name for node in nodes if node.get("id") is not None and (name := _name(node))}
    triples = [edge for node in nodes for edge in _of_object(node, names)]
    for edge in _items(_first(holder, _RELATIONS)):
        if isinstance(edge, dict):
            heads, tails = (_called(_first(edge, keys), names) for keys in (_HEADS, _TAILS))
            triples += [(head, _text(_first(edge, _LABELS)) or LABEL, tail) for head in heads for tail in tails]
    return blueprint(triples, [name for node in objects if (name := _name(node))])


def _holder(value: Any) -> dict[str, Any]:
    """Finds the dictionary with the objects, at any depth. A bare list is the objects."""
    if isinstance(value, dict):
        if any(key in value for key in _OBJECTS):
            return value
        return next(filter(None, map(_holder, value.values())), {})
    return {_OBJECTS[0]: value} if isinstance(value, list) and any(isinstance(part, dict) for part in value) else {}


def _of_object(node: dict[str, Any], names: dict[str, str]) -> Iterator[Edge]:
    """Yields the attributes and relations in an object's own entry."""
    head = _name(node)
    for key, value in node.items():
        if key in _RELATIONS:
            for relation in filter(lambda each: isinstance(each, dict), _items(value)):
                # `{with: x, relationship: r}` or `{r: x}`, with one tail or several.
                tails = _first(relation, _TAILS)
                ends = relation if tails is None else {(_text(_first(relation, _LABELS)) or LABEL): tails}
                yield from ((head, label, tail) for label, end in ends.items() for tail in _called(end, names))
        # The id and the name itself are no attributes.
        elif key == "attributes" or (key != "id" and not (isinstance(value, str) and value == head)):
            for part in _items(value if key == "attributes" else {key: value}):
                if not isinstance(part, dict):
                    yield head, "is", _text(part)
                    continue
                name = _text(_first(part, ("attribute", "name", "key", "type"))) if "value" in part else ""
                pairs = {name: part["value"]} if name else part
                yield from ((head, f"has {name}", _text(each)) for name, of in pairs.items() for each in _items(of))


def _called(value: Any, names: dict[str, str]) -> list[str]:
    return [names.get(name, name) for name in map(_name, _items(value)) if name]


def _name(node: Any) -> str:
    if not isinstance(node, dict):
        return _text(node)
    stated = [_text(node[key]) for key in _NAMES if isinstance(node.get(key), str | int)]
    # A name in words comes before a number, which is most often an id.
    return next((name for name in stated if name and not name.isdigit()), stated[0] if stated else "")


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
