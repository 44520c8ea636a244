"""Searches a corpus on disk by words, by vectors, or by both, within a question's own pool or over everything."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from operator import attrgetter
from pathlib import Path
from typing import Literal, get_args

from actors.messages import Hit, Kind, Source
from retrieval.embed import Encoder, Vectors, well_formed, words_of
from retrieval.folder import damaged
from retrieval.index import BATCH_ROWS, Corpus, Index, open_index, source_of
from retrieval.ranking import Ask, fused, quoted

Mode = Literal["text", "vector", "hybrid"]

COLUMNS = ["id", "doc", "kind", "title", "body", "image"]
FUSED_ROWS = 50  # each ranking's share in a fusion, whatever k is, so that the best 3 are the first 3 of the best 10
_WORD = re.compile(r"\w")


class Store:
    """The sources of one corpus as one encoder sees them. Any number of threads may search it at once."""

    def __init__(self, index: Index, encoder: Encoder) -> None:
        self._index = index
        self._encoder = encoder

    @classmethod
    def open(cls, folder: Path, corpus: Corpus, encoder: Encoder, corpus_key: str | None = None) -> Store:
        """Find the index of `corpus` under `folder`, or build it.

        `corpus_key` spares the pass over the corpus that its hash takes (about 3 us per source and what reading it
        costs); it must change whenever the corpus does.

        Raises:
            StoreError: the folder cannot be written, the disk is full, or a finished index is damaged.
        """
        return cls(open_index(folder, corpus, encoder, corpus_key), encoder)

    def __len__(self) -> int:
        return int(self._index.table.count_rows())

    def search(
        self,
        query: str | Source,
        k: int,
        *,
        mode: Mode = "hybrid",
        kinds: Collection[Kind] | None = None,
        pool: Collection[str] | None = None,
        radius: float | None = None,
        withheld: Collection[str] = (),
    ) -> list[Hit]:
        """The k best sources, best first; equal scores are ordered by id.

        A query without a letter or digit finds nothing. A `Source` as query is searched by its words and, where the
        encoder reads pictures, by its picture.

        Args:
            pool: the documents (`Source.doc`) to search in; None is the whole corpus. A pool is ranked exactly.
            radius: largest cosine distance (0 to 2) from the query, in every mode.
            withheld: ids of sources or documents that must not be found.

        Raises:
            ValueError: k below 1, or an unknown mode.
            StoreError: the index on disk is damaged.
        """
        if mode not in get_args(Mode):
            raise ValueError(f"unknown search mode {mode!r}: choose one of {', '.join(get_args(Mode))}")
        if k < 1:
            raise ValueError(f"k must be at least 1, not {k}")
        text = well_formed(query) if isinstance(query, str) else words_of(query)
        askable = bool(_WORD.search(text)) or not isinstance(query, str)
        if not askable or not len(self) or (pool is not None and not pool):
            return []
        vector = self._encode(query, text)
        where = _where(kinds, pool, withheld)
        ask = Ask(self._index.table, COLUMNS, text, vector, where, radius, exact=pool is not None)
        try:
            if mode == "hybrid":
                ranked = fused([ask.by_text(max(FUSED_ROWS, k)), ask.by_vector(max(FUSED_ROWS, k))])[:k]
            else:
                ranked = ask.by_text(k) if mode == "text" else ask.by_vector(k)
        except (OSError, RuntimeError) as error:
            raise damaged(self._index.folder, error) from error
        return [Hit(source_of(row), score) for row, score in ranked]

    def documents(self, docs: Collection[str]) -> list[Source]:
        """Every source of these documents, in their order, each document's by id.

        Raises:
            StoreError: the index on disk is damaged.
        """
        if not docs:
            return []
        place = {doc: number for number, doc in enumerate(docs)}
        return sorted(self._all(f"doc IN ({quoted(docs)})"), key=lambda source: (place[source.doc], source.id))

    def sources(self, ids: Collection[str], pool: Collection[str] | None, withheld: Collection[str]) -> list[Source]:
        """Those of these sources that may be found in the pool, by id.

        Raises:
            StoreError: the index on disk is damaged.
        """
        if not ids or (pool is not None and not pool):
            return []
        where = " AND ".join(filter(None, (f"id IN ({quoted(ids)})", _where(None, pool, withheld))))
        return self._all(where)

    def everything(self) -> Iterator[Source]:
        """The corpus as it was indexed, a batch at a time."""
        for batch in self._index.table.search().select(COLUMNS).limit(None).to_batches(BATCH_ROWS):
            yield from map(source_of, batch.to_pylist())

    @property
    def folder(self) -> Path:
        """Where the index lies; what is made from it may lie beside it."""
        return self._index.folder

    @property
    def encoder(self) -> Encoder:
        return self._encoder

    def _all(self, where: str) -> list[Source]:
        try:
            rows = self._index.table.search().where(where).select(COLUMNS).limit(None).to_list()
        except (OSError, RuntimeError) as error:
            raise damaged(self._index.folder, error) from error
        return sorted(map(source_of, rows), key=attrgetter("id"))

    def _encode(self, query: str | Source, text: str) -> Vectors:
        if isinstance(query, str):
            return self._encoder.encode_query(text)
        encoded: Vectors = self._encoder.encode_sources([query])[0]
        return encoded


def _where(kinds: Collection[Kind] | None, pool: Collection[str] | None, withheld: Collection[str]) -> str:
    parts = []
    if pool is not None:
        parts.append(f"doc IN ({quoted(pool)})")
    if kinds is not None:
        parts.append(f"kind IN ({quoted(kind.value for kind in kinds)})" if kinds else "false")
    if withheld:
        parts.append(f"id NOT IN ({quoted(withheld)}) AND doc NOT IN ({quoted(withheld)})")
    return " AND ".join(parts)
