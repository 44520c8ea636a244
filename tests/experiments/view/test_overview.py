"""The list tells running, finished, failed and stopped runs apart, and what each has done and used so far."""

import os
import subprocess
import sys
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from actors.messages import Usage
from experiments.analysis import summary
from experiments.config.config import Config
from experiments.config.loading import load
from experiments.config.saved import save
from experiments.jobs import plan_of
from experiments.records import jsonl
from experiments.records.recorder import OVERVIEW, Recorder, RunFolder
from experiments.records.start import STARTS, Start, write_start
from experiments.records.trials import RESULTS
from experiments.records.usage import UsageLog
from experiments.view.folders import Root
from experiments.view.live import LineIndex
from experiments.view.overview import Overviews, save_overview
from experiments.view.saved_overview import Overview
from experiments.view.state import FAILED, FINISHED, RUNNING, STOPPED, UNREAD, is_alive
from tests.support.fake_run import FACTS, METHODS, carry_on
from tests.support.words import joined


def begun(folder: Path, config: Config | None = None) -> RunFolder:
    """A run whose process has ended, on this machine."""
    run = RunFolder.create(folder, "fake")
    save(config or Config(), run.config)
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        write_start(run.path, ["experiment=fake"])
    start = replace(Start.decode((run.path / STARTS).read_text()), pid=ended.pid)
    (run.path / STARTS).write_text(f"{start.encode()}\n")
    return run


def seen(run: RunFolder) -> Overview:
    [one] = Overviews(Root.open(str(run.path))).all()
    return one


def test_a_run_is_running_while_its_records_are_written(tmp_path: Path) -> None:
    run = begun(tmp_path)
    assert seen(run).state == STOPPED
    with Recorder(run):
        assert seen(run).state == RUNNING
        # Of the process that holds the lock, whatever the records say.
        assert seen(run).stop == f"kill {os.getpid()}"
    assert seen(run).state == STOPPED


def test_a_run_that_has_not_recorded_anything_is_running_while_its_process_lives(tmp_path: Path) -> None:
    run = begun(tmp_path)
    (run.path / STARTS).write_text("")
    write_start(run.path, [])
    assert seen(run).state == RUNNING
    assert not seen(run).stop
    start = Start.decode((run.path / STARTS).read_text())
    earlier = datetime.fromisoformat(start.time) - timedelta(days=1)
    # Another process had this number then.
    assert is_alive(start)
    assert not is_alive(replace(start, time=earlier.isoformat(timespec="seconds")))
    assert not is_alive(replace(start, host="elsewhere"))
    assert not is_alive(replace(start, pid=0))


def test_a_failure_in_the_log_counts_until_the_next_start(tmp_path: Path) -> None:
    run = begun(tmp_path)
    now = f"{datetime.now() + timedelta(seconds=2):%Y-%m-%d %H:%M:%S},123"
    run.log.write_text(f"{now} ERROR root the run failed\nTraceback\n")
    assert seen(run).state == FAILED
    assert "resume=" in seen(run).resume
    run.log.write_text("2001-01-01 00:00:00,123 ERROR root the run failed\n")
    assert seen(run).state == STOPPED


def test_what_a_run_has_done_and_used_is_counted(tmp_path: Path) -> None:
    config = Config()
    config.costs.prompt_price, config.costs.cached_price, config.costs.completion_price = 2.0, 1.0, 3.0
    run = begun(tmp_path, config)
    carry_on(run, steps=3, questions=4)
    used = {"reader": Usage()}
    with UsageLog(run, lambda: used).phase("evaluating m3prune"):
        used["reader"] = Usage(1, 3_000_000, 1_000_000, 1_000_000)
    overviews = Overviews(Root.open(str(tmp_path)))
    [one] = overviews.all()
    assert (one.completed, one.expected, one.steps) == (4 * len(METHODS), 100 * len(config.methods), 6)
    assert (one.tokens, one.price) == (4_000_000, 2 * 2 + 1 + 3)
    carry_on(run, steps=3, questions=6)
    summary.write(run, summary.summarise(run, FACTS))
    [one] = overviews.all()
    assert (one.completed, one.state, one.resume) == (6 * len(METHODS), FINISHED, "")


