"""A paper's table as data: rows, columns, sizes, and the figures that the paper reports.

The definitions are YAML files of this folder, one for each experiment of the same name. Reported figures are in
`reported/<table>.csv`, transcribed digit for digit: shown next to measured ones and never computed with. A line has

- `system` (and its setting, as `PaperRow.key`) and the `model` that the paper names,
- `column` of the table here, `value` and its `spread` (after ±) as printed,
- the `paper` and the number of its `table`,
- `doubt`: why a figure may not be what the authors measured.
"""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from pydantic import TypeAdapter

FOLDER = Path(__file__).parent
# A generated data set fills the columns of a real one with the same kinds of questions; captions name it.
GENERATED = {"sample": "mmqa"}
JUDGED = "acc_star"
# Measures that are counts: shown without interval, never bold and never tested.
COSTS = ("prompt_tokens", "completion_tokens", "tokens", "calls")


@dataclass(frozen=True, slots=True)
class PaperRow:
    """Method under a setting. `values` are dotted keys of the configuration (none: whatever it ran with)."""

    method: str
    label: str
    values: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """Method and setting as reported figures name them: `m3prune ablation=no_alignment`."""
        settings = [f"{key}={value}" for key, value in self.values.items()]
        return " ".join([self.method, *settings])


@dataclass(frozen=True, slots=True)
class PaperColumn:
    """Mean of a measure over some questions, or of other columns, unweighted.

    measure: `utility` and `f1` as scored, `acc_star` as judged, a cost of `COSTS`, or another that `scores_of` finds.
    data: the data set; empty for all of the table's (of which most have one).
    where, without: values of tags that a question must have one of, and must not have; a tag such as `IMG+TXT`
        has both values.
    split: the split that must have been evaluated, where the data set has several.
    mean_of: names of columns whose mean this one is.
    size: questions that the paper evaluated here, None where the paper does not state it.
    """

    name: str
    group: str = ""
    measure: str = "utility"
    data: str = ""
    where: Mapping[str, Sequence[str]] = field(default_factory=dict)
    without: Mapping[str, Sequence[str]] = field(default_factory=dict)
    split: str = ""
    mean_of: tuple[str, ...] = ()
    size: int | None = None

    def takes(self, tags: Mapping[str, str]) -> bool:
        """True if a question with these tags counts in this column."""

        def has_one(tag: str, values: Sequence[str]) -> bool:
            return not set(tags.get(tag, "").split("+")).isdisjoint(values)

        if any(has_one(tag, values) for tag, values in self.without.items()):
            return False
        return all(has_one(tag, values) for tag, values in self.where.items())


@dataclass(frozen=True, slots=True)
class PaperTable:
    """A table's rows and columns, and how the paper prints it.

    name: the stem of its files.
    data: names of the data sets in the columns.
    ours: the row that every other one is tested against; where it did not run, the last that did.
    percent: the paper writes 84.8, not .848.
    notes: facts that a reader of the table must know.
    missing: parts of a full reproduction that this project lacks.
    """

    name: str
    paper: str
    number: str
    caption: str
    data: tuple[str, ...]
    columns: tuple[PaperColumn, ...]
    rows: tuple[PaperRow, ...]
    ours: str
    percent: bool = True
    notes: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


DEFINITIONS = TypeAdapter(tuple[PaperTable, ...])


@cache
def tables_of(experiment: str) -> tuple[PaperTable, ...]:
    """Reads the tables of an experiment; none where it reproduces no paper's table."""
    path = FOLDER / f"{experiment}.yaml"
    if not path.is_file():
        return ()
    return DEFINITIONS.validate_python(yaml.safe_load(path.read_text()))


@dataclass(frozen=True, slots=True)
class ReportedFigure:
    """One figure of a paper. Numbers are texts: their printed digits show how precise the authors were."""

    system: str
    model: str
    column: str
    value: str
    spread: str
    paper: str
    table: str
    doubt: str

    @property
    def printed(self) -> str:
        """The figure with its spread; a question mark follows a doubtful one."""
        text = self.value
        if self.spread:
            text += f" ± {self.spread}"
        if self.doubt:
            text += "?"
        return text


def reported(table: str) -> tuple[ReportedFigure, ...]:
    """Reads the reported figures of a table, in the paper's order. None where nothing was transcribed."""
    path = FOLDER / "reported" / f"{table}.csv"
    if not path.is_file():
        return ()
    with path.open(newline="", encoding="utf-8") as file:
        return tuple(ReportedFigure(**line) for line in csv.DictReader(file))
