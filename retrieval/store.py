"""Searches a corpus on disk by words, by vectors, or by both, in a question's pool or everywhere."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import islice
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from actors.messages import TABLE_OF_PAGE, Hit, Kind, Search, SearchMode, Source
from retrieval.built_folder import all_rows, reading
from retrieval.embed import VECTOR, Encoder, Encoders, Vectors, well_formed, words_of
from retrieval.index import BATCH_ROWS, COLUMNS, Corpus, Digest, Waiting, open_index, source_of
from retrieval.table_search import Row, TableSearch, fused, quoted

if TYPE_CHECKING:
    from lancedb.table import Table

MOST_NAMED = 2_000  # documents or sources in one query
FUSED_ROWS = 50  # rows of each ranking in a fusion, for any k: the best 3 are the first 3 of the best 10
_WORD = re.compile(r"\w")


@dataclass(frozen=True, slots=True)
class SearchSpace:
    """The searched part of a corpus.

    pool: documents (`Source.doc`); None is the whole corpus. A pool is ranked exactly.
    withheld: ids of sources or documents that must not be found.
    """

    pool: Collection[str] | None = None
    withheld: Collection[str] = ()

    def where(self, *, triples: bool = False) -> list[str]:
        """Makes conditions in SQL on sources, or on triples, of which a data set's have no source and no document."""
        conditions: list[str] = []
        if self.pool is not None:
            docs = [*self.pool, ""] if triples else self.pool
            conditions.append(f"doc IN ({quoted(docs)})")
        if self.withheld:
            withheld = quoted(self.withheld)
            source = "source" if triples else "id"
            conditions.append(f"{source} NOT IN ({withheld}) AND doc NOT IN ({withheld})")
        return conditions


EVERYTHING = SearchSpace()


