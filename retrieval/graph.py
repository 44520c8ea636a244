"""A multi-modal knowledge graph on disk: triples between entities, some of which have a description and pictures.

As LightRAG and HM-RAG (section 3.3.2), it searches on two levels: edges of entities near keywords, edges near themes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import nullcontext
from functools import partial
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from actors.messages import Kind, Search, Source, Triple
from retrieval.built_folder import Marks, all_rows, built, opened, reading
from retrieval.embed import VECTOR, well_formed
from retrieval.graph_tables import (
    BY_RULES,
    ENTITIES,
    LAYOUT,
    TRIPLES,
    Counted,
    Extraction,
    build,
    entity_key,
    uncounted,
)
from retrieval.index import Waiting
from retrieval.store import EVERYTHING, SearchSpace, Store
from retrieval.table_search import Ranked, Row, TableSearch, fused, quoted

if TYPE_CHECKING:
    from lancedb.table import Table

Level = Literal["entity", "theme"]

COLUMNS = ["id", "head", "relation", "tail", "head_key", "tail_key", "source", "doc"]
OF_TRIPLE = itemgetter("id", "head", "relation", "tail", "source")
CONSIDERED = 100  # rows of each ranking in a fusion, for any k


class KnowledgeGraph:
    """The knowledge graph of a store's corpus. Any number of threads may search it at once.

    A search finds triples of the documents in its space, and triples without a source, as in a data set's graph.
    """

    def __init__(self, folder: Path, store: Store) -> None:
        self._folder = folder
        self._store = store
        self._triples, self._entities = opened(folder, {TRIPLES: "triples", ENTITIES: "entities"})

    @classmethod
    def open(
        cls,
        store: Store,
        own_triples: Callable[[], Iterable[Triple]] | None = None,
        extraction: Extraction = BY_RULES,
        counted: Counted = uncounted,
        waiting: Waiting = nullcontext,
    ) -> KnowledgeGraph:
        """Opens the graph next to the store's index. Builds it first, from a data set's own or the extracted triples.

        counted, waiting: show the steps of building it, which takes minutes for a large corpus.
        Raises StoreError as `open_index`, and ValueError where two of the data set's triples have the same id.
        """
        layout = LAYOUT
        triples: Iterable[Triple] = ()
        if own_triples:
            triples = own_triples()
        else:
            layout = f"{LAYOUT}\x1f{extraction.key}"
        digest = hashlib.blake2b(f"{store.folder.name}\x1f{layout}".encode(), digest_size=12)

        for triple in triples:
            fields = triple.id, triple.head, triple.relation, triple.tail, triple.source
            digest.update(repr(fields).encode(errors="replace"))
        target = store.folder.with_name(f"graph-{digest.hexdigest()}")

        def fill(empty: Path) -> Marks:
            return build(empty, store, own_triples, extraction=extraction, counted=counted, waiting=waiting)

        built(target, fill)
        return cls(target, store)

    def __len__(self) -> int:
        """The number of triples."""
        return int(self._triples.count_rows())

    def search(
        self, words: Sequence[str], k: int, *, level: Level = "entity", space: SearchSpace = EVERYTHING
    ) -> list[Triple]:
        """Returns the k best edges, best first; equal ones by id.

        `entity`: edges of the k entities whose names are nearest to any of the words (one hop, Eq. 11), ranked by a
        fusion of the entity's rank and the edge's nearness to the words. `theme`: edges nearest to the words.
        """
        words = [well_formed(word) for word in words if any(map(str.isalnum, word))]
        where = space.where(triples=True)
        if not words or not len(self) or k < 1:
            return []

        with reading(self._folder):
            if level == "theme":
                rankings: list[list[Ranked]] = []
                for word in words:
                    rankings += self._rankings(self._triples, COLUMNS, word, where)
            else:
                rankings = self._entity_edges(words, where, k)

        return [_triple(row) for row, _ in fused(rankings)[:k]]

    def neighbours(self, entity: str, space: SearchSpace = EVERYTHING) -> list[Triple]:
        """Returns all edges of an entity by id. Case and accents of names are ignored."""
        where = [_touching([entity_key(entity)]), *space.where(triples=True)]
        rows = all_rows(self._folder, self._triples, COLUMNS, where)
        return sorted(map(_triple, rows), key=attrgetter("id"))

    def entity(self, name: str, space: SearchSpace = EVERYTHING, near: str = "") -> list[Source]:
        """Returns texts and rows titled with an entity's name, then its pictures; those nearest to `near` first."""
        ids: list[str] = []
        for row in all_rows(self._folder, self._entities, ["sources"], [f"id = {quoted([entity_key(name)])}"]):
            ids += row["sources"]
        sources = self._store.sources(ids, space)
        ranks: dict[str, int] = {}
        if near and len(sources) > 1:
            within = SearchSpace({source.doc for source in sources}, space.withheld)
            hits = self._store.search(Search(near, CONSIDERED, mode="vector"), within)
            ranks = {hit.source.id: rank for rank, hit in enumerate(hits)}

        def order(source: Source) -> tuple[int, bool, str]:
            return ranks.get(source.id, len(ranks)), source.kind is Kind.IMAGE, source.id

        return sorted(sources, key=order)

    def _entity_edges(self, words: Sequence[str], where: Sequence[str], k: int) -> list[list[Ranked]]:
        """Ranks the edges of the k entities nearest to the words: by entity, by vectors, by words."""
        keys = self._nearest(words, where, k)
        if not keys:
            return []
        ranks = {key: rank for rank, key in enumerate(keys)}

        def entity_rank(ranked: Ranked) -> int:
            row, _ = ranked
            head_rank = ranks.get(row["head_key"], len(keys))
            tail_rank = ranks.get(row["tail_key"], len(keys))
            return min(head_rank, tail_rank)

        conditions = [_touching(keys), *where]
        by_text, by_vector = self._rankings(self._triples, COLUMNS, " ".join(words), conditions)
        return [sorted(by_vector, key=entity_rank), by_vector, by_text]

    def _nearest(self, words: Sequence[str], where: Sequence[str], k: int) -> list[str]:
        """Keys of the k entities nearest to any of the words: with that name, by words, by vectors."""
        within: list[str] = []
        if where:  # an entity is visible if one of its edges is
            visible_keys = set[str]()
            for row in all_rows(self._folder, self._triples, ["head_key", "tail_key"], where):
                visible_keys |= {row["head_key"], row["tail_key"]}
            if not visible_keys:
                return []
            within = [f"id IN ({quoted(visible_keys)})"]

        rankings: list[list[Ranked]] = []
        for word in words:
            same_name = [f"id = {quoted([entity_key(word)])}", *within]
            named_rows = all_rows(self._folder, self._entities, ["id"], same_name)
            # The entity with exactly that name leads a separate ranking.
            rankings.append([(row, 1.0) for row in named_rows])
            rankings += self._rankings(self._entities, ["id"], word, within)

        return [row["id"] for row, _ in fused(rankings)[:k]]

    def _rankings(
        self, table: Table, columns: Sequence[str], words: str, where: Sequence[str]
    ) -> tuple[list[Ranked], list[Ranked]]:
        """Ranks the rows of a table by words and by vectors."""
        search = TableSearch(
            table,
            columns=columns,
            text=words,
            queries={VECTOR: partial(self._store.encoder.encode_query, words)},
            where=where,
            radius=None,
            exact=len(where) > 0,
        )
        return search.by_text(CONSIDERED), search.by_vector(CONSIDERED)


def _triple(row: Row) -> Triple:
    return Triple(*OF_TRIPLE(row))


def _touching(keys: Collection[str]) -> str:
    return f"(head_key IN ({quoted(keys)}) OR tail_key IN ({quoted(keys)}))"
