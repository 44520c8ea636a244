"""Results of a sweep so far. Reading them takes milliseconds for each trial, and a page asks for them often."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Lock

from experiments.analysis.compare import frozen
from experiments.analysis.grouping import grouped
from experiments.analysis.page import Section
from experiments.analysis.run_facts import metric_of
from experiments.analysis.sweep_report import SweepRow, rows_of, sweep_sections, sweep_table
from experiments.config.saved import read
from experiments.records.recorder import RunFolder
from experiments.records.trials import TRIALS, TrialResult, read_results
from experiments.view.folders import files_of


class SweepResults:
    """Results of one sweep, for several threads.

    Rows of a setting are read again only where files of its trials have changed.
    """

    def __init__(self, run: RunFolder) -> None:
        self._run = run
        self._lock = Lock()
        self._rows: dict[str, tuple[object, list[SweepRow]]] = {}  # by setting, with the state of the files

    def sections(self, figures: Sequence[Path]) -> Iterator[Section]:
        """Yields the sections of the sweep's page. None before the first trial has ended."""
        results = read_results(self._run.path, stopped=True)
        if results:
            metric = metric_of(results[0].metrics)
            rows = self.rows(results, read(self._run.config).seed)
            table = sweep_table(rows, metric, results[0].metrics.get("model", ""))
            yield from sweep_sections(self._run.path, results, metric, figures, table, page_of_trial="")

    def rows(self, results: Sequence[TrialResult], seed: int) -> list[SweepRow]:
        """Returns the rows of some trials (`rows_of`). Raises UserError for damaged records."""
        rows: list[SweepRow] = []
        settings = grouped(results, key=lambda result: frozen(result.values))
        # Two pages of one sweep would read the same.
        with self._lock:
            for setting, trials in settings.items():
                files = [files_of(RunFolder(self._run.path / TRIALS / trial.name)) for trial in trials]
                state = (seed, trials, files)
                if setting not in self._rows or self._rows[setting][0] != state:
                    self._rows[setting] = (state, rows_of(self._run.path, trials, seed))
                rows += self._rows[setting][1]
        return rows
