"""A paper's table as data: its rows, its columns, and how many questions it was measured on.

The definitions lie beside this file, one YAML for each experiment of the same name, with the figures that the papers
report in `reported/<table>.csv`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).parent
# A generated data set fills the columns of a real one with the same kinds of questions; tables say so.
STAND_IN = {"sample": "mmqa"}
JUDGED = "acc_star"
# Measures that are counts: shown without interval, never bold and never tested.
COSTS = ("prompt_tokens", "completion_tokens", "tokens", "calls")


@dataclass(frozen=True, slots=True)
class Row:
    """A method under a setting (dotted keys of the configuration; none: whatever it ran with)."""

    method: str
    label: str
    group: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """The method and its setting as reported figures name them: `m3prune ablation=no_alignment`."""
        return " ".join([self.method, *(f"{key}={value}" for key, value in self.values.items())])


@dataclass(frozen=True, slots=True)
class Column:
    """The mean of a measure over some questions, or the unweighted mean of other columns.

    Args:
        measure: `utility` and `f1` as scored, `acc_star` as judged, a cost of `COSTS`, or another of `measures_of`.
        data: the data set; empty for all of the table's.
        where, without: values of tags that a question must have one of, and must not have; a tag such as `IMG+TXT`
            has both values.
        split: the split that must have been evaluated, where the data set has several.
        mean_of: names of columns, instead of a measure of its own.
        size: questions that the paper evaluated here, None where it does not say.
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
        # A question needs one value of every tag in `where`, and none of any in `without`.
        needed = all(_values(tags, tag) & set(values) for tag, values in self.where.items())
        return needed and not any(_values(tags, tag) & set(values) for tag, values in self.without.items())


def _values(tags: Mapping[str, str], tag: str) -> set[str]:
    return set(tags.get(tag, "").split("+"))


@dataclass(frozen=True, slots=True)
class Definition:
    """A table's rows and columns, and how the paper prints it.

    Args:
        name: the stem of its files.
        ours: the row that every other one is tested against; where it did not run, the last that did.
        percent: the paper writes 84.8, not .848.
        notes: facts that a reader of the table must know.
        missing: parts of a full reproduction that this project lacks.
    """

    name: str
    paper: str
    number: str
    caption: str
    rows: tuple[Row, ...]
    columns: tuple[Column, ...]
    ours: str
    percent: bool = True
    notes: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()

    @property
    def digits(self) -> int:
        return 2 if self.percent else 4

    @property
    def data(self) -> tuple[str, ...]:
        """Names of the data sets in the columns, in their order."""
        return tuple(dict.fromkeys(column.data for column in self.columns if column.data))


@cache
def tables_of(experiment: str) -> tuple[Definition, ...]:
    """The tables of an experiment; none where it is not one of a paper's tables.

    Raises ValueError for a definition that names a column twice or averages one that is not there.
    """
    path = FOLDER / f"{experiment}.yaml"
    return tuple(_definition(fields) for fields in yaml.safe_load(path.read_text())) if path.is_file() else ()


def _definition(fields: Mapping[str, Any]) -> Definition:
    defaults = fields.get("defaults", {})
    rows = tuple(Row(**row) for row in fields["rows"])
    # A column's own fields come last and override the table's defaults.
    columns = tuple(Column(**{**defaults, **_averaged(column)}) for column in fields["columns"])
    rest = {key: value for key, value in fields.items() if key not in ("rows", "columns", "defaults")}
    for key in ("notes", "missing"):
        rest[key] = tuple(rest.get(key, ()))
    names, keys = [column.name for column in columns], [row.key for row in rows]
    # Checked when read: a misspelt column of a mean would only show as an empty cell.
    unknown = {name for column in columns for name in column.mean_of} - set(names)
    if len(set(names)) < len(names) or len(set(keys)) < len(keys) or unknown:
        raise ValueError(
            f"table {fields['name']}: a column or row twice, or a mean of columns that it lacks: {unknown}"
        )
    # YAML reads `number: 3` as an int, and `number: 1, 6` as text.
    return Definition(**{**rest, "number": str(fields["number"]), "rows": rows, "columns": columns})


def _averaged(column: Mapping[str, Any]) -> dict[str, Any]:
    """A column's fields, `mean_of` as a tuple; a mean of columns belongs to no data set of its own."""
    if "mean_of" not in column:
        return dict(column)
    return {"data": "", **column, "mean_of": tuple(column["mean_of"])}
