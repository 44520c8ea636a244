"""Figures that the papers report, transcribed digit for digit: shown beside measured ones and never computed with.

Each file has a line for every figure: `system` (and its setting, as `Row.key`), the model that the paper names,
`column` of the table here, `value` and what stands after ± (`spread`) as printed, the paper with the number of its
table, and in `doubt` why a figure may not be what the authors measured.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass

from experiments.analysis.tables.definition import FOLDER

REPORTED = FOLDER / "reported"


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure of a paper; numbers as they are printed."""

    system: str
    model: str
    column: str
    value: str
    spread: str
    paper: str
    table: str
    doubt: str

    @property
    def shown(self) -> str:
        # Text and not a number: digits as printed say how precise the authors were.
        return self.value + (f" ± {self.spread}" if self.spread else "") + ("?" if self.doubt else "")


def reported(table: str) -> tuple[Figure, ...]:
    """Reported figures of a table, in the paper's order; none where nothing was transcribed."""
    path = REPORTED / f"{table}.csv"
    if not path.is_file():
        return ()
    with path.open(newline="", encoding="utf-8") as file:
        return tuple(Figure(**line) for line in csv.DictReader(file))


def doubts(figures: Sequence[Figure]) -> dict[str, list[str]]:
    """Doubtful figures in words, by the reason for doubt."""
    reasons: dict[str, list[str]] = {}
    for figure in figures:
        if figure.doubt:
            reasons.setdefault(figure.doubt, []).append(f"{figure.system} with {figure.model}, {figure.column}")
    return reasons
