"""Searches a corpus on disk by words, by vectors, or by both, within a question's own pool or over everything."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from lancedb.table import Table

from actors.messages import Kind, Source
from retrieval.embed import Encoder, Vectors, well_formed, words_of
from retrieval.index import Corpus, Index, damaged, open_index, source_of

Mode = Literal["text", "vector", "hybrid"]

COLUMNS = ["id", "doc", "kind", "title", "body", "image"]
FUSED_ROWS = 50  # each ranking's share in a fusion, whatever k is, so that the best 3 are the first 3 of the best 10
RANK_OFFSET = 60
DIGITS = 6  # of a score; vector instructions differ in the last bits from one machine to another
_WORD = re.compile(r"\w")

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Found:
    """A source and its score: BM25 for text, cosine similarity for vectors, fused reciprocal ranks for both."""

    source: Source
    score: float


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
    ) -> list[Found]:
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
        ask = _Ask(self._index.table, text, vector, _where(kinds, pool, withheld), radius, exact=pool is not None)
        try:
            if mode == "hybrid":
                return fused([ask.by_text(max(FUSED_ROWS, k)), ask.by_vector(max(FUSED_ROWS, k))])[:k]
            return ask.by_text(k) if mode == "text" else ask.by_vector(k)
        except (OSError, RuntimeError) as error:
            raise damaged(self._index.folder, error) from error

    def _encode(self, query: str | Source, text: str) -> Vectors:
        if isinstance(query, str):
            return self._encoder.encode_query(text)
        encoded: Vectors = self._encoder.encode_sources([query])[0]
        return encoded


def fused(rankings: Sequence[Sequence[Found]]) -> list[Found]:
    """Reciprocal rank fusion: score(d) = sum over rankings of 1 / (60 + rank of d) (Cormack et al. 2009)."""
    scores: dict[Source, float] = {}
    for ranking in rankings:
        for rank, found in enumerate(ranking, start=1):
            scores[found.source] = scores.get(found.source, 0.0) + 1 / (RANK_OFFSET + rank)
    return _in_order([Found(source, score) for source, score in scores.items()])


def _in_order(found: list[Found]) -> list[Found]:
    return sorted(found, key=lambda f: (-f.score, f.source.id))


@dataclass(frozen=True, slots=True)
class _Ask:
    """One question put to the table; both rankings share its filter."""

    table: Table
    text: str
    vector: Vectors
    where: str
    radius: float | None
    exact: bool

    def by_text(self, k: int) -> list[Found]:
        columns = [*COLUMNS, "_score"] + (["vector"] if self.radius is not None else [])

        def ask(limit: int) -> list[Row]:
            search = self.table.search(self.text, query_type="fts", fts_columns="body").limit(limit).select(columns)
            return self._rows(search)

        return self._best(ask, k, lambda row: row["_score"])

    def by_vector(self, k: int) -> list[Found]:
        def ask(limit: int) -> list[Row]:
            search: Any = self.table.search(self.vector, vector_column_name="vector")
            search = search.distance_type("cosine").limit(limit).select([*COLUMNS, "_distance"])
            # An index looks into a part of its cells only and might miss a pool's rows; a pool is small enough to scan.
            return self._rows(search.bypass_vector_index() if self.exact else search)

        return self._best(ask, k, lambda row: 1 - row["_distance"])

    def _rows(self, search: Any) -> list[Row]:
        rows: list[Row] = (search.where(self.where, prefilter=True) if self.where else search).to_list()
        return rows

    def _best(self, ask: Callable[[int], list[Row]], k: int, score: Callable[[Row], float]) -> list[Found]:
        """The k best within the radius. LanceDB cuts ties off anywhere, so ask on until the k-th score is passed."""
        limit = k + 8
        while True:
            rows = ask(limit)
            found = _in_order([Found(source_of(row), round(score(row), DIGITS)) for row in rows if self._near(row)])
            last = round(score(rows[-1]), DIGITS) if rows else 0.0
            if len(rows) < limit or (len(found) >= k and last < found[k - 1].score):
                return found[:k]
            limit *= 4

    def _near(self, row: Row) -> bool:
        if self.radius is None:
            return True
        distance = row["_distance"] if "_distance" in row else 1 - float(np.dot(row["vector"], self.vector))
        return bool(distance <= self.radius)


def _where(kinds: Collection[Kind] | None, pool: Collection[str] | None, withheld: Collection[str]) -> str:
    parts = []
    if pool is not None:
        parts.append(f"doc IN ({_quoted(pool)})")
    if kinds is not None:
        parts.append(f"kind IN ({_quoted(kind.value for kind in kinds)})" if kinds else "false")
    if withheld:
        parts.append(f"id NOT IN ({_quoted(withheld)}) AND doc NOT IN ({_quoted(withheld)})")
    return " AND ".join(parts)


def _quoted(names: Iterable[str]) -> str:
    return ", ".join("'" + well_formed(name).replace("'", "''") + "'" for name in sorted(set(names)))
