"""Outputs beside the records: each that fails is named at the end, and made again from the folder."""

from pathlib import Path

import pytest

from experiments.analysis import reports
from run import main
from tests.support.sessions import folder_of, run_folder
from tests.support.wandb_log import OfflineRun, assert_has_all_of

pytestmark = pytest.mark.slow

TINY = ["runtime=inline", "data.limit=3", "methods=[single,full]"]


def broken_report(*arguments: object, **named: object) -> Path:
    raise OSError("no room for the page")


def test_an_output_that_fails_is_named_in_the_last_lines_and_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(reports, "write_run_report", broken_report)
        words = ["experiment=mmqa_prune", *TINY, "figures=false", "wandb.mode=disabled", f"output={tmp_path}"]
        assert main(words) == 0
    folder = run_folder(tmp_path)
    *_, failure, took, run = capsys.readouterr().out.splitlines()
    assert failure.startswith("the report could not be made (no room for the page); ")
    assert failure.endswith(f"python run.py report={folder}")
    assert took.startswith("took")
    assert run == f"run: {folder}"
    assert "OSError" in (folder / "run.log").read_text()

    metrics = (folder / "metrics.json").read_bytes()
    assert main([f"report={folder}"]) == 0
    assert (folder / "report.html").stat().st_size
    assert (folder / "metrics.json").read_bytes() == metrics
    assert not (folder / "wandb").exists()
    assert main([f"track={folder}"]) == 2  # the run's own wandb.mode=disabled
    assert main([f"track={folder}", "wandb.mode=offline"]) == 0
    assert_has_all_of(OfflineRun(folder), folder)


def test_a_resumed_run_that_asks_nothing_prints_its_table_and_keeps_its_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["experiment=mmqa_prune", *TINY, "figures=false", f"output={tmp_path}"]
    assert main(words) == 0
    folder = run_folder(tmp_path)
    made = (folder / "report.html").stat().st_mtime_ns
    tracked = list(folder.glob("wandb/offline-run-*"))
    capsys.readouterr()
    assert main([f"resume={folder}"]) == 0
    assert "single" in capsys.readouterr().out
    assert (folder / "report.html").stat().st_mtime_ns == made
    assert list(folder.glob("wandb/offline-run-*")) == tracked
    # It was killed before W&B had all of it.
    (folder / "overview.json").unlink()
    assert main([f"resume={folder}"]) == 0
    assert len(list(folder.glob("wandb/offline-run-*"))) > len(tracked)
    # With figures that it has not drawn.
    assert main([f"resume={folder}", "figures=true"]) == 0
    assert list((folder / "figures").glob("*.png"))
    assert (folder / "report.html").stat().st_mtime_ns > made
    (folder / "report.html").unlink()
    assert main([f"resume={folder}"]) == 0
    assert (folder / "report.html").is_file()


def test_a_run_that_is_not_finished_concludes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["experiment=mmqa_prune", *TINY, "figures=false", "wandb.mode=disabled", f"output={tmp_path}"]
    assert main(words) == 0
    folder = run_folder(tmp_path)
    (folder / "metrics.json").unlink()
    assert main([f"report={folder}"]) == 2
    assert "resume=" in capsys.readouterr().err


@pytest.mark.ray
def test_the_offline_wandb_runs_of_a_sweep_have_all_of_its_trials(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["experiment=mmqa_prune", "data.limit=3", "methods=[single,m3prune]", "pruning.steps=2", "sweep.seeds=2"]
    assert main([*words, "figures=true", f"output={tmp_path}", f"cache={tmp_path / 'cache'}"]) == 0
    sweep = folder_of(capsys.readouterr().out)
    trials = sorted((sweep / "trials").iterdir())
    assert len(trials) == 2
    for trial in trials:
        tracked = OfflineRun(trial)
        assert tracked.figures
        assert_has_all_of(tracked, trial)
        assert " WARNING " not in (trial / "run.log").read_text()


@pytest.mark.parametrize("kind", [["experiment=one_attacker"], ["experiment=mmqa_prune", "judge=reader"]])
def test_an_offline_wandb_run_has_all_of_an_attacked_and_of_a_judged_run(
    kind: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*kind, *TINY, f"output={tmp_path}"]) == 0
    folder = folder_of(capsys.readouterr().out)
    assert_has_all_of(OfflineRun(folder), folder)
    assert " WARNING " not in (folder / "run.log").read_text()
