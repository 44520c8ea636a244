"""A table's layout: headers, blocks of rows with the text of every cell, a caption and notes.

Measured and reported figures are in separate blocks, and each heading says which they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from experiments.analysis.compare import in_words
from experiments.analysis.summary import EMBEDDED, EMBEDDED_NOTE, MODELS
from experiments.analysis.tables.definition import COSTS, JUDGED, STAND_IN, Column, Definition
from experiments.analysis.tables.evaluated import Evaluated
from experiments.analysis.tables.measured import FEWEST, Block, Cell
from experiments.analysis.tables.reported import Figure, doubts

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


@dataclass(frozen=True, slots=True)
class Shown:
    """A cell's text, and whether it is the best measured of its column."""

    text: str
    best: bool = False


@dataclass(frozen=True, slots=True)
class ShownBlock:
    """Rows under one heading: the row's name and its cells."""

    heading: str
    rows: tuple[tuple[str, tuple[Shown, ...]], ...]


@dataclass(frozen=True, slots=True)
class Layout:
    """A table ready to be written in any format; `groups` are headings over as many columns each, "" for none."""

    name: str
    caption: str
    groups: tuple[tuple[str, int], ...]
    columns: tuple[str, ...]
    blocks: tuple[ShownBlock, ...]
    notes: tuple[str, ...]


def lay_out(
    table: Definition, measured: Sequence[Block], figures: Sequence[Figure], runs: Sequence[Evaluated]
) -> Layout:
    """Measured blocks first, then those that the paper reports, by model."""
    # Neighbouring columns of one group share a heading; the same group further on gets another one.
    groups: list[tuple[str, int]] = []
    for column in table.columns:
        if groups and groups[-1][0] == column.group:
            groups[-1] = column.group, groups[-1][1] + 1
        else:
            groups.append((column.group, 1))
    return Layout(
        name=table.name,
        caption=" ".join([table.caption, *_sizes(table, measured), *_data(table, runs)]),
        groups=tuple(groups),
        columns=tuple(column.name for column in table.columns),
        blocks=(*(_measured(table, block) for block in measured), *_reported(table, figures)),
        notes=tuple(_notes(table, measured, figures, runs)),
    )


def _measured(table: Definition, block: Block) -> ShownBlock:
    best = [_best([cells[i] for _, cells in block.rows], column) for i, column in enumerate(table.columns)]
    rows = tuple(
        (
            row.label,
            tuple(
                Shown(text(table, column, cell), best=cell.mean is not None and cell.mean == top)
                for column, cell, top in zip(table.columns, cells, best, strict=True)
            ),
        )
        for row, cells in block.rows
    )
    return ShownBlock(f"Measured here: {block.label}", rows)


def _best(cells: Sequence[Cell], column: Column) -> float | None:
    means = [cell.mean for cell in cells if cell.mean is not None]
    # Nothing is best where all are equal, and for costs most is not best.
    return max(means) if len(set(means)) > 1 and column.measure not in COSTS else None


def text(table: Definition, column: Column, cell: Cell) -> str:
    """The mean with its interval, in the paper's units; costs without one."""
    if cell.mean is None or cell.ci95 is None:
        return ""
    if column.measure in COSTS:
        # Calls are few enough for a decimal to matter.
        return f"{cell.mean:,.1f}" if column.measure == "calls" else f"{cell.mean:,.0f}"
    # One decimal of a percentage and three of a fraction are the same precision.
    scale, digits = (100, 1) if table.percent else (1, 3)
    mean, low, high = (f"{scale * value:.{digits}f}" for value in (cell.mean, *cell.ci95))
    return f"{mean} ({low}–{high})"


def _reported(table: Definition, figures: Sequence[Figure]) -> Iterator[ShownBlock]:
    # A dict keeps the order of first appearance, which is the paper's.
    for paper, number, model in dict.fromkeys((figure.paper, figure.table, figure.model) for figure in figures):
        own = [figure for figure in figures if (figure.paper, figure.table, figure.model) == (paper, number, model)]
        rows = []
        for row in table.rows:
            cells = {figure.column: figure.shown for figure in own if figure.system == row.key}
            # Rows that a paper does not report are left out; single blanks stay, so that columns line up.
            if cells:
                rows.append((row.label, tuple(Shown(cells.get(column.name, "")) for column in table.columns)))
        yield ShownBlock(f"Reported by {paper} (Table {number}), not measured here: {model}", tuple(rows))


