"""A laid-out table as Markdown, LaTeX and HTML, and its figures as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from html import escape as html_text

from experiments.analysis import page
from experiments.analysis.summary import rounded
from experiments.analysis.table import Table
from experiments.analysis.tables.definition import Definition
from experiments.analysis.tables.layout import Layout, Shown
from experiments.analysis.tables.measured import Block
from experiments.analysis.tables.reported import Figure

CSV_HEADER = (
    "table",
    "source",
    "model",
    "system",
    "label",
    "column",
    "value",
    "ci95_low",
    "ci95_high",
    "questions",
    "paper_questions",
    "spread",
    "doubt",
)


def markdown(layout: Layout) -> str:
    """The caption, one table with a heading row before each block, and the notes."""
    headers = ["", *map(_plain, _headers(layout))]
    lines = [f"**{_plain(layout.caption)}**", "", _row(headers), _row(["---", *["---:"] * len(layout.columns)])]
    for block in layout.blocks:
        lines.append(_row([f"**{_plain(block.heading)}**", *[""] * len(layout.columns)]))
        lines += [_row([_plain(name), *(_bold(cell) for cell in cells)]) for name, cells in block.rows]
    return "\n".join([*lines, "", *(f"- {_plain(note)}" for note in layout.notes), ""])


def _headers(layout: Layout) -> list[str]:
    """Columns with their groups, for formats that have one row of headers."""
    over = [name for name, width in layout.groups for _ in range(width)]
    return [f"{group}: {column}" if group else column for group, column in zip(over, layout.columns, strict=True)]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _bold(cell: Shown) -> str:
    return f"**{_plain(cell.text)}**" if cell.best else _plain(cell.text)


def _plain(text: str) -> str:
    """Text with Markdown's special characters escaped, also for use inside a table."""
    # The backslash first, or it would escape the ones that were just added.
    for mark in ("\\", "|", "*", "_", "<", "`", "["):
        text = text.replace(mark, f"\\{mark}")
    return text


def latex(layout: Layout) -> str:
    """A float with booktabs' rules, as wide as the text (needs the packages booktabs and graphicx)."""
    width = len(layout.columns) + 1
    lines = [
        # A comment in LaTeX, for whoever pastes the table into a paper.
        "% \\usepackage{booktabs,graphicx}",
        "\\begin{table*}[t]",
        "  \\centering",
        f"  \\caption{{{escape(layout.caption)}}}",
        f"  \\label{{tab:{layout.name.replace('_', '-')}}}",
        "  \\resizebox{\\textwidth}{!}{%",
        f"  \\begin{{tabular}}{{l{'r' * (width - 1)}}}",
        "    \\toprule",
    ]
    if any(name for name, _ in layout.groups):
        lines += _latex_groups(layout)
    lines.append(_latex_row(["", *map(escape, layout.columns)]))
    for block in layout.blocks:
        lines += ["    \\midrule", f"    \\multicolumn{{{width}}}{{l}}{{\\emph{{{escape(block.heading)}}}}} \\\\"]
        lines += [_latex_row([escape(name), *(_latex_cell(cell) for cell in cells)]) for name, cells in block.rows]
    # The blank line ends the paragraph, so that the notes start below the table.
    lines += ["    \\bottomrule", "  \\end{tabular}}", "", "  \\raggedright\\footnotesize"]
    lines += [f"  {escape(note)}" for note in layout.notes]
    return "\n".join([*lines, "\\end{table*}", ""])


def _latex_groups(layout: Layout) -> list[str]:
    # Column 1 holds the rows' names, so the first group starts at 2.
    cells, rules, at = [""], [], 2
    for name, width in layout.groups:
        cells.append(f"\\multicolumn{{{width}}}{{c}}{{{escape(name)}}}")
        # No rule over columns without a group.
        if name:
            rules.append(f"\\cmidrule(lr){{{at}-{at + width - 1}}}")
        at += width
    return [_latex_row(cells), f"    {' '.join(rules)}"]


def _latex_row(cells: Sequence[str]) -> str:
    return f"    {' & '.join(cells)} \\\\"


def _latex_cell(cell: Shown) -> str:
    return f"\\textbf{{{escape(cell.text)}}}" if cell.best else escape(cell.text)


# Replaced letter by letter in one pass, so that no escape is escaped again.
ESCAPED = {
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


def escape(text: str) -> str:
    """Text with LaTeX's special characters escaped."""
    return "".join(ESCAPED.get(letter, letter) for letter in text)


def table_csv(table: Definition, measured: Sequence[Block], figures: Sequence[Figure]) -> str:
    """A line for every figure, `source` measured (fractions, with intervals) or reported (as printed)."""
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


def html(layout: Layout) -> Iterator[str]:
    """The table and its notes as lines of HTML for a report's page."""
    rows = [
        row
        for block in layout.blocks
        for row in (
            # HTML tables of a page have one kind of row, so a block's heading is a row with blank cells.
            [page.Html(f"<em>{html_text(block.heading)}</em>"), *[""] * len(layout.columns)],
            *([name, *(_strong(cell) for cell in cells)] for name, cells in block.rows),
        )
    ]
    yield from page.table(layout.caption, Table(["", *_headers(layout)], rows))
    yield from page.paragraphs(layout.notes)


def _strong(cell: Shown) -> str:
    return page.Html(f"<strong>{html_text(cell.text)}</strong>") if cell.best else cell.text
