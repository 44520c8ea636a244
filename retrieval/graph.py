"""A multi-modal knowledge graph on disk: triples between entities, some of which have a description and pictures.

As LightRAG and HM-RAG (section 3.3.2), it searches on two levels: edges of entities near keywords, edges near themes.
"""

import hashlib
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import Literal

from actors.messages import Kind, Search, Source, Triple
from retrieval.built_folder import all_rows, built, opened, reading
from retrieval.embed import VECTOR, well_formed
from retrieval.graph_tables import BY_RULES, ENTITIES, LAYOUT, TRIPLES, Extraction, build, entity_key
from retrieval.store import EVERYTHING, SearchSpace, Store
from retrieval.table_search import Ranked, TableSearch, fused, quoted

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
        cls, store: Store, given: Callable[[], Iterable[Triple]] | None = None, extraction: Extraction = BY_RULES
    ) -> "KnowledgeGraph":
        """Opens the graph next to the store's index. Builds it first, from the `given` or the extracted triples.
        Raises StoreError as `open_index`, and ValueError where two of the given triples have the same id."""
        made = LAYOUT if given else f"{LAYOUT}\x1f{extraction.key}"
        digest = hashlib.blake2b(f"{store.folder.name}\x1f{made}".encode(), digest_size=12)
        for triple in given() if given else ():
            fields = triple.id, triple.head, triple.relation, triple.tail, triple.source
            digest.update(repr(fields).encode(errors="replace"))
        target = store.folder.with_name(f"graph-{digest.hexdigest()}")
        built(target, lambda empty: build(empty, store, given, extraction))
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
        searchable = [well_formed(word) for word in words if any(map(str.isalnum, word))]
        where = space.where(triples=True)
        if not searchable or not len(self) or k < 1:
            return []
        ranked: list[Ranked] = []
        with reading(self._folder):
            if level == "theme":
                ranked = fused([ranking for word in searchable for ranking in self._edges(word, where)])
            elif keys := self._nearest(searchable, where, k):
                place = {key: rank for rank, key in enumerate(keys)}
                by_text, by_vector = self._edges(" ".join(searchable), [_touching(keys), *where])
                by_entity = sorted(
                    by_vector,
                    key=lambda pair: min(place.get(pair[0][end], len(keys)) for end in ("head_key", "tail_key")),
                )
                ranked = fused([by_entity, by_vector, by_text])
        return [Triple(*OF_TRIPLE(row)) for row, _ in ranked[:k]]

    def neighbours(self, entity: str, space: SearchSpace = EVERYTHING) -> list[Triple]:
        """Returns all edges of an entity by id. Case and accents of names are ignored."""
        where = [_touching([entity_key(entity)]), *space.where(triples=True)]
        rows = all_rows(self._folder, self._triples, COLUMNS, where)
        return sorted((Triple(*OF_TRIPLE(row)) for row in rows), key=attrgetter("id"))

    def entity(self, name: str, space: SearchSpace = EVERYTHING, near: str = "") -> list[Source]:
        """Returns texts and rows titled with an entity's name, then its pictures; those nearest to `near` first."""
        rows = all_rows(self._folder, self._entities, ["sources"], [f"id = {quoted([entity_key(name)])}"])
        ids = [id for row in rows for id in row["sources"]]
        sources = self._store.sources(ids, space)
        place: dict[str, int] = {}
        if near and len(sources) > 1:
            within = SearchSpace({source.doc for source in sources}, space.withheld)
            hits = self._store.search(Search(near, CONSIDERED, mode="vector"), within)
            place = {hit.source.id: rank for rank, hit in enumerate(hits)}

        def order(source: Source) -> tuple[int, bool, str]:
            return place.get(source.id, len(place)), source.kind is Kind.IMAGE, source.id

        return sorted(sources, key=order)

    def _nearest(self, words: Sequence[str], where: Sequence[str], k: int) -> list[str]:
        """Keys of the k entities nearest to any of the words: with that name, by words, by vectors."""
        within = []
        if where:  # an entity is visible if one of its edges is
            rows = all_rows(self._folder, self._triples, ["head_key", "tail_key"], where)
            visible = {key for row in rows for key in row.values()}
            if not visible:
                return []
            within = [f"id IN ({quoted(visible)})"]
        rankings: list[list[Ranked]] = []
        for word in words:
            asked = {VECTOR: partial(self._store.encoder.encode_query, word)}
            near = TableSearch(self._entities, ["id"], word, asked, within, None, exact=bool(within))
            named = all_rows(self._folder, self._entities, ["id"], [f"id = {quoted([entity_key(word)])}", *within])
            # The entity with exactly that name leads a separate ranking.
            rankings += [[(row, 1.0) for row in named], near.by_text(CONSIDERED), near.by_vector(CONSIDERED)]
        return [row["id"] for row, _ in fused(rankings)[:k]]

    def _edges(self, words: str, where: Sequence[str]) -> tuple[list[Ranked], list[Ranked]]:
        asked = {VECTOR: partial(self._store.encoder.encode_query, words)}
        near = TableSearch(self._triples, COLUMNS, words, asked, where, None, exact=bool(where))
        return near.by_text(CONSIDERED), near.by_vector(CONSIDERED)


def _touching(keys: Collection[str]) -> str:
    return f"(head_key IN ({quoted(keys)}) OR tail_key IN ({quoted(keys)}))"
