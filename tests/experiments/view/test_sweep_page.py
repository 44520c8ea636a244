"""The rows of a sweep's page are read again where files of its trials have changed, and only there."""

import os
from pathlib import Path

import pytest

from actors.errors import UserError
from experiments.analysis.sweep_report import rows_of
from experiments.records.trials import TRIALS
from experiments.view.sweep_page import kept_rows
from tests.support.fake_sweep import make_sweep


def test_rows_are_read_again_where_files_of_their_trials_have_changed(tmp_path: Path) -> None:
    results = make_sweep(tmp_path, [{"a": 1}, {"a": 2}], ["single", "full"], lambda *_: 0.5, seeds=2, questions=4)
    rows = kept_rows(tmp_path, results, 0)
    assert rows == rows_of(tmp_path, results, 0)
    assert len(rows) == 4

    scores = tmp_path / TRIALS / results[0].name / "scores.jsonl"
    before = scores.stat()
    scores.write_text(scores.read_text().replace('"utility":1.0', '"utility":0.0'))
    os.utime(scores, ns=(before.st_atime_ns, before.st_mtime_ns))
    # Of the same size and date, the file counts as the same.
    assert kept_rows(tmp_path, results, 0) == rows
    os.utime(scores)
    with pytest.raises(UserError, match="its scores give 0"):
        kept_rows(tmp_path, results, 0)
    assert kept_rows(tmp_path, results[2:], 0) == rows[2:]
