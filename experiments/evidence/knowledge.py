"""The knowledge graph of a run's corpus, opened (and built, the first time) when a system first asks for it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from threading import Lock
from typing import Literal, Protocol, runtime_checkable

from actors.messages import Source, Triple
from experiments.datasets.item import Item
from experiments.evidence.evidence import Evidence
from retrieval.graph import Graph


@runtime_checkable
class HasTriples(Protocol):
    """A data set that brings its own knowledge graph; its entities are its sources, by their titles."""

    def triples(self) -> Iterator[Triple]: ...


def triples_given(dataset: object) -> Callable[[], Iterable[Triple]] | None:
    """How to read the data set's own triples; None where it has none, and what its sources state has to do."""
    return dataset.triples if isinstance(dataset, HasTriples) else None


class Knowledge:
    """Searches the graph as `retrieval.scope` says: in what the question's pool states, in everything, or both."""

    def __init__(self, evidence: Evidence, given: Callable[[], Iterable[Triple]] | None) -> None:
        self._evidence = evidence
        self._given = given
        self._graph: Graph | None = None
        self._lock = Lock()

    def search(self, item: Item, words: Sequence[str], k: int, level: Literal["entity", "theme"]) -> tuple[Triple, ...]:
        found: dict[str, Triple] = {}
        for pool in self._evidence.pools(item):
            if len(found) < k:
                hits = self._opened().search(words, k, level=level, pool=pool, withheld=item.withheld)
                for triple in hits:
                    found.setdefault(triple.id, triple)
        return tuple(found.values())[:k]

    def neighbours(self, item: Item, entity: str) -> tuple[Triple, ...]:
        pool = self._widest(item)
        return tuple(self._opened().neighbours(entity, pool=pool, withheld=item.withheld))

    def entity(self, item: Item, name: str) -> tuple[Source, ...]:
        return tuple(self._opened().entity(name, pool=self._widest(item), withheld=item.withheld))

    def _widest(self, item: Item) -> Collection[str] | None:
        return self._evidence.pools(item)[-1]

    def _opened(self) -> Graph:
        with self._lock:
            if self._graph is None:
                self._graph = Graph.open(self._evidence.store, self._given)
            return self._graph
