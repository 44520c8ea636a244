"""Lays out an experiment's tables with captions and notes. Writes Markdown, LaTeX and CSV.

Measured and reported figures are in separate blocks, whose headings name which they are.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain, groupby, product
from operator import itemgetter
from pathlib import Path

import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined

from actors.errors import visible
from experiments.analysis.judged import EMBEDDED_JUDGE_NOTE
from experiments.analysis.paired import verdicts
from experiments.analysis.result_table import ResultTable
from experiments.analysis.rounding import rounded
from experiments.analysis.run_facts import EMBEDDED, model_notes
from experiments.analysis.scores import FinishedRun
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
TABLES = "tables"  # the folder of a run's tables
CSV_HEADER = (
    "table,source,model,system,label,column,value,ci95_low,ci95_high,questions,paper_questions,spread,doubt".split(",")
)
INSTEAD = "In the columns of {real} are questions of the generated {generated}, not those of the paper."
REPORTED = "Reported figures are the paper's own, of its models, prompts and machines, as printed (± as there)."
NO_JUDGE = "Nothing was judged: choose a judge, as judge=openai judge.name=<model> judge.base_url=<address>."
MOST_DOUBTFUL = 4  # figures of one doubt that a note names; of more, all but one

Cell = tuple[str, float | None]  # a cell's text and its value


class Best(str):
    """Cell that is the best measured of its column, in bold."""

    best = True


@dataclass(frozen=True, slots=True)
class ShownTable(ResultTable):
    """Table for a paper. A row of one cell is the heading of those below it. The first column names rows.

    groups: the heading above each column but the first, "" for none. Neighbours of one group share it.
    """

    name: str = ""
    groups: Sequence[str] = ()

    @property
    def rules(self) -> list[tuple[str, int, int]]:
        """Groups with their first and last columns, counted from 1. Empty without any group."""
        rules = []
        for name, columns in groupby(enumerate(self.groups, start=2), key=itemgetter(1)):
            numbers = [number for number, _ in columns]
            rules.append((name, numbers[0], numbers[-1]))
        return rules if any(self.groups) else []

    @property
    def headers(self) -> list[str]:
        """Columns with their groups, for formats that have one row of headers."""
        named = zip(["", *self.groups], self.columns, strict=True)
        return [f"{group}: {column}".removeprefix(": ") for group, column in named]


def block(
    heading: str, rows: Mapping[str, Sequence[Cell]], choices: Sequence[Callable[..., float] | None]
) -> Iterator[tuple[str, ...]]:
    """Yields a heading and the rows below it. The best of a column is marked, unless all are equal.

    rows: the cells by the name of their row.
    choices: what finds the best of each column, `max` or `min`; None for one that has no best.
    """
    yield (heading,)
    best = []
    for choose, *column in zip(choices, *rows.values(), strict=True):
        values = {value for _, value in column if value is not None}
        best.append(choose(values) if choose and len(values) > 1 else None)
    for name, cells in rows.items():
        texts = []
        for (text, value), best_value in zip(cells, best, strict=True):
            is_best = value is not None and value == best_value
            texts.append(Best(text) if is_best else text)
        yield (name, *texts)


def lay_out(
    table: PaperTable,
    blocks: Sequence[MeasuredBlock],
    figures: Sequence[ReportedFigure],
    runs: Sequence[FinishedRun],
) -> ShownTable:
    """Lays out a table: measured blocks first, then reported ones, by model."""
    rows: list[tuple[str, ...]] = []
    # For costs most is not best.
    choices = [None if column.measure in COSTS else max for column in table.columns]
    for measured_block in blocks:
        cells = {}
        for row in measured_block.rows:
            columns = [(column, row.cells[column.name]) for column in table.columns]
            cells[row.paper_row.label] = [(figure_text(table, column, cell), cell.mean) for column, cell in columns]
        rows += block(f"Measured here: {measured_block.label}", cells, choices)

    # A dict keeps the order of first appearance, which is the paper's.
    reports: dict[tuple[str, str, str], dict[tuple[str, str], str]] = {}
    for figure in figures:
        report = reports.setdefault((figure.paper, figure.table, figure.model), {})
        report[figure.system, figure.column] = figure.printed
    for (paper, number, model), report in reports.items():
        rows.append((f"Reported by {paper} (Table {number}), not measured here: {model}",))
        for paper_row in table.rows:
            # Single blanks stay, so that columns line up; rows that a paper does not report are left out.
            printed = [report.get((paper_row.key, column.name), "") for column in table.columns]
            if any(printed):
                rows.append((paper_row.label, *printed))

    return ShownTable(
        name=table.name,
        title=" ".join(_captions(table, blocks, runs)),
        groups=[column.group for column in table.columns],
        columns=("", *(column.name for column in table.columns)),
        rows=rows,
        notes=tuple(_notes(table, blocks, figures, runs=runs)),
    )


def figure_text(table: PaperTable, column: PaperColumn, cell: MeasuredCell) -> str:
    """Writes the mean with its interval, in the paper's units; costs without one."""
    if cell.mean is None or cell.ci95 is None:
        return ""
    if column.measure == "calls":
        # Calls are few enough for a decimal to matter.
        return f"{cell.mean:,.1f}"
    if column.measure in COSTS:
        return f"{cell.mean:,.0f}"
    low, high = cell.ci95
    # One decimal of a percentage and three of a fraction are the same precision.
    if table.percent:
        return f"{100 * cell.mean:.1f} ({100 * low:.1f}–{100 * high:.1f})"
    return f"{cell.mean:.3f} ({low:.3f}–{high:.3f})"


