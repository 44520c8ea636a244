"""One table of any runs and sweeps, for a paper: `python run.py table=[runs/a,runs/b]`."""

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path

import pandas as pd

from actors.backends.model_settings import model_name
from actors.errors import UserError, visible
from experiments.analysis.arrow_tables import run_tables
from experiments.analysis.result_table import Row, cell_text, interval_form, plain
from experiments.analysis.run_facts import Metrics, model_notes
from experiments.analysis.run_table import MEASURES
from experiments.analysis.scores import COSTS
from experiments.analysis.sweep_report import rows_of
from experiments.analysis.tables.formats import ShownTable, block, latex, markdown
from experiments.config.saved import read
from experiments.config.yaml_tree import yaml_tree
from experiments.records.recorder import RunFolder
from experiments.records.run_files import write_atomically
from experiments.records.trials import read_results

OPTIONS = {"format": ("latex", "markdown", "csv"), "columns": ("measures", "runs")}
SUFFIXES = {".tex": "latex", ".md": "markdown", ".csv": "csv"}
NOTE = "Utility is the data set's metric (EM or accuracy), with a 95% bootstrap interval; the best of a column is bold."
REMEDY = "write table=[runs/a,runs/b]"

# Header and cells of each measure, in the order of columns.
SHOWN = {
    "utility": ("utility (95% interval)", interval_form("utility", "ci95").replace("-", "–")),
    **{name: MEASURES[name] for name in ("strict_em", "f1", "acc_star", "attack_success")},
    **{name: (name.upper(), f"{{{name}:.3f}}") for name in ("tpr", "fpr", "auroc")},
    "utility_lost": ("utility lost when clean", "{utility_lost:+.3f}"),
    **{name: MEASURES[name] for name in COSTS},
}
# The best of a column is its largest value, except for these; costs have none.
SMALLEST = ("attack_success", "fpr", "utility_lost")


def table_of(folders: str, options: Sequence[str]) -> int:
    """Prints a table of runs and sweeps, or writes it to `table.to`. Returns exit code 0.

    folders: a run folder, several in brackets, or several with labels: `{clean: runs/a, attacked: runs/b}`.
    options: `table.to=<file>` and those of `OPTIONS`; the format is that of the file's suffix, else LaTeX.

    Raises UserError for other options, and for a folder that is none or has no results.
    """
    settings = dict(option.removeprefix("table.").partition("=")[::2] for option in options)
    file = Path(settings.pop("to", "")).expanduser()
    choices = {"format": SUFFIXES.get(file.suffix, "latex"), "columns": "measures"} | settings
    for name, value in choices.items():
        if value not in OPTIONS.get(name, ()):
            values = ", ".join(f"table.{key}={'|'.join(values)}" for key, values in OPTIONS.items())
            raise UserError(f"table.{name}={value}: table=[<run folder>,...] takes table.to=<file>, {values}")

    rows: list[Row] = []
    for label, path in _labelled(folders).items():
        rows += _rows(path, label)
    text = _text(rows, choices["format"], choices["columns"])
    if not file.name:
        print(text.rstrip("\n"))
        return 0
    try:
        write_atomically(file, text.encode())
    except OSError as error:
        raise UserError(f"table.to={file} cannot be written ({error.strerror}); choose another file") from error
    print(f"table: {visible(str(file))}")
    return 0


def _text(rows: Sequence[Row], text_format: str, columns: str) -> str:
    """Writes the table in a format of `OPTIONS`."""
    if text_format == "csv":
        measures = list(SHOWN)[1:]
        table = pd.DataFrame(rows, columns=["run", "method", "utility", "low", "high", *measures])
        return str(table.to_csv(index=False, lineterminator="\n"))
    layout = _by_run(rows) if columns == "runs" else _by_measure(rows)
    return latex(layout) if text_format == "latex" else markdown(layout)


