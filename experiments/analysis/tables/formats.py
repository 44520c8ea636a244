"""Lays out an experiment's tables with captions and notes. Writes Markdown, LaTeX and CSV.

Measured and reported figures are in separate blocks, whose headings name which they are.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby, pairwise
from pathlib import Path
from typing import Any

import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined

from actors.errors import visible
from experiments.analysis.judged import EMBEDDED_JUDGE_NOTE
from experiments.analysis.result_table import ResultTable
from experiments.analysis.scores import FinishedRun
from experiments.analysis.summary import EMBEDDED, model_notes, rounded, verdicts
from experiments.analysis.tables.measured import FEWEST, MeasuredBlock, MeasuredCell, is_of, measure
from experiments.analysis.tables.paper_table import (
    COSTS,
    GENERATED,
    JUDGED,
    PaperColumn,
    PaperTable,
    ReportedFigure,
    reported,
    tables_of,
)
from experiments.judging.rubric import GRADED
from experiments.records.run_files import write_atomically

# Names for readers; a data set that is not here appears under its own key.
DATA = {
    "mmqa": "MultimodalQA",
    "scienceqa": "ScienceQA",
    "vidoseek": "ViDoSeek",
    "webqa": "WebQA",
    "crisismmd": "CrisisMMD",
    "mmbench": "MMBench",
    "mh": "MH-Benchmark",
}


class Best(str):
    """Cell that is the best measured of its column, in bold."""

    best = True


@dataclass(frozen=True, slots=True)
class ShownTable(ResultTable):
    """Table for a paper. A row of one cell is the heading of those below it. The first column names rows.

    groups: headings over as many of the other columns each, "" for none.
    """

    name: str = ""
    groups: tuple[tuple[str, int], ...] = ()

    @property
    def rules(self) -> list[tuple[str, int, int]]:
        """Groups with their first and last columns; the names of rows are column 1. Empty without any group."""
        ends = list(accumulate((width for _, width in self.groups), initial=1))
        groups = [(name, first + 1, last) for (name, _), (first, last) in zip(self.groups, pairwise(ends), strict=True)]
        return groups if any(name for name, *_ in groups) else []

    @property
    def headers(self) -> list[str]:
        """Columns with their groups, for formats that have one row of headers."""
        over = ["", *(name for name, width in self.groups for _ in range(width))]
        return [f"{group}: {column}" if group else column for group, column in zip(over, self.columns, strict=True)]


def lay_out(
    table: PaperTable, measured: Sequence[MeasuredBlock], figures: Sequence[ReportedFigure], runs: Sequence[FinishedRun]
) -> ShownTable:
    """Lays out a table: measured blocks first, then reported ones, by model."""
    rows: list[tuple[str, ...]] = []
    for block in measured:
        rows.append((f"Measured here: {block.label}",))
        # For costs most is not best.
        best = [None if column.measure in COSTS else max for column in table.columns]
        shown = [
            [(text(table, column, cell), cell.mean) for column, cell in zip(table.columns, cells, strict=True)]
            for _, cells in block.rows
        ]
        rows += [(row.label, *cells) for (row, _), cells in zip(block.rows, marked(shown, best), strict=True)]
    # A dict keeps the order of first appearance, which is the paper's.
    for paper, number, model in dict.fromkeys((figure.paper, figure.table, figure.model) for figure in figures):
        own = [figure for figure in figures if (figure.paper, figure.table, figure.model) == (paper, number, model)]
        rows.append((f"Reported by {paper} (Table {number}), not measured here: {model}",))
        for row in table.rows:
            printed = {
                one.column: one.value + (f" ± {one.spread}" if one.spread else "") + ("?" if one.doubt else "")
                for one in own
                if one.system == row.key
            }
            # Rows that a paper does not report are left out; single blanks stay, so that columns line up.
            if printed:
                rows.append((row.label, *(printed.get(column.name, "") for column in table.columns)))
    return ShownTable(
        name=table.name,
        title=" ".join(_captions(table, measured, runs)),
        # Neighbouring columns of one group share a heading; the same group further on gets another one.
        groups=tuple((group, len(list(of_it))) for group, of_it in groupby(column.group for column in table.columns)),
        columns=("", *(column.name for column in table.columns)),
        rows=rows,
        notes=tuple(_notes(table, measured, figures, runs)),
    )


def marked(
    rows: Sequence[Sequence[tuple[str, float | None]]], best: Sequence[Callable[[Iterable[float]], float] | None]
) -> Iterator[tuple[str, ...]]:
    """Yields the texts of rows of cells, each with its value. The best of a column is marked, unless all are equal.

    best: of each column `max` or `min`, or None for one that has no best.
    """
    columns = []
    for cells, choose in zip(zip(*rows, strict=True), best, strict=True):
        values = {value for _, value in cells if value is not None}
        top = choose(values) if choose and len(values) > 1 else None
        columns.append([Best(shown) if top is not None and value == top else shown for shown, value in cells])
    yield from zip(*columns, strict=True)


def text(table: PaperTable, column: PaperColumn, cell: MeasuredCell) -> str:
    """Writes the mean with its interval, in the paper's units; costs without one."""
    if cell.mean is None or cell.ci95 is None:
        return ""
    if column.measure in COSTS:
        # Calls are few enough for a decimal to matter.
        return f"{cell.mean:,.1f}" if column.measure == "calls" else f"{cell.mean:,.0f}"
    # One decimal of a percentage and three of a fraction are the same precision.
    scale, digits = (100, 1) if table.percent else (1, 3)
    mean, low, high = (f"{scale * value:.{digits}f}" for value in (cell.mean, *cell.ci95))
    return f"{mean} ({low}–{high})"


