"""Results of a sweep so far. Reading them takes milliseconds for each trial, and a page asks for them often."""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path

from experiments.analysis.compare import frozen
from experiments.analysis.grouping import grouped
from experiments.analysis.page import Section
from experiments.analysis.run_facts import metric_of
from experiments.analysis.sweep_report import SweepRow, rows_of, sweep_sections, sweep_table
from experiments.config.saved import read
from experiments.records.recorder import RunFolder
from experiments.records.trials import TRIALS, TrialResult, read_results
from experiments.view.folders import FileState, files_of

MOST_SETTINGS = 2_000  # of all sweeps, whose rows are kept


def sweep_results(run: RunFolder, figures: Sequence[Path]) -> Iterator[Section]:
    """Yields the sections of a sweep's page. None before the first trial has ended."""
    results = read_results(run.path, stopped=True)
    if results:
        metric = metric_of(results[0].metrics)
        rows = kept_rows(run.path, results, read(run.config).seed)
        table = sweep_table(rows, metric, results[0].metrics.get("model", ""))
        yield from sweep_sections(run.path, results, metric, figures, table, page_of_trial="")


def kept_rows(folder: Path, results: Sequence[TrialResult], seed: int) -> list[SweepRow]:
    """Returns the rows of some trials (`rows_of`). Those of a setting are read where files of its trials have changed.

    Raises UserError for damaged records.
    """
    rows: list[SweepRow] = []
    settings = grouped(results, key=lambda result: frozen(result.values))
    for trials in settings.values():
        files: list[FileState] = []
        for trial in trials:
            files += files_of(RunFolder(folder / TRIALS / trial.name))
        rows += _rows_of_setting(folder, seed, tuple(trial.encode() for trial in trials), tuple(files))
    return rows


@lru_cache(MOST_SETTINGS)
def _rows_of_setting(folder: Path, seed: int, results: tuple[str, ...], files: tuple[FileState, ...]) -> list[SweepRow]:
    """Reads rows. results: as recorded. files: part of the key alone."""
    return rows_of(folder, list(map(TrialResult.decode, results)), seed)
