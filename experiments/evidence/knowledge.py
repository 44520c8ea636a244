"""The knowledge graph of a run's corpus, opened (and built, the first time) when it is first searched."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter
from threading import Lock
from typing import Literal, Protocol, runtime_checkable

from actors.messages import Source, Triple
from experiments.datasets.item import Item
from experiments.evidence.evidence import Evidence, first
from retrieval.extract import BY_RULES, Extraction
from retrieval.graph import KnowledgeGraph
from retrieval.store import SearchSpace


@runtime_checkable
class HasTriples(Protocol):
    """A data set that brings its own knowledge graph; its entities are its sources, by their titles."""

    def triples(self) -> Iterator[Triple]: ...


def triples_given(dataset: object) -> Callable[[], Iterable[Triple]] | None:
    """A reader of the data set's own triples; None where it has none, so that they are extracted from its sources."""
    return dataset.triples if isinstance(dataset, HasTriples) else None


class Knowledge:
    """Searches the graph as `retrieval.scope` says: the statements of the question's pool, all, or both in turn."""

    def __init__(
        self, evidence: Evidence, given: Callable[[], Iterable[Triple]] | None, stated: Extraction = BY_RULES
    ) -> None:
        self._evidence = evidence
        self._given = given
        self._stated = stated
        self._graph: KnowledgeGraph | None = None
        self._lock = Lock()

    def search(self, item: Item, words: Sequence[str], k: int, level: Literal["entity", "theme"]) -> tuple[Triple, ...]:
        def search(space: SearchSpace) -> list[Triple]:
            return self._opened().search(words, k, level=level, space=space)

        return first(k, self._evidence.spaces(item), search, attrgetter("id"))

    def neighbours(self, item: Item, entity: str) -> tuple[Triple, ...]:
        return tuple(self._opened().neighbours(entity, self._widest(item)))

    def entity(self, item: Item, name: str, k: int | None = None, near: str = "") -> tuple[Source, ...]:
        """All sources of an entity, or the k nearest to some words, those of the question's pool first."""
        if k is None:
            return tuple(self._opened().entity(name, self._widest(item)))
        spaces = self._evidence.spaces(item)
        return first(k, spaces, lambda space: self._opened().entity(name, space, near), attrgetter("id"))

    def _widest(self, item: Item) -> SearchSpace:
        # All edges of an entity are asked for, so the pool need not be searched first.
        return self._evidence.spaces(item)[-1]

    def _opened(self) -> KnowledgeGraph:
        with self._lock:  # searches run in threads, and building takes seconds to minutes
            if self._graph is None:
                self._graph = KnowledgeGraph.open(self._evidence.store, self._given, self._stated)
            return self._graph
