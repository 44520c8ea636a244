"""Ranks the rows of a LanceDB table by words and by a vector; ties are ordered by id."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from lancedb.table import Table

from retrieval.embed import Vectors, max_sim, well_formed

# The constant of reciprocal rank fusion in the paper (see `fused`).
RANK_OFFSET = 60
DIGITS = 6  # of a score: the last bits of vector instructions differ between machines

Row = dict[str, Any]
Ranked = tuple[Row, float]


@dataclass(frozen=True, slots=True)
class TableSearch:
    """A search of a table with the columns `id`, `body` and `vector`, by words or by a vector under the same filter.

    Both give the k best (row, score), best first, equal scores by id.

    where: the filter in SQL; empty for none.
    radius: largest cosine distance, of both.
    exact: scans all rows that pass the filter, which should be few.
    """

    table: Table
    columns: Sequence[str]
    text: str
    vector: Vectors
    where: str
    radius: float | None
    exact: bool

    def by_text(self, k: int) -> list[Ranked]:
        columns = [*self.columns, "_score"] + (["vector"] if self.radius is not None else [])

        def fetch(limit: int) -> list[Row]:
            search = self.table.search(self.text, query_type="fts", fts_columns="body").limit(limit).select(columns)
            return self._rows(search)

        return self._best(fetch, k, lambda row: row["_score"])

    def by_vector(self, k: int) -> list[Ranked]:
        def fetch(limit: int) -> list[Row]:
            search: Any = self.table.search(self.vector, vector_column_name="vector")
            search = search.distance_type("cosine").limit(limit).select([*self.columns, "_distance"])
            # An index looks into a part of its cells only and might miss a pool's rows; a pool is small enough to scan.
            return self._rows(search.bypass_vector_index() if self.exact else search)

        return self._best(fetch, k, lambda row: 1 - self._distance(row))

    def _rows(self, search: Any) -> list[Row]:
        rows: list[Row] = (search.where(self.where, prefilter=True) if self.where else search).to_list()
        return rows

    def _best(self, fetch: Callable[[int], list[Row]], k: int, score: Callable[[Row], float]) -> list[Ranked]:
        """The k best within the radius."""
        # A few more than k, which usually shows where the ties of the k-th end.
        limit = k + 8
        while True:
            rows = fetch(limit)
            ranked = in_order([(row, round(score(row), DIGITS)) for row in rows if self._near(row)])
            last = round(score(rows[-1]), DIGITS) if rows else 0.0
            # LanceDB cuts ties off anywhere: all rows of the k-th score are known once a lower one has come.
            if len(rows) < limit or (len(ranked) >= k and last < ranked[k - 1][1]):
                return ranked[:k]
            limit *= 4

    def _near(self, row: Row) -> bool:
        if self.radius is None:
            return True
        return self._distance(row) <= self.radius

    def _distance(self, row: Row) -> float:
        """1 - cosine similarity; for several vectors 1 - `max_sim`, where LanceDB sums over those of the query."""
        if "_distance" in row:
            return float(row["_distance"]) / (len(self.vector) if self.vector.ndim > 1 else 1)
        return 1 - max_sim(self.vector, np.asarray(row["vector"], dtype=np.float32))


def in_order(ranked: Iterable[Ranked]) -> list[Ranked]:
    return sorted(ranked, key=lambda pair: (-pair[1], pair[0]["id"]))


def fused(rankings: Sequence[Sequence[Ranked]]) -> list[Ranked]:
    """Reciprocal rank fusion: score(d) = sum over rankings of 1 / (60 + rank of d) (Cormack et al. 2009)."""
    scores: dict[str, float] = {}
    rows: dict[str, Row] = {}
    for ranking in rankings:
        for rank, (row, _) in enumerate(ranking, start=1):
            rows.setdefault(row["id"], row)
            scores[row["id"]] = scores.get(row["id"], 0.0) + 1 / (RANK_OFFSET + rank)
    return in_order((rows[id], score) for id, score in scores.items())


def quoted(names: Iterable[str]) -> str:
    return ", ".join("'" + well_formed(name).replace("'", "''") + "'" for name in sorted(set(names)))