def _captions(table: PaperTable, measured: Sequence[MeasuredBlock], runs: Sequence[FinishedRun]) -> Iterator[str]:
    """Yields the caption, the numbers of questions, and the data sets that differ."""
    yield table.caption
    same, different = [], []
    for i, column in enumerate(table.columns):
        # The largest over rows and blocks: one that lacks some questions does not shrink the evaluation set.
        here = max((cells[i].questions for block in measured for _, cells in block.rows), default=0)
        if here and here == column.size:
            same.append(f"{column.name} {here:,}")
        elif here and column.size is not None:
            different.append(f"{column.name} {here:,} (paper {column.size:,})")
    if different:
        yield f"Not the paper's evaluation sets; questions evaluated: {', '.join(different)}."
    if same:
        yield f"As many questions as in the paper: {', '.join(same)}."
    present = {run.metrics["dataset"] for run in runs}
    for made, real in GENERATED.items():
        if made in present and real in table.data:
            yield f"In the columns of {DATA[real]} are questions of the generated {made}, not those of the paper."
    # A generated data set fills the columns of the real one, so these are not reported as empty.
    covered = present | {GENERATED[data] for data in present if data in GENERATED}
    lacking = [DATA.get(data, data) for data in table.data if data not in covered]
    if lacking:
        yield f"Not evaluated, and empty: {', '.join(lacking)}."