def _captions(table: PaperTable, blocks: Sequence[MeasuredBlock], runs: Sequence[FinishedRun]) -> Iterator[str]:
    """Yields the caption, the numbers of questions, and the data sets that differ."""
    yield table.caption
    rows = list(chain.from_iterable(measured_block.rows for measured_block in blocks))
    as_in_paper = []
    different = []
    for column in table.columns:
        # The largest over rows and blocks: one that lacks some questions does not shrink the evaluation set.
        questions = max((row.cells[column.name].questions for row in rows), default=0)
        if questions and questions == column.size:
            as_in_paper.append(f"{column.name} {questions:,}")
        elif questions and column.size is not None:
            different.append(f"{column.name} {questions:,} (paper {column.size:,})")
    if different:
        yield f"Not the paper's evaluation sets; questions evaluated: {', '.join(different)}."
    if as_in_paper:
        yield f"As many questions as in the paper: {', '.join(as_in_paper)}."

    evaluated = {run.metrics["dataset"] for run in runs}
    for generated, real in GENERATED.items():
        if generated in evaluated and real in table.data:
            yield INSTEAD.format(real=DATA[real], generated=generated)
    # A generated data set fills the columns of the real one, so these are not reported as empty.
    evaluated |= {GENERATED.get(data, data) for data in evaluated}
    lacking = [DATA.get(data, data) for data in table.data if data not in evaluated]
    if lacking:
        yield f"Not evaluated, and empty: {', '.join(lacking)}."


def _notes(
    table: PaperTable,
    blocks: Sequence[MeasuredBlock],
    figures: Sequence[ReportedFigure],
    runs: Sequence[FinishedRun],
) -> Iterator[str]:
    seeds = len({run.config.seed for run in runs})
    over = f"questions and {seeds} seeds" if seeds > 1 else "questions (one seed)"
    yield f"Measured: mean and 95% bootstrap interval over {over}; the best of a column is bold."
    if figures:
        yield REPORTED
    rows = list(chain.from_iterable(measured_block.rows for measured_block in blocks))
    cells = chain.from_iterable(row.cells.values() for row in rows)
    if any(0 < cell.questions < FEWEST for cell in cells):
        yield f"Cells with fewer than {FEWEST} questions are empty."
    evaluated = {row.paper_row.key for row in rows}
    absent = [row.label for row in table.rows if row.key not in evaluated]
    if absent:
        yield f"Not run: {', '.join(absent)}."
    if any(column.measure == JUDGED for column in table.columns):
        yield from _judge_notes(runs)
    yield from dict.fromkeys(chain.from_iterable(model_notes(run.metrics["model"]) for run in runs))
    for measured_block in blocks:
        for data, tests in measured_block.compared.items():
            name = DATA.get(data, data)
            yield from (f"{measured_block.label}, {name}: {line}" for line in verdicts(tests, "utility"))
    yield from table.notes
    yield from _doubts(figures)
    if table.missing:
        yield f"For a full reproduction this project lacks: {'; '.join(table.missing)}."


