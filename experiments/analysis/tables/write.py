"""Writes an experiment's tables into its folder: `tables/<name>.md`, `.tex` and `.csv`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from actors.visible import visible
from experiments.analysis.tables.definition import STAND_IN, Definition, tables_of
from experiments.analysis.tables.evaluated import Evaluated
from experiments.analysis.tables.formats import latex, markdown, table_csv
from experiments.analysis.tables.layout import Layout, lay_out
from experiments.analysis.tables.measured import measure
from experiments.analysis.tables.reported import reported
from experiments.records.atomic import write_atomically

TABLES = "tables"


def write_tables(folder: Path, experiment: str, runs: Sequence[Evaluated], seed: int) -> list[Layout]:
    """Writes the tables with a data set that the runs evaluated; none if the experiment reproduces no paper's table.

    Args:
        folder: the folder of the run or the sweep.
        runs: finished runs.
        seed: seed of the draws of intervals and tests.
    """
    written, tables = [], tables_of(experiment)
    # A method in one table of the experiment must not turn up as unknown in another.
    named = {row.method for table in tables for row in table.rows}
    for table in tables:
        if _evaluated(table, runs):
            figures, measured = reported(table.name), measure(table, runs, seed, named)
            layout = lay_out(table, measured, figures, runs)
            (folder / TABLES).mkdir(exist_ok=True)
            path = folder / TABLES / table.name
            write_atomically(path.with_suffix(".md"), markdown(layout).encode())
            write_atomically(path.with_suffix(".tex"), latex(layout).encode())
            write_atomically(path.with_suffix(".csv"), table_csv(table, measured, figures).encode())
            written.append(layout)
    return written


def _evaluated(table: Definition, runs: Sequence[Evaluated]) -> bool:
    return any(run.data in table.data or STAND_IN.get(run.data) in table.data for run in runs)


def tell(folder: Path, written: Sequence[Layout]) -> None:
    """Prints the paths of the tables."""
    for layout in written:
        print(f"In the form of the paper: {visible(str(folder / TABLES / layout.name))}.md, .tex and .csv")