def _notes(
    table: PaperTable, measured: Sequence[MeasuredBlock], figures: Sequence[ReportedFigure], runs: Sequence[FinishedRun]
) -> Iterator[str]:
    seeds = sorted({run.config.seed for run in runs})
    over = f"questions and {len(seeds)} seeds" if len(seeds) > 1 else "questions (one seed)"
    yield f"Measured: mean and 95% bootstrap interval over {over}; the best of a column is bold."
    if figures:
        yield "Reported figures are the paper's own, of its models, prompts and machines, as printed (± as there)."
    if any(0 < cell.questions < FEWEST for block in measured for _, cells in block.rows for cell in cells):
        yield f"Cells with fewer than {FEWEST} questions are empty."
    ran = {row.key for block in measured for row, _ in block.rows}
    if absent := [row.label for row in table.rows if row.key not in ran]:
        yield f"Not run: {', '.join(absent)}."
    if any(column.measure == JUDGED for column in table.columns):
        judged = [run.metrics["judged"] for run in runs if "judged" in run.metrics]
        judges = sorted({(of["judge"], of.get("right", GRADED.right)) for of in judged})
        for judge, right in judges:
            yield f"A judged answer is one that {judge} {right}."
        if not judges:
            yield "Nothing was judged: choose a judge, as judge=openai judge.name=<model> judge.base_url=<address>."
        if EMBEDDED in dict(judges):
            yield EMBEDDED_JUDGE_NOTE
    yield from dict.fromkeys(note for run in runs for note in model_notes(run.metrics["model"]))
    for block in measured:
        for data, compared in block.compared.items():
            name = DATA.get(data, data)
            yield from (f"{block.label}, {name}: {line}" for line in verdicts(compared, "utility"))
    yield from table.notes
    reasons: dict[str, list[str]] = {}
    for figure in figures:
        if figure.doubt:
            reasons.setdefault(figure.doubt, []).append(f"{figure.system} with {figure.model}, {figure.column}")
    for reason, doubtful in reasons.items():
        rest = f" and {len(doubtful) - 3} more" if len(doubtful) > 4 else ""
        yield f"Doubtful (?), {'; '.join(doubtful[: 3 if rest else 4])}{rest}: {reason}."
    if table.missing:
        yield f"For a full reproduction this project lacks: {'; '.join(table.missing)}."


TABLES = "tables"
CSV_HEADER = (
    "table,source,model,system,label,column,value,ci95_low,ci95_high,questions,paper_questions,spread,doubt".split(",")
)


def write_tables(folder: Path, experiment: str, runs: Sequence[FinishedRun], seed: int) -> list[ShownTable]:
    """Writes `tables/<name>.md`, `.tex` and `.csv` for each table of an experiment that the runs fill. Prints their
    names.

    folder: of the run or the sweep. seed: of the draws of intervals and tests.
    """
    written, tables = [], tables_of(experiment)
    # A method in one table of the experiment must not turn up as unknown in another.
    named = {row.method for table in tables for row in table.rows}
    for table in tables:
        if any(is_of(run, table.data) for run in runs):
            figures, measured = reported(table.name), measure(table, runs, seed, named)
            layout = lay_out(table, measured, figures, runs)
            (folder / TABLES).mkdir(exist_ok=True)
            path = folder / TABLES / table.name
            write_atomically(path.with_suffix(".md"), markdown(layout).encode())
            write_atomically(path.with_suffix(".tex"), latex(layout).encode())
            write_atomically(path.with_suffix(".csv"), table_csv(table, measured, figures).encode())
            print(f"In the form of the paper: {visible(str(path))}.md, .tex and .csv")
            written.append(layout)
    return written


def markdown(layout: ShownTable) -> str:
    """Fills the template: the caption, one table, and the notes. Each block has a heading row."""
    return TEMPLATES.get_template("table.md").render(layout=layout, others=len(layout.columns) - 1)


def latex(layout: ShownTable) -> str:
    """Makes a float with booktabs' rules, as wide as the text. It needs the packages booktabs and graphicx."""
    return TEMPLATES.get_template("table.tex").render(layout=layout, others=len(layout.columns) - 1)


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
TEMPLATES.filters["latex"] = lambda text: text.translate(ESCAPED)
TEMPLATES.filters["markdown"] = lambda text: re.sub(r"[\\|*_<`\[]", r"\\\g<0>", text)


def table_csv(table: PaperTable, measured: Sequence[MeasuredBlock], figures: Sequence[ReportedFigure]) -> str:
    """Writes a line for every figure. Its `source` is measured (fractions, with intervals) or reported (as printed)."""
    lines: list[list[Any]] = []
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
                lines.append([*what, *numbers, cell.questions, size, "", ""])
    for figure in figures:
        label = labels.get(figure.system, figure.system)
        what = (table.name, "reported", figure.model, figure.system, label, figure.column)
        lines.append([*what, figure.value, "", "", "", "", figure.spread, figure.doubt])
    written: str = pd.DataFrame(lines, columns=CSV_HEADER, dtype=object).to_csv(index=False, lineterminator="\n")
    return written
