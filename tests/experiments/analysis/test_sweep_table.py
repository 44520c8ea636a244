"""A sweep's table, files and report carry strict exact match where its trials have it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from experiments.analysis.reports import write_sweep_report
from experiments.analysis.summary import summarise
from experiments.analysis.sweep_table import sweep_rows, sweep_table, write
from experiments.datasets.item import Score
from experiments.records.recorder import Recorder, RunFolder
from experiments.records.trials import TrialResult
from tests.experiments.analysis.test_summary import ABOUT
from tests.support.fake_run import item, trace


def trial(folder: Path, name: str, rounds: int, seed: int, strict: Sequence[float | None]) -> TrialResult:
    """A finished trial whose answers are all right by containment, and strictly as told."""
    run = RunFolder(folder / "trials" / name)
    run.path.mkdir(parents=True)
    with Recorder(run) as recorder:
        for number, value in enumerate(strict):
            recorder.evaluated(trace(number), item(number), Score(1, 1, value))
    metrics = summarise(run, replace(ABOUT, methods=("m3prune",), pairs=()))
    return TrialResult(name, {"topology.rounds": rounds}, seed, metrics)


def test_strict_exact_match_is_a_mean_over_all_trials_of_a_row_or_left_out(tmp_path: Path) -> None:
    results = [
        trial(tmp_path, "0", 2, 0, [1, 0, 0, 0]),
        trial(tmp_path, "1", 2, 1, [1, 1, 1, 0]),
        trial(tmp_path, "2", 4, 0, [1, 1, 1, 1]),
        trial(tmp_path, "3", 4, 1, [None, 1, 1, 1]),
    ]
    rows = sweep_rows(tmp_path, results, seed=0)
    assert [row.means.get("strict_em") for row in rows] == [0.5, None]
    table = sweep_table(rows, "EM", "reader")
    assert table.columns[:4] == ("rounds", "method", "EM (95% interval)", "strict EM")
    assert [row[3] for row in table.rows] == ["0.500", "-"]
    assert all(len(row) == len(table.columns) for row in table.rows)
    write(tmp_path, rows, {}, "fake")
    assert "utility,strict_em,f1" in (tmp_path / "sweep.csv").read_text()
    write_sweep_report(tmp_path, results, "EM", [], table)
    page = (tmp_path / "report.html").read_text()
    assert page.count('<th scope="col">strict EM</th>') == 2
    assert "<td>0.250</td>" in page


def test_a_sweep_on_a_strict_metric_has_no_such_column(tmp_path: Path) -> None:
    results = [trial(tmp_path, "0", 2, 0, [None, None])]
    table = sweep_table(sweep_rows(tmp_path, results, seed=0), "accuracy", "reader")
    assert "strict EM" not in table.columns
    assert all(len(row) == len(table.columns) for row in table.rows)