@pytest.mark.parametrize(
    "words",
    [
        ["methods=[single,m3prune,best_single,self_consistency]", "compare.twins=true"],
        ["methods=[single,full]", "attack=response", "attack.clean=true"],
        ["methods=[single,m3prune]", "attack=response", "attack.clean=true", "attack.when=train"],
    ],
)
def test_a_run_is_to_answer_every_question_in_each_evaluation_of_its_plan(tmp_path: Path, words: list[str]) -> None:
    config = load(joined("experiment=one_attacker", "attack=none", "data.limit=20", *words))
    begun(tmp_path, config)
    [one] = Overviews(Root.open(str(tmp_path))).all()
    assert one.expected == 20 * len(plan_of(config).evaluations)


def test_a_sweep_has_its_trials(tmp_path: Path) -> None:
    config = Config()
    config.sweep.seeds = 2
    sweep = begun(tmp_path, config)
    for name in ("a", "b"):
        trial = sweep.path / "trials" / name
        trial.mkdir(parents=True)
        save(Config(), trial / "config.yaml")
    with (sweep.path / RESULTS).open("ab", buffering=0) as file:
        jsonl.lock(file)
        whole, *trials = Overviews(Root.open(str(tmp_path))).all(sweep.path.name)
    assert (whole.kind, whole.state, whole.completed, whole.expected) == ("sweep", RUNNING, 0, 2)
    assert [(one.name, one.state, one.resume) for one in trials] == [
        (f"{sweep.path.name}/trials/{name}", STOPPED, "") for name in ("a", "b")
    ]


def test_a_run_that_cannot_be_read_is_listed_with_its_problem(tmp_path: Path) -> None:
    for number, damage in enumerate(("config.yaml", STARTS, "usage.jsonl")):
        run = begun(tmp_path)
        (run.path / damage).write_text("{]\n")
        assert str(run.path) in seen(run).problem
        assert len(Overviews(Root.open(str(tmp_path))).all()) == number + 1


def test_runs_that_no_time_is_left_for_are_read_by_the_next_look(tmp_path: Path) -> None:
    for _ in range(3):
        begun(tmp_path)
    overviews = Overviews(Root.open(str(tmp_path)))
    assert [one.state for one in overviews.all(within_s=0)] == [UNREAD] * 3
    assert [one.state for one in overviews.all()] == [STOPPED] * 3
    assert [one.state for one in overviews.all(within_s=0)] == [STOPPED] * 3


def test_a_run_that_cannot_be_read_is_not_read_again_before_it_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = begun(tmp_path)
    (run.path / "usage.jsonl").write_text("{]\n")
    overviews = Overviews(Root.open(str(tmp_path)))
    [first] = overviews.all()
    assert first.problem
    monkeypatch.setattr("experiments.view.overview.read", None)  # reading it again would fail in another way
    assert overviews.all() == [first]
    monkeypatch.undo()
    (run.path / "usage.jsonl").unlink()
    assert overviews.all()[0].state == STOPPED


def test_a_finished_run_is_listed_by_its_saved_overview_until_its_records_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = begun(tmp_path)
    carry_on(run, steps=1, questions=2)
    save_overview(run.path)
    assert not (run.path / OVERVIEW).exists()  # the run has no result
    summary.write(run, summary.summarise(run, FACTS))
    save_overview(run.path)
    with monkeypatch.context() as patched:
        patched.setattr("experiments.view.overview.read", None)
        saved = seen(run)
    (run.path / OVERVIEW).rename(tmp_path / OVERVIEW)
    assert saved == seen(run)
    (tmp_path / OVERVIEW).rename(run.path / OVERVIEW)
    carry_on(run, steps=1, questions=3)
    assert seen(run).completed == 3 * len(METHODS)
    (run.path / OVERVIEW).write_text("[]\n")
    assert OVERVIEW in seen(run).problem


def test_lines_are_found_while_their_file_grows_is_cut_and_compressed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jsonl, "COMPRESS_BYTES", 10_000)
    path = tmp_path / "x.jsonl"
    lines = LineIndex(path)
    assert list(lines.new()) == []
    path.write_bytes(b"a\nbb\nhalf")
    assert list(lines.new()) == [b"a\n", b"bb\n"]
    path.write_bytes(b"a\nbb\nhalf done\nd\n")
    version = lines.version
    assert list(lines.new()) == [b"half done\n", b"d\n"]
    assert lines.version == version
    os.truncate(path, 2)
    assert list(lines.new()) == [b"a\n"]
    assert lines.version != version
    with path.open("ab") as file:
        file.write(b"long\n" * (jsonl.COMPRESS_BYTES // 5 + 1))
    jsonl.compress(path)
    assert not path.exists()
    assert (lines.line(0), lines.line(1000)) == (b"a\n", b"long\n")
