"""Ranks the rows of a LanceDB table by words and by a vector, with an order that ties cannot change."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from lancedb.table import Table

from retrieval.embed import Vectors, max_sim, well_formed

RANK_OFFSET = 60
DIGITS = 6  # of a score; vector instructions differ in the last bits from one machine to another

Row = dict[str, Any]
Ranked = tuple[Row, float]


@dataclass(frozen=True, slots=True)
class TableSearch:
    """One question put to a table with the columns `id`, `body` and `vector`; both rankings share its filter.

    Both give the k best (row, score), best first, equal scores by id. `radius` is the largest cosine distance of both;
    `exact` is for a filter that leaves few rows.
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

        def ask(limit: int) -> list[Row]:
            search = self.table.search(self.text, query_type="fts", fts_columns="body").limit(limit).select(columns)
            return self._rows(search)

        return self._best(ask, k, lambda row: row["_score"])

    def by_vector(self, k: int) -> list[Ranked]:
        def ask(limit: int) -> list[Row]:
            search: Any = self.table.search(self.vector, vector_column_name="vector")
            search = search.distance_type("cosine").limit(limit).select([*self.columns, "_distance"])
            # An index looks into a part of its cells only and might miss a pool's rows; a pool is small enough to scan.
            return self._rows(search.bypass_vector_index() if self.exact else search)

        return self._best(ask, k, lambda row: 1 - self._distance(row))

    def _rows(self, search: Any) -> list[Row]:
        rows: list[Row] = (search.where(self.where, prefilter=True) if self.where else search).to_list()
        return rows

    def _best(self, ask: Callable[[int], list[Row]], k: int, score: Callable[[Row], float]) -> list[Ranked]:
        """The k best within the radius. LanceDB cuts ties off anywhere, so ask on until the k-th score is passed."""
        limit = k + 8
        while True:
            rows = ask(limit)
            found = in_order([(row, round(score(row), DIGITS)) for row in rows if self._near(row)])
            last = round(score(rows[-1]), DIGITS) if rows else 0.0
            if len(rows) < limit or (len(found) >= k and last < found[k - 1][1]):
                return found[:k]
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