class Store:
    """The sources of one corpus, encoded. Any number of threads may search it at once."""

    def __init__(self, table: Table, folder: Path, encoders: Encoders) -> None:
        """Searches a table of `open_index` in its folder, next to which lies a graph made from it."""
        self._table = table
        self.folder = folder
        self._encoders = encoders

    @classmethod
    def open(
        cls,
        folder: Path,
        corpus: Corpus,
        encoder: Encoder,
        picture_encoder: Encoder | None = None,
        digest_of: Digest | None = None,
        waiting: Waiting = nullcontext,
    ) -> Store:
        """Opens the store of `corpus` under `folder`, after building its index where it is missing.

        picture_encoder: of pictures and of queries for them (None: `encoder`). digest_of, waiting: as `open_index`, and
        it raises StoreError as that.
        """
        encoders = Encoders(encoder, picture_encoder or encoder)
        return cls(*open_index(folder, corpus, encoders, digest_of, waiting), encoders)

    def __len__(self) -> int:
        return int(self._table.count_rows())

    def search(self, search: Search, space: SearchSpace = EVERYTHING) -> list[Hit]:
        """Returns the k best sources, best first; equal scores by id.

        A query without a letter or digit finds nothing. Where texts and pictures have separate encoders, their rankings
        are fused by ranks. Raises ValueError for k below 1 or an unknown mode, StoreError for a damaged index.
        """
        query = search.query
        k = search.k
        if search.mode not in get_args(SearchMode):
            raise ValueError(f"unknown search mode {search.mode!r}: choose one of {', '.join(get_args(SearchMode))}")
        if k < 1:
            raise ValueError(f"k must be at least 1, not {k}")

        text = well_formed(query) if isinstance(query, str) else words_of(query)
        has_words = bool(_WORD.search(text))
        limits = (space.pool, search.docs, search.pages)
        is_nowhere = any(limit is not None and not limit for limit in (*limits, search.kinds))
        # A picture without a caption has no words, but a vector.
        if is_nowhere or not len(self) or (isinstance(query, str) and not has_words):
            return []

        columns = dict(self._encoders.searched(search.kinds))
        if self._encoders.apart and not has_words:  # a picture without words finds no texts
            columns.pop(VECTOR, None)
        if not columns:
            return []

        rows = TableSearch(
            self._table,
            columns=COLUMNS,
            text=text,
            queries={column: cache(partial(self._encoded, column, query)) for column in columns},
            where=[*space.where(), *_limits(search)],
            radius=search.radius,
            # Few rows pass these filters, and an index might miss them.
            exact=any(limit is not None for limit in limits),
        )
        with reading(self.folder):
            if search.mode == "text":
                ranked = rows.by_text(k)
            elif search.mode == "vector":
                ranked = rows.by_vector(k)
            else:
                fused_rows = max(FUSED_ROWS, k)
                ranked = fused([rows.by_text(fused_rows), rows.by_vector(fused_rows)])[:k]

        return [Hit(source_of(row), score) for row, score in ranked]

    def _encoded(self, column: str, query: str | Source) -> Vectors:
        """Encodes a query for a column of vectors."""
        encoder = self._encoders.columns[column]
        if isinstance(query, str):
            return encoder.encode_query(well_formed(query))
        if self._encoders.apart and column == VECTOR:
            # A separate encoder of texts gets only the words of a picture.
            query = replace(query, image=None)
        vectors: Vectors = encoder.encode_sources([query])[0]
        return vectors

    def pictures(self, docs: Collection[str] | None) -> list[Source]:
        """Returns the pictures of documents (None: all), by id. Raises StoreError for a damaged index."""
        condition = f"kind = '{Kind.IMAGE.value}'"
        if docs is None:
            rows: Iterable[Row] = all_rows(self.folder, self._table, COLUMNS, [condition])
        else:
            rows = self._named("doc", docs, COLUMNS, condition)
        return sorted(map(source_of, rows), key=attrgetter("id"))

    def documents(self, docs: Collection[str]) -> list[Source]:
        """Returns all sources of documents, in their order, then by id. Raises StoreError for a damaged index."""
        place = {doc: number for number, doc in enumerate(docs)}
        sources = map(source_of, self._named("doc", docs, COLUMNS))
        return sorted(sources, key=lambda source: (place[source.doc], source.id))

    def sources(self, ids: Collection[str], space: SearchSpace) -> list[Source]:
        """Returns the sources with these ids in the space, ordered by id. Raises StoreError for a damaged index."""
        if space.pool is not None and not space.pool:
            return []
        return sorted(map(source_of, self._named("id", ids, COLUMNS, *space.where())), key=attrgetter("id"))

    def titles(self, ids: Collection[str]) -> dict[str, str]:
        """Finds the titles of the sources with these ids. Raises StoreError for a damaged index."""
        rows = self._named("id", ids, ("id", "title"))
        return {row["id"]: row["title"] for row in sorted(rows, key=itemgetter("id"))}

    def _named(self, column: str, names: Collection[str], columns: Sequence[str], *conditions: str) -> Iterator[Row]:
        """Yields the rows with one of the names in a column. Some at a time: a long list takes LanceDB a lot of memory.

        Raises StoreError for a damaged index.
        """
        remaining = iter(sorted(set(names)))
        while part := list(islice(remaining, MOST_NAMED)):
            yield from all_rows(self.folder, self._table, columns, [f"{column} IN ({quoted(part)})", *conditions])

    def everything(self) -> Iterator[Source]:
        """Iterates over the indexed corpus, reading a batch at a time."""
        with reading(self.folder):
            for batch in self._table.search().select(list(COLUMNS)).limit(None).to_batches(BATCH_ROWS):
                yield from map(source_of, batch.to_pylist())

    def of(self, corpus: Corpus) -> Store:
        """Opens the store of another corpus with the same encoders, next to this one. Raises StoreError like `open`."""
        return Store(*open_index(self.folder.parent, corpus, self._encoders), self._encoders)

    @property
    def encoder(self) -> Encoder:
        """The encoder of texts, and of the names of a graph's entities."""
        return self._encoders.texts


def _limits(search: Search) -> list[str]:
    """Makes conditions in SQL for the kinds, documents and pages that a search is limited to."""
    conditions: list[str] = []
    if search.kinds is not None:
        conditions.append(f"kind IN ({quoted(kind.value for kind in search.kinds)})")
    if search.docs is not None:
        conditions.append(f"doc IN ({quoted(search.docs)})")
    if search.pages is not None:  # as in `actors.messages.page_of`
        page = f"lower(trim(split_part(title, '{TABLE_OF_PAGE}', 1)))"
        conditions.append(f"{page} IN ({quoted(search.pages)})")
    return conditions
