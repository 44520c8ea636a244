"""Ranks the rows of a LanceDB table by words and by vectors; equal scores by id."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from retrieval.embed import Vectors, max_sim, well_formed

if TYPE_CHECKING:
    from lancedb.table import Table

RANK_OFFSET = 60  # the constant of reciprocal rank fusion, as in the paper (see `fused`)
DIGITS = 6  # of a score: the last bits of vector operations differ between machines

Row = dict[str, Any]
Ranked = tuple[Row, float]
Query = Callable[[], Vectors]  # encodes the query once
Measure = Callable[[Row], float]


@dataclass(frozen=True, slots=True)
class TableSearch:
    """Searches a table by words or by vectors. It has columns `id`, `body` and one or more of vectors.

    Both return the k best (row, score), best first, equal scores by id.

    queries: by column of vectors. Called only where a vector is needed: encoding may take longer than searching.
    where: conditions in SQL, all of which a row meets.
    radius: largest cosine distance, in both searches.
    exact: scan all rows that pass the filter, which should be few.
    """

    table: Table
    columns: Sequence[str]
    text: str
    queries: Mapping[str, Query]
    where: Sequence[str]
    radius: float | None
    exact: bool

    def by_text(self, k: int) -> list[Ranked]:
        from lancedb.query import MatchQuery

        # Of a plain text, LanceDB would take quotation marks for a phrase.
        words = MatchQuery(self.text, "body")  # type: ignore[call-arg]  # defaults that mypy does not see
        vectors = [] if self.radius is None else list(self.queries)
        query = self.table.search(words, query_type="fts").select([*self.columns, "_score", *vectors])
        return self._best(query, k, lambda row: row["_score"], self._distance)

    def by_vector(self, k: int) -> list[Ranked]:
        """Ranks by cosine similarity. Scores of several columns cannot be compared, so their ranks are fused."""
        rankings = [self._by_column(column, encode(), k) for column, encode in self.queries.items()]
        return rankings[0] if len(rankings) == 1 else fused(rankings)[:k]

    def _by_column(self, column: str, vector: Vectors, k: int) -> list[Ranked]:
        query: Any = self.table.search(vector, vector_column_name=column)
        query = query.distance_type("cosine").select([*self.columns, "_distance"])
        if self.exact:
            # An index searches only some of its cells and might miss a pool's rows; a pool is small enough to scan.
            query = query.bypass_vector_index()

        # LanceDB sums over several vectors of a query, where `max_sim` averages.
        vectors = len(np.atleast_2d(vector))

        def distance(row: Row) -> float:
            return float(row["_distance"]) / vectors

        return self._best(query, k, lambda row: 1 - distance(row), distance)

    def _best(self, query: Any, k: int, score: Measure, distance: Measure) -> list[Ranked]:
        """Returns the k best within the radius."""
        if self.where:
            query = query.where(" AND ".join(self.where), prefilter=True)
        # A few more than k usually include all ties with the k-th.
        limit = k + 8
        while True:
            rows: list[Row] = query.limit(limit).to_list()
            near_rows = [row for row in rows if self.radius is None or distance(row) <= self.radius]
            ranked = in_order((row, round(score(row), DIGITS)) for row in near_rows)
            least_score = round(score(rows[-1]), DIGITS) if rows else 0.0
            # LanceDB cuts ties off anywhere: all rows of the k-th score are known once a lower one was returned.
            if len(rows) < limit or (len(ranked) >= k and least_score < ranked[k - 1][1]):
                return ranked[:k]
            limit *= 4

    def _distance(self, row: Row) -> float:
        """1 - `max_sim` in the column with the row's vector; infinite without one."""
        for column, encode in self.queries.items():
            if row[column] is not None:
                return 1 - max_sim(encode(), np.asarray(row[column], dtype=np.float32))
        return float("inf")


def in_order(ranked: Iterable[Ranked]) -> list[Ranked]:
    return sorted(ranked, key=lambda pair: (-pair[1], pair[0]["id"]))


def fused(rankings: Sequence[Sequence[Ranked]]) -> list[Ranked]:
    """Fuses rankings by reciprocal ranks: score(d) = sum of 1 / (60 + rank of d) (Cormack et al. 2009)."""
    scores: dict[str, float] = {}
    rows: dict[str, Row] = {}
    for ranking in rankings:
        for rank, (row, _) in enumerate(ranking, start=1):
            rows.setdefault(row["id"], row)
            scores[row["id"]] = scores.get(row["id"], 0.0) + 1 / (RANK_OFFSET + rank)
    return in_order((rows[id], score) for id, score in scores.items())


def quoted(names: Iterable[str]) -> str:
    """Writes names as a list in SQL, each once."""
    literals: list[str] = []
    for name in sorted(set(names)):
        escaped_name = well_formed(name).replace("'", "''")
        literals.append(f"'{escaped_name}'")
    return ", ".join(literals)