def _doubts(figures: Sequence[ReportedFigure]) -> Iterator[str]:
    """Yields a note on each reason for which reported figures are doubtful."""
    doubts: dict[str, list[str]] = {}
    for figure in figures:
        if figure.doubt:
            doubts.setdefault(figure.doubt, []).append(f"{figure.system} with {figure.model}, {figure.column}")
    for reason, doubtful in doubts.items():
        names = "; ".join(doubtful)
        if len(doubtful) > MOST_DOUBTFUL:
            names = f"{'; '.join(doubtful[:3])} and {len(doubtful) - 3} more"
        yield f"Doubtful (?), {names}: {reason}."


def _judge_notes(runs: Sequence[FinishedRun]) -> Iterator[str]:
    summaries = [run.metrics["judged"] for run in runs if "judged" in run.metrics]
    if not summaries:
        yield NO_JUDGE
    judges = {(summary["judge"], summary.get("right", GRADED.right)) for summary in summaries}
    for judge, right in sorted(judges):
        yield f"A judged answer is one that {judge} {right}."
    if any(judge == EMBEDDED for judge, _ in judges):
        yield EMBEDDED_JUDGE_NOTE


def write_tables(
    folder: Path,
    experiment: str,
    runs: Sequence[FinishedRun],
    seed: int,
) -> list[ShownTable]:
    """Writes `tables/<name>.md`, `.tex` and `.csv` for each table of an experiment that the runs fill. Prints their
    names.

    folder: of the run or the sweep. seed: of the draws of intervals and tests.
    """
    tables = tables_of(experiment)
    # A method in one table of the experiment must not turn up as unknown in another.
    methods = {row.method for row in chain.from_iterable(table.rows for table in tables)}
    layouts = []
    for table in tables:
        if any(is_of(run, table.data) for run in runs):
            figures = reported(table.name)
            blocks = measure(table, runs, seed, elsewhere=methods)
            layout = lay_out(table, blocks, figures, runs=runs)
            (folder / TABLES).mkdir(exist_ok=True)
            path = folder / TABLES / table.name
            write_atomically(path.with_suffix(".md"), markdown(layout).encode())
            write_atomically(path.with_suffix(".tex"), latex(layout).encode())
            write_atomically(path.with_suffix(".csv"), table_csv(table, blocks, figures).encode())
            print(f"In the form of the paper: {visible(str(path))}.md, .tex and .csv")
            layouts.append(layout)
    return layouts


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


def table_csv(table: PaperTable, blocks: Sequence[MeasuredBlock], figures: Sequence[ReportedFigure]) -> str:
    """Writes a line for every figure. Its `source` is measured (fractions, with intervals) or reported (as printed)."""
    lines = []
    for measured_block in blocks:
        for row, column in product(measured_block.rows, table.columns):
            cell = row.cells[column.name]
            # Empty, not 0, where there is no figure. Floating-point error must not change the file.
            low, high = rounded(cell.ci95 or ("", ""))
            line = {
                "source": "measured",
                "model": measured_block.label,
                "system": row.paper_row.key,
                "label": row.paper_row.label,
                "column": column.name,
                "value": rounded(cell.mean),
                "ci95_low": low,
                "ci95_high": high,
                "questions": cell.questions,
                "paper_questions": column.size,
            }
            lines.append(line)
    # A paper may report systems that the table here has no row for: these keep their key as label.
    labels = {row.key: row.label for row in table.rows}
    for figure in figures:
        lines.append({**asdict(figure), "source": "reported", "label": labels.get(figure.system, figure.system)})
    # As objects, so that counts stay integers.
    frame = pd.DataFrame(lines, columns=CSV_HEADER, dtype=object).assign(table=table.name)
    return str(frame.to_csv(index=False, lineterminator="\n"))