def sizes(table: Definition, measured: Sequence[Block]) -> Mapping[str, tuple[int, int]]:
    """Questions here and in the paper by column, for evaluated columns with a known size in the paper."""
    known = {}
    for i, column in enumerate(table.columns):
        # The largest over rows and blocks: one that lacks some questions does not shrink the evaluation set.
        here = max((cells[i].questions for block in measured for _, cells in block.rows), default=0)
        if column.size is not None and here:
            known[column.name] = here, column.size
    return known


def _sizes(table: Definition, measured: Sequence[Block]) -> Iterator[str]:
    known = sizes(table, measured)
    different = [f"{name} {here:,} (paper {paper:,})" for name, (here, paper) in known.items() if here != paper]
    if different:
        yield f"Not the paper's evaluation sets; questions evaluated: {', '.join(different)}."
    if len(different) < len(known):
        same = ", ".join(f"{name} {here:,}" for name, (here, paper) in known.items() if here == paper)
        yield f"As many questions as in the paper: {same}."


def _data(table: Definition, runs: Sequence[Evaluated]) -> Iterator[str]:
    present = {run.data for run in runs}
    for made, real in STAND_IN.items():
        if made in present and real in table.data:
            yield f"In the columns of {DATA[real]} the generated {made} stands in: these are not its questions."
    # A stand-in fills the columns of the real data set, so these are not reported as empty.
    covered = present | {STAND_IN[data] for data in present if data in STAND_IN}
    lacking = [DATA.get(data, data) for data in table.data if data not in covered]
    if lacking:
        yield f"Not evaluated, and empty: {', '.join(lacking)}."


def _notes(
    table: Definition, measured: Sequence[Block], figures: Sequence[Figure], runs: Sequence[Evaluated]
) -> Iterator[str]:
    seeds = sorted({run.seed for run in runs})
    over = f"questions and {len(seeds)} seeds" if len(seeds) > 1 else "questions (one seed)"
    yield f"Measured: mean and 95% bootstrap interval over {over}; the best of a column is bold."
    if figures:
        yield "Reported figures are the paper's own, of its models, prompts and machines, as printed (± as there)."
    too_few = any(0 < cell.questions < FEWEST for block in measured for _, cells in block.rows for cell in cells)
    if too_few:
        yield f"Cells with fewer than {FEWEST} questions are empty."
    ran = {row.key for block in measured for row, _ in block.rows}
    if absent := [row.label for row in table.rows if row.key not in ran]:
        yield f"Not run: {', '.join(absent)}."
    yield from _judged(table, runs)
    if any(EMBEDDED in run.model.split(MODELS) for run in runs):
        yield EMBEDDED_NOTE
    for block in measured:
        for data, compared in block.compared.items():
            name = DATA.get(data, data)
            yield from (f"{block.label}, {name}: {line}" for line in in_words(compared, "utility"))
    yield from table.notes
    for reason, doubtful in doubts(figures).items():
        examples = (
            "; ".join(doubtful) if len(doubtful) <= 4 else f"{'; '.join(doubtful[:3])} and {len(doubtful) - 3} more"
        )
        yield f"Doubtful (?), {examples}: {reason}."
    if table.missing:
        yield f"For a full reproduction this project lacks: {'; '.join(table.missing)}."


def _judged(table: Definition, runs: Sequence[Evaluated]) -> Iterator[str]:
    if not any(column.measure == JUDGED for column in table.columns):
        return
    judges = sorted({run.judge for run in runs if run.judge})
    for judge, right in sorted({(run.judge, run.right) for run in runs if run.judge}):
        yield f"A judged answer is one that {judge} {right}."
    if not judges:
        yield "Nothing was judged: choose a judge, such as judge=openai judge.name=<model> judge.base_url=<address>."
    if EMBEDDED in judges:
        yield "The judge is the embedded reader: it compares words and numbers and knows nothing of meaning."
