"""One table of any runs and sweeps, for a paper: `python run.py table=[runs/a,runs/b]`."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from actors.backends.model_settings import model_name
from actors.errors import UserError, visible
from experiments.analysis.arrow_tables import run_tables
from experiments.analysis.result_table import Cell, number, plain, with_interval
from experiments.analysis.run_table import MEASURES
from experiments.analysis.summary import COSTS, model_notes
from experiments.analysis.sweep_report import recorded_rows
from experiments.analysis.tables.formats import ShownTable, latex, markdown, marked
from experiments.config.saved import read
from experiments.config.yaml_tree import yaml_tree
from experiments.records.recorder import RunFolder
from experiments.records.run_files import write_atomically

OPTIONS = {"format": ("latex", "markdown", "csv"), "columns": ("measures", "runs")}
SUFFIXES = {".tex": "latex", ".md": "markdown", ".csv": "csv"}
NOTE = "Utility is the data set's metric (EM or accuracy), with a 95% bootstrap interval; the best of a column is bold."
Row = Mapping[str, Any]  # measures of a method; `run` is the heading above it
SHOWN: dict[str, tuple[str, Cell]] = {
    "utility": (
        "utility (95% interval)",
        lambda row: with_interval(row.get("utility"), row.get("ci95")).replace("-", "–"),
    ),
    **{name: MEASURES[name] for name in ("strict_em", "f1", "acc_star", "attack_success")},
    **{name: (name.upper(), number(name)) for name in ("tpr", "fpr", "auroc")},
    "utility_lost": ("utility lost when clean", number("utility_lost", "+.3f")),
    **{name: MEASURES[name] for name in COSTS},
}
# The best of a column; costs have none.
BEST = dict.fromkeys(SHOWN.keys() - {*COSTS}, max) | dict.fromkeys(("attack_success", "fpr", "utility_lost"), min)


def table_of(folders: str, options: Sequence[str]) -> int:
    """Prints a table of runs and sweeps, or writes it to `table.to`. Returns exit code 0.

    folders: a run folder, several in brackets, or several with labels: `{clean: runs/a, attacked: runs/b}`.
    options: `table.to=<file>` and those of `OPTIONS`; the format is that of the file's suffix, else LaTeX.

    Raises UserError for other options, and for a folder that is none or has no results.
    """
    given = dict(option.removeprefix("table.").partition("=")[::2] for option in options)
    to = Path(given.pop("to", "")).expanduser()
    chosen = {"format": SUFFIXES.get(to.suffix, "latex"), "columns": "measures"} | given
    for name, value in chosen.items():
        if value not in OPTIONS.get(name, ()):
            allowed = ", ".join(f"table.{key}={'|'.join(values)}" for key, values in OPTIONS.items())
            raise UserError(f"table.{name}={value}: table=[<run folder>,...] takes table.to=<file>, {allowed}")
    try:
        listed = yaml_tree(folders)
    except UserError as error:
        raise UserError(f"table={folders} cannot be read ({error}); write table=[runs/a,runs/b]") from error
    paths = list(listed.values()) if isinstance(listed, dict) else listed if isinstance(listed, list) else [listed]
    if not paths or not all(isinstance(path, str) and path for path in paths):
        raise UserError(f"table={folders}: expected run folders; write table=[runs/a,runs/b]")
    names = list(listed) if isinstance(listed, dict) else [Path(path).name for path in paths]
    labels = names if len(set(names)) == len(names) else paths
    rows = [row for path, label in zip(paths, labels, strict=True) for row in _rows(path, label)]
    if chosen["format"] == "csv":
        measures = ["run", "method", "utility", "low", "high", *list(SHOWN)[1:]]
        written = pd.DataFrame(rows, columns=measures).to_csv(index=False, lineterminator="\n")
    else:
        layout = _laid_out(rows, by_run=chosen["columns"] == "runs")
        written = latex(layout) if chosen["format"] == "latex" else markdown(layout)
    if not to.name:
        print(written.rstrip("\n"))
        return 0
    try:
        write_atomically(to, written.encode())
    except OSError as error:
        raise UserError(f"table.to={to} cannot be written ({error.strerror}); choose another file") from error
    print(f"table: {visible(str(to))}")
    return 0


def _rows(path: str, label: str) -> Iterator[Row]:
    folder = RunFolder.open(Path(path).expanduser())
    config = read(folder.config)
    model = visible(model_name(config.model))
    about = f"{model}, {config.data.kind}, "
    about += f"{config.sweep.seeds} seeds" if config.is_sweep else f"seed {config.seed}"
    about += "" if config.attack.kind == "none" else f", attack={config.attack.kind}"
    found: list[dict[str, Any]]
    if config.is_sweep:
        found = [
            {"method": row.method, "values": row.values, "ci95": row.ci95, **row.means}
            for row in recorded_rows(folder.path, config.seed)
            if row.method  # without one, all trials were stopped early
        ]
    else:
        found = [
            {**row, "values": {}, "ci95": (row["low"], row["high"])}
            for row in run_tables(folder)["metrics"].to_arrow().to_pylist()
        ]
    if not found:
        raise UserError(f"{path} has no results: resume it to its end, or leave it out; studies have none")
    for row in found:
        name = "".join([label, *(f", {key}={plain(value)}" for key, value in row["values"].items())])
        low, high = row["ci95"]
        texts = {"run": name, "about": about, "method": row["method"]}
        yield {**row, "model": model, "low": low, "high": high, **{key: visible(text) for key, text in texts.items()}}


def _laid_out(rows: Sequence[Row], by_run: bool) -> ShownTable:
    """Lays out runs as headings over their methods, with a column for each measure. With `by_run` a run is a column."""
    runs = dict.fromkeys(row["run"] for row in rows)
    if by_run:
        columns, keys = list(runs), ["utility"] * len(runs)
        of = {(row["method"], row["run"]): row for row in rows}
        parts = {
            SHOWN["utility"][0]: {row["method"]: [of.get((row["method"], run), {}) for run in runs] for row in rows}
        }
    else:
        keys = [key for key in SHOWN if any(row.get(key) is not None for row in rows)]
        columns, parts = [SHOWN[key][0].replace("\n", " ") for key in keys], {}
        for row in rows:
            parts.setdefault(f"{row['run']} ({row['about']})", {})[row["method"]] = [row] * len(keys)
    models = dict.fromkeys(note for row in rows for note in model_notes(row["model"]))
    shown: list[tuple[str, ...]] = []
    for heading, of_method in parts.items():
        cells = [
            [(SHOWN[key][1](row), row.get(key)) for key, row in zip(keys, of, strict=True)] for of in of_method.values()
        ]
        texts = marked(cells, [BEST.get(key) for key in keys])
        shown += [(heading,), *((method, *of) for method, of in zip(of_method, texts, strict=True))]
    title, groups = "Methods compared.", (("", len(columns)),)
    return ShownTable(("", *columns), shown, (NOTE, *models), title, name="runs", groups=groups)
