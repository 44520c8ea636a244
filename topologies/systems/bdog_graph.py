"""Blueprint graphs of BDoG: entities, attributes and relations, read from triples, and their distance.

A triple `head | relation | tail` is an attribute of its head when the relation is `is`, `is a`, `is an` or
`has <name>`, and a relation between two entities otherwise. Case, spaces and a last full stop of names do not count.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

from topologies.answers import wording

Edge = tuple[str, str, str]

# A whole line in one pair of round or angle brackets, as in (head | relation | tail).
_BRACKETED = re.compile(r"^[(<]([^()<>]*)[)>]$")
# "has to" and "has been" are verbs between entities; any other "has x" names an attribute.
_ATTRIBUTE = re.compile(r"(is|is an?|has (?!to\b|been\b)\S.*)")


@dataclass(frozen=True, slots=True)
class Blueprint:
    """<V, E> of Eq. 2 in the order of its statement; `unconnected` are entities that occur in no triple.

    Made by `blueprint`, which leaves out repetitions.
    """

    triples: tuple[Edge, ...] = ()
    unconnected: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """False for the empty graph."""
        return bool(self.triples or self.unconnected)

    @property
    def entities(self) -> frozenset[str]:
        """Heads, and the tails of relations; the value of an attribute is no entity."""
        return frozenset(map(_key, chain(self.unconnected, *map(_ends, self.triples))))

    @property
    def relations(self) -> frozenset[Edge]:
        """Triples that connect two entities."""
        return frozenset(_edge_key(edge) for edge in self.triples if not is_attribute(edge[1]))

    @property
    def attributes(self) -> dict[tuple[str, str], frozenset[str]]:
        """Values by (entity, attribute)."""
        values: dict[tuple[str, str], frozenset[str]] = {}
        for edge in self.triples:
            if is_attribute(edge[1]):
                head, name, value = _edge_key(edge)
                values[head, name] = values.get((head, name), frozenset()) | {value}
        return values

    def lines(self) -> tuple[str, ...]:
        """Returns the graph as `read_triples` reads it back, one triple each."""
        return (*map(" | ".join, self.triples), *self.unconnected)


class Change(NamedTuple):
    """Differences of two graphs (Fig. 4): entities and relations `added` and `pruned`, attributes `updated`."""

    added: int
    pruned: int
    updated: int


def blueprint(triples: Iterable[Edge], unconnected: Iterable[str] = ()) -> Blueprint:
    """Makes a graph of triples and entities, each once, as spelt first. Triples with an empty part are left out."""
    edges: dict[Edge, Edge] = {}
    for head, relation, tail in triples:
        edge = _plain(head), _plain(relation), _plain(tail)
        if all(edge):
            # The first spelling stays; the key ignores case, spaces and a final full stop.
            edges.setdefault(_edge_key(edge), edge)
    connected = Blueprint(tuple(edges.values()))
    names: dict[str, str] = {}
    for name in map(_plain, unconnected):
        if name and _key(name) not in connected.entities:
            names.setdefault(_key(name), name)
    return Blueprint(connected.triples, tuple(names.values()))


def read_triples(lines: Iterable[str]) -> Blueprint:
    """Reads a graph. A line is `head | relation | tail` or an entity alone; other lines are left out."""
    triples: list[Edge] = []
    unconnected: list[str] = []
    for line in lines:
        match _BRACKETED.sub(r"\1", line.strip()).split("|"):
            case [head, relation, tail]:
                triples.append((head, relation, tail))
            case [name]:
                unconnected.append(name)
    return blueprint(triples, unconnected)


def is_attribute(relation: str) -> bool:
    """True for a relation that gives its head an attribute instead of connecting two entities."""
    return _ATTRIBUTE.fullmatch(_key(relation)) is not None


def change(before: Blueprint, after: Blueprint) -> Change:
    """Counts the differences from one graph to the next."""
    old = before.entities | before.relations
    new = after.entities | after.relations
    # By (entity, attribute): attributes with other values, or that one of the graphs lacks.
    updated = before.attributes.items() ^ after.attributes.items()
    return Change(added=len(new - old), pruned=len(old - new), updated=len({name for name, _ in updated}))


def distance(first: Blueprint, second: Blueprint) -> int:
    """||G_{i+1} - G_i|| of Eq. 6: entities and relations that only one of the two has, and attributes that differ.

    Eq. 7 as printed counts what both have and what the older alone has, which is the size of the older graph whatever
    the newer one is. This is a metric: 0 for the same graph only, symmetric, and no detour is shorter.
    """
    return sum(change(first, second))


def limited(graph: Blueprint, size: int) -> Blueprint:
    """Cuts a graph to its first `size` entities, with attributes and relations (Size constraint, section 4.1)."""
    entities: set[str] = set()

    def has_room(names: Iterable[str]) -> bool:
        # All new entities of a triple or none, as half a triple is none.
        new = entities.union(map(_key, names))
        if len(new) > size:
            return False
        entities.update(new)
        return True

    # The value of an attribute is no entity and takes no room.
    triples = [edge for edge in graph.triples if has_room(_ends(edge))]
    return blueprint(triples, [name for name in graph.unconnected if has_room([name])])


def _ends(edge: Edge) -> tuple[str, ...]:
    """Returns the entities of a triple."""
    head, relation, tail = edge
    return (head,) if is_attribute(relation) else (head, tail)


def _plain(name: str) -> str:
    # The bar separates parts when the graph is written out and read back.
    return " ".join(name.replace("|", "/").split()).strip(";, ")


def _key(name: str) -> str:
    return wording(name).rstrip(".")


def _edge_key(edge: Edge) -> Edge:
    head, relation, tail = map(_key, edge)
    return head, relation, tail
