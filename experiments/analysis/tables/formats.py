"""Writes an experiment's tables as Markdown, LaTeX and CSV."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from actors.visible import visible
from experiments.analysis.summary import rounded
from experiments.analysis.tables.layout import Layout, lay_out
from experiments.analysis.tables.measured import Evaluated, MeasuredBlock, measure
from experiments.analysis.tables.paper_table import PaperTable, ReportedFigure, reported, tables_of
from experiments.records.run_files import write_atomically

TABLES = "tables"
CSV_HEADER = (
    "table,source,model,system,label,column,value,ci95_low,ci95_high,questions,paper_questions,spread,doubt".split(",")
)


def write_tables(folder: Path, experiment: str, runs: Sequence[Evaluated], seed: int) -> list[Layout]:
    """Writes `tables/<name>.md`, `.tex` and `.csv` for each table of an experiment whose data the runs evaluated.

    folder: of the run or the sweep. seed: of the draws of intervals and tests.
    """
    written, tables = [], tables_of(experiment)
    # A method in one table of the experiment must not turn up as unknown in another.
    named = {row.method for table in tables for row in table.rows}
    for table in tables:
        if any(run.is_of(table.data) for run in runs):
            figures, measured = reported(table.name), measure(table, runs, seed, named)
            layout = lay_out(table, measured, figures, runs)
            (folder / TABLES).mkdir(exist_ok=True)
            path = folder / TABLES / table.name
            write_atomically(path.with_suffix(".md"), markdown(layout).encode())
            write_atomically(path.with_suffix(".tex"), latex(layout).encode())
            write_atomically(path.with_suffix(".csv"), table_csv(table, measured, figures).encode())
            written.append(layout)
    return written


def print_paths(folder: Path, written: Sequence[Layout]) -> None:
    for layout in written:
        print(f"In the form of the paper: {visible(str(folder / TABLES / layout.name))}.md, .tex and .csv")


def markdown(layout: Layout) -> str:
    """The caption, one table with a heading row before each block, and the notes."""
    return TEMPLATES.get_template("table.md").render(layout=layout)


def latex(layout: Layout) -> str:
    """A float with booktabs' rules, as wide as the text (needs the packages booktabs and graphicx)."""
    return TEMPLATES.get_template("table.tex").render(layout=layout)


ESCAPED = str.maketrans(
    {
        "\\": "\\textbackslash{}",
        "~": "\\textasciitilde{}",
        "^": "\\textasciicircum{}",
        "–": "--",
        "±": "$\\pm$",
        "³": "$^3$",
        "⁺": "$^+$",
        "<": "$<$",
        ">": "$>$",
        "ε": "$\\epsilon$",
        **{mark: f"\\{mark}" for mark in "&%$#_{}"},
    }
)


def escape(text: str) -> str:
    """Text with LaTeX's special characters escaped."""
    return text.translate(ESCAPED)


# Not Jinja's own marks, which are braces as LaTeX's are.
TEMPLATES = Environment(
    loader=PackageLoader("experiments.analysis", "assets"),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
    block_start_string="<%",
    block_end_string="%>",
    variable_start_string="<<",
    variable_end_string=">>",
)
TEMPLATES.filters |= {"latex": escape, "markdown": lambda text: re.sub(r"[\\|*_<`\[]", r"\\\g<0>", text)}


def table_csv(table: PaperTable, measured: Sequence[MeasuredBlock], figures: Sequence[ReportedFigure]) -> str:
    """A line for every figure; `source` is measured (fractions, with intervals) or reported (as printed)."""
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(CSV_HEADER)
    # A paper may report systems that the table here has no row for: these keep their key as label.
    labels = {row.key: row.label for row in table.rows}
    for block in measured:
        for row, cells in block.rows:
            for column, cell in zip(table.columns, cells, strict=True):
                # Empty, not 0, where there is no figure.
                low, high = cell.ci95 or ("", "")
                # Floating-point error must not change the file.
                numbers = rounded((cell.mean, low, high))
                size = "" if column.size is None else column.size
                what = (table.name, "measured", block.label, row.key, row.label, column.name)
                lines.writerow([*what, *numbers, cell.questions, size, "", ""])
    for figure in figures:
        label = labels.get(figure.system, figure.system)
        what = (table.name, "reported", figure.model, figure.system, label, figure.column)
        lines.writerow([*what, figure.value, "", "", "", "", figure.spread, figure.doubt])
    return text.getvalue()
