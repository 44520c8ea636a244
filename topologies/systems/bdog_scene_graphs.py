"""First blueprint graphs of BDoG from a file: JSON scene graphs of models, in whatever keys.

The authors' own, by GPT-4 and Gemini, have dozens of shapes: objects or nodes, attributes, relationships.
"""

import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from actors.errors import UserError
from actors.received import MB, read_plain, received
from topologies.systems.bdog_graph import Blueprint, Edge, blueprint

log = logging.getLogger(__name__)

# The keys under which models put the same thing, in the order in which they are tried.
_OBJECTS = ("objects", "nodes", "entities")
_RELATIONS = ("relationships", "relations", "edges", "relationship")
_NAMES = ("name", "object", "entity", "label", "id", "type", "title")
_HEADS = ("source", "subject", "from", "head", "object1", "entity1", "start")
_TAILS = ("with", "target", "to", "tail", "object", "object2", "entity2", "end", "entity")
_LABELS = ("relationship", "relation", "predicate", "type", "label", "name", "action")
_ATTRIBUTES = ("attribute", "name", "key", "type")
LABEL = "related to"  # of a relation without one
MOST_BYTES = 256 * MB  # of a file of graphs


def read_blueprints(path: str | None) -> dict[str, Blueprint]:
    """Reads graphs by question id from a JSON object of a model's texts, or of `{"kg": text}`.

    Texts without a whole graph are left out and counted in the log: these graphs are drawn. Raises UserError.
    """
    if path is None:
        return {}
    with received(f"systems.blueprints={path}", "name a JSON file of graphs"):
        entries = json.loads(read_plain(Path(path), MOST_BYTES))
    if not isinstance(entries, dict):
        raise UserError(f"systems.blueprints={path}: expected a JSON object of graphs by question id")

    graphs = {}
    for id, entry in entries.items():
        text = entry.get("kg") if isinstance(entry, dict) else entry
        graph = read_scene_graph(text) if isinstance(text, str) else Blueprint()
        if graph:
            graphs[id] = graph
    if len(graphs) < len(entries):
        unread = len(entries) - len(graphs)
        log.warning("%s: %d of %d graphs cannot be read and are drawn anew", path, unread, len(entries))
    return graphs


def read_scene_graph(text: str) -> Blueprint:
    """Reads the graph in the first JSON value of a text. Empty for a broken one: half would pass for a smaller."""
    # A sentence or a code fence before the JSON is skipped, and `raw_decode` ignores what follows it.
    start = len(re.split(r"[{\[]", text, maxsplit=1)[0])
    try:
        value, _ = json.JSONDecoder().raw_decode(text, start)
    # A number of thousands of digits is a ValueError, too.
    except (ValueError, RecursionError):
        return Blueprint()
    graph = _SceneGraph(_holder(value))
    return blueprint(graph.edges(), graph.names())


class _SceneGraph:
    """The dictionary with the objects of a scene and their relations."""

    def __init__(self, holder: dict[str, Any]) -> None:
        self._relations = _items(_first(holder, _RELATIONS))
        self._objects: list[Any] = []
        for entry in filter(None, _items(_first(holder, _OBJECTS))):
            # Objects may also be listed by their names.
            if isinstance(entry, dict) and all(isinstance(value, dict) for value in entry.values()):
                self._objects += [{"name": name, **value} for name, value in entry.items()]
            else:
                self._objects.append(entry)
        self._names_by_id = {
            str(entry["id"]): _name(entry)
            for entry in self._objects
            if isinstance(entry, dict) and entry.get("id") is not None
        }

    def names(self) -> list[str]:
        """Returns the names of all objects."""
        return [_name(entry) for entry in self._objects]

    def edges(self) -> Iterator[Edge]:
        """Yields attributes and relations of the objects, then the relations between them."""
        for entry in self._objects:
            if isinstance(entry, dict):
                yield from self._edges_of(entry)
        for relation in self._relations:
            if isinstance(relation, dict):
                tails = self._called(_first(relation, _TAILS))
                for head in self._called(_first(relation, _HEADS)):
                    yield from ((head, _label(relation), tail) for tail in tails)

    def _edges_of(self, entry: dict[str, Any]) -> Iterator[Edge]:
        head = _name(entry)
        for key, value in entry.items():
            if key in _RELATIONS:
                for relation in _items(value):
                    if isinstance(relation, dict):
                        yield from self._relations_of(head, relation)
            elif key == "attributes":
                for part in _items(value):
                    yield from _attributes(head, part)
            # The id and the name itself are no attributes.
            elif key != "id" and value != head:
                yield from _attributes(head, {key: value})

    def _relations_of(self, head: str, relation: dict[str, Any]) -> Iterator[Edge]:
        """`{with: x, relationship: r}` or `{r: x}`, with one tail or several."""
        tails = _first(relation, _TAILS)
        ends = relation if tails is None else {_label(relation): tails}
        for label, value in ends.items():
            yield from ((head, label, tail) for tail in self._called(value))

    def _called(self, value: Any) -> list[str]:
        """Returns the names of a value's parts, which may be ids of objects."""
        names = map(_name, _items(value))
        return [self._names_by_id.get(name) or name for name in names if name]


def _holder(value: Any) -> dict[str, Any]:
    """Finds the dictionary with the objects, at any depth. A bare list is the objects."""
    if isinstance(value, list) and any(isinstance(part, dict) for part in value):
        return {_OBJECTS[0]: value}
    if not isinstance(value, dict):
        return {}
    if any(key in value for key in _OBJECTS):
        return value
    return next(filter(None, map(_holder, value.values())), {})


def _attributes(head: str, part: Any) -> Iterator[Edge]:
    """Yields attributes: a text, `{attribute: a, value: v}`, or `{a: v}`."""
    if not isinstance(part, dict):
        yield head, "is", _text(part)
        return
    values = part
    if "value" in part and (name := _text(_first(part, _ATTRIBUTES))):
        values = {name: part["value"]}
    for name, value in values.items():
        yield from ((head, f"has {name}", _text(item)) for item in _items(value))


def _label(relation: dict[str, Any]) -> str:
    return _text(_first(relation, _LABELS)) or LABEL


def _name(node: Any) -> str:
    if not isinstance(node, dict):
        return _text(node)
    names = [_text(node[key]) for key in _NAMES if isinstance(node.get(key), str | int)]
    # A name in words comes before a number, which is most often an id.
    worded = [name for name in names if name and not name.isdigit()]
    return next(iter(worded or names), "")


def _items(value: Any) -> list[Any]:
    if value is None:
        return []
    if isinstance(value, list):
        return value
    return [value]


def _first(node: dict[str, Any], keys: tuple[str, ...]) -> Any:
    return next((node[key] for key in keys if node.get(key) is not None), None)


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_text(part)}".strip() for key, part in value.items())
    if isinstance(value, list):
        return ", ".join(map(_text, value))
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()  # as JSON writes it
    return str(value)