def _labelled(folders: str) -> dict[str, str]:
    """Reads the folders of a table by label: as given, or their names, or their paths where two have one name."""
    try:
        tree = yaml_tree(folders)
    except UserError as error:
        raise UserError(f"table={folders} cannot be read ({error}); {REMEDY}") from error
    paths: dict[str, str]
    if isinstance(tree, dict):
        paths = tree
    else:
        listed = tree if isinstance(tree, list) else [tree]
        by_name = {Path(str(path)).name: path for path in listed}
        paths = by_name if len(by_name) == len(listed) else {str(path): path for path in listed}
    if not paths or not all(isinstance(path, str) and path for path in paths.values()):
        raise UserError(f"table={folders}: expected run folders; {REMEDY}")
    return paths


def _rows(path: str, label: str) -> Iterator[Row]:
    """Yields the measures of each method of a run, or of each method and setting of a sweep."""
    folder = RunFolder.open(Path(path).expanduser())
    config = read(folder.config)
    model = visible(model_name(config.model))
    seeds = f"{config.sweep.seeds} seeds" if config.is_sweep else f"seed {config.seed}"
    about = f"{model}, {config.data.kind}, {seeds}"
    if config.attack.kind != "none":
        about += f", attack={config.attack.kind}"

    rows = _sweep_rows(folder, config.seed, label) if config.is_sweep else _run_rows(folder, label)
    if not rows:
        raise UserError(f"{path} has no results: resume it to its end, or leave it out; studies have none")
    for row in rows:
        yield {
            **row,
            "run": visible(row["run"]),
            "method": visible(row["method"]),
            "about": visible(about),
            "model": model,
            "ci95": (row["low"], row["high"]),
        }


def _run_rows(folder: RunFolder, label: str) -> list[Metrics]:
    metrics = run_tables(folder)["metrics"].to_arrow().to_pylist()
    return [{**row, "run": label} for row in metrics]


def _sweep_rows(folder: RunFolder, seed: int, label: str) -> list[Metrics]:
    rows = []
    results = read_results(folder.path, stopped=True)
    for row in rows_of(folder.path, results, seed):
        # Without an interval, all trials were stopped early.
        if row.ci95 is not None:
            low, high = row.ci95
            settings = [f"{key}={plain(value)}" for key, value in row.values.items()]
            name = ", ".join([label, *settings])
            rows.append(
                {
                    **row.means,
                    "run": name,
                    "method": row.method,
                    "low": low,
                    "high": high,
                }
            )
    return rows


def _by_measure(rows: Sequence[Row]) -> ShownTable:
    """Lays out runs as headings over their methods, with a column for each measure."""
    measures = pd.DataFrame(rows).dropna(axis="columns", how="all")
    names = [name for name in SHOWN if name in measures]
    columns = []
    choices: list[Callable[..., float] | None] = []
    for name in names:
        columns.append(SHOWN[name][0].replace("\n", " "))
        best = min if name in SMALLEST else max
        choices.append(None if name in COSTS else best)
    runs: dict[str, dict[str, Row]] = {}
    for row in rows:
        runs.setdefault(f"{row['run']} ({row['about']})", {})[row["method"]] = row

    body: list[tuple[str, ...]] = []
    for heading, methods in runs.items():
        cells = {}
        for method, row in methods.items():
            cells[method] = [(cell_text(SHOWN[name][1], row), row.get(name)) for name in names]
        body += block(heading, cells, choices)
    return _shown(columns, body, rows)


def _by_run(rows: Sequence[Row]) -> ShownTable:
    """Lays out the utility of methods, with a column for each run."""
    header, form = SHOWN["utility"]
    by_place = {(row["method"], row["run"]): row for row in rows}
    runs = list(dict.fromkeys(row["run"] for row in rows))
    cells = {}
    for method in dict.fromkeys(row["method"] for row in rows):
        measures = [by_place.get((method, run), {}) for run in runs]
        cells[method] = [(cell_text(form, row), row.get("utility")) for row in measures]
    return _shown(runs, list(block(header, cells, [max] * len(runs))), rows)


def _shown(columns: Sequence[str], body: Sequence[tuple[str, ...]], rows: Sequence[Row]) -> ShownTable:
    models = dict.fromkeys(chain.from_iterable(model_notes(row["model"]) for row in rows))
    return ShownTable(
        columns=("", *columns),
        rows=body,
        notes=(NOTE, *models),
        title="Methods compared.",
        name="runs",
        groups=[""] * len(columns),
    )
