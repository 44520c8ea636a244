"""Whole sweeps through the command line, on real Ray: shared agents change no trial, and no kill loses one."""

import csv
import json
import re
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from actors.errors import ClusterError, UserError
from experiments.config.loading import load
from experiments.config.setting_groups import SweepSettings
from experiments.records.trials import RESULTS, read_results
from experiments.runner import open_folder
from experiments.sweeps.trial_steps import Report
from run import main
from tests.support.sessions import assert_same_records, begin, finish, folder_of, interrupt, wait_for
from tests.support.words import joined

pytestmark = pytest.mark.ray

TINY = """experiment=mmqa_prune data.limit=4 pruning.steps=2 training.samples=2 methods=[full,m3prune]
topology.text=[critic,scientist] topology.visual=[critic] wandb.mode=disabled figures=false""".split()
ROUNDS = "sweep.axes.topology.rounds=[1,2]"


@pytest.fixture(scope="module")
def swept(output: Path) -> Path:
    """Rounds x seeds, interrupted in the first trial, resumed over Ray, killed after it, and resumed without."""
    process = begin(*TINY, ROUNDS, "sweep.seeds=2", "runtime=inline", f"output={output}")
    wait_for(process, output, "*-mmqa_prune/trials/*/scores.jsonl")
    error = interrupt(process)
    [folder] = output.glob("*-mmqa_prune")
    assert f"resume={folder}" in error
    process = begin(f"resume={folder}", "runtime=ray")
    wait_for(process, folder, RESULTS)
    process.kill()
    _, error = process.communicate()
    first = (folder / RESULTS).read_bytes()
    assert 1 <= first.count(b"\n") < 4, error
    finished = {path: path.stat().st_mtime_ns for path in folder.glob("trials/*/metrics.json")}
    finished = {path: at for path, at in finished.items() if path.parent.name in first.decode()}
    assert folder_of(finish(begin(f"resume={folder}", "runtime=inline"))) == folder
    assert (folder / RESULTS).read_bytes().startswith(first)
    assert {path: path.stat().st_mtime_ns for path in finished} == finished, "a finished trial was done again"
    return folder


def test_no_trial_is_lost_or_repeated_by_a_kill(swept: Path) -> None:
    names = [json.loads(line)["name"] for line in (swept / RESULTS).read_text().splitlines()]
    assert sorted(names) == [
        f"{n:04}-rounds={rounds},seed={seed}" for n, (rounds, seed) in enumerate(((1, 0), (1, 1), (2, 0), (2, 1)))
    ]
    assert not (swept / "tune").exists()


@pytest.mark.parametrize("seed", [0, 1])
def test_the_trial_that_was_interrupted_and_the_next_one_have_the_records_of_a_run_alone(
    seed: int, swept: Path, output: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*TINY, "topology.rounds=1", f"seed={seed}", "runtime=inline", f"output={output / 'alone'}"]) == 0
    alone = folder_of(capsys.readouterr().out)
    assert_same_records(swept / "trials" / f"000{seed}-rounds=1,seed={seed}", alone)


def test_a_trial_is_a_whole_run_folder(swept: Path) -> None:
    for trial in (swept / "trials").iterdir():
        names = {path.name for path in trial.iterdir()}
        assert names >= {"config.yaml", "run.log", "metrics.json", "report.html", "usage.jsonl"}
        assert "figures" not in names


def test_the_table_has_a_row_for_each_setting_and_method(swept: Path) -> None:
    with (swept / "sweep.csv").open() as lines:
        rows = list(csv.DictReader(lines))
    told = [(row["topology.rounds"], row["method"], row["seeds"]) for row in rows]
    assert told == [(rounds, method, "2") for rounds in "12" for method in ("full", "m3prune")]
    for row in rows:
        assert 0 <= float(row["ci95_low"]) <= float(row["utility"]) <= float(row["ci95_high"]) <= 1
    found = [r.metrics["methods"]["full"]["utility"] for r in read_results(swept) if r.values["topology.rounds"] == 2]
    assert float(rows[2]["utility"]) == pytest.approx(sum(found) / 2)
    assert len(json.loads((swept / "sweep.json").read_text())["rows"]) == 4


def test_a_trial_that_fails_is_named_and_ends_no_other_and_one_that_falls_behind_is_stopped(
    output: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # One trial after another, so that seed 1 is compared with seed 0, which does better, and never with a trial of the
    # other temperature.
    asha = ["sweep.stop=asha", "sweep.grace=1", "sweep.reduction=2", "sweep.parallel=1", "runtime=inline"]
    asha += ["methods=[full,m3prune,effects]", "wandb.mode=offline"]
    axis = "sweep.axes.agents.temperature=[0.7,0.1]"
    words = joined(*TINY, axis, *asha, "sweep.seeds=2", f"output={output / 'more'}")
    folder = open_folder(load(words)).path
    broken = folder / "trials" / "0002-temperature=0.1,seed=0"
    broken.mkdir(parents=True)
    (broken / "scores.jsonl").write_text("no record\n")
    assert main([f"resume={folder}"]) == 1
    printed = " ".join(capsys.readouterr().out.split())
    ended = {result.name: result for result in read_results(folder, stopped=True)}
    best, behind = ended["0000-temperature=0.7,seed=0"], ended["0001-temperature=0.7,seed=1"]
    assert best.stopped == 0
    assert best.metrics["methods"].keys() == {"full", "m3prune", "effects"}
    assert (behind.stopped, behind.metrics) == (1, {})
    steps = (folder / "trials" / behind.name / "learned" / "m3prune" / "learning.jsonl").read_text().splitlines()
    assert [json.loads(step)["step"] for step in steps] == [0, 1], "it has learned no longer than was decided upon"
    assert ended.keys() == {best.name, behind.name, "0003-temperature=0.1,seed=1"}
    assert json.loads((folder / "sweep.json").read_text())["failed"].keys() == {broken.name}
    assert f"{broken.name}: {broken}/scores.jsonl, line 1: " in printed


def test_a_trial_whose_process_is_stopped_is_taken_up_again(output: Path) -> None:
    own = output / "stopped"
    words = [*TINY, "methods=[full,ring,star]", "data.limit=12", "completions.reuse=false", "ray.hung_s=5"]
    words += ["sweep.seeds=2", "sweep.parallel=1", "runtime=inline"]
    process = begin(*joined(*words, f"output={own}"))
    wait_for(process, own, "*/trials/*/scores.jsonl")
    [trial] = [
        child
        for child in psutil.Process(process.pid).children(recursive=True)
        if "Trainable" in " ".join(child.cmdline())
    ]
    trial.suspend()
    assert re.search(r"trial \S+: .* process died", finish(process))
    assert len(list(own.glob("*/trials/*/metrics.json"))) == 2


def test_a_trial_that_got_on_in_its_attempts_has_as_many_again(tmp_path: Path) -> None:
    from experiments.sweeps.tuning import Ends  # imports Tune

    reports: list[tuple[str, Report]] = []
    scores = tmp_path / "one" / "scores.jsonl"
    scores.parent.mkdir()
    ends = Ends(tmp_path, lambda *report: reports.append(report), print)
    trial = SimpleNamespace(config={"trial": "one"}, get_error=lambda: "Traceback\nlost its machine")
    scores.write_text("a line\n")
    ends.on_trial_error(0, [trial], trial)
    assert (reports, ends.ended_names) == ([], set())
    ends.on_trial_error(0, [trial], trial)
    [(name, report)] = reports
    assert name == "one"
    assert report.failed.endswith("lost its machine")


def test_what_goes_wrong_while_a_trial_s_end_is_recorded_ends_the_sweep_and_is_no_failure_of_the_trial() -> None:
    from experiments.sweeps.tuning import Ends  # imports Tune

    def full(*_: object) -> None:
        raise UserError("cannot write trials.jsonl")

    ends, trial = Ends(Path(), full, lambda _: None), SimpleNamespace(config={"trial": "one"})
    trial.last_result = {"steps": 1, "utility": 0.5, "finished": True, "failed": "", "untracked": ""}
    ends.on_trial_complete(0, [trial], trial)  # Tune keeps to itself what is raised here
    with pytest.raises(UserError, match=r"cannot write trials\.jsonl"):
        ends.on_step_end(0, [trial])


def test_trials_go_on_after_one_whose_process_was_killed_for_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ray.exceptions import OutOfMemoryError

    from experiments.sweeps import tuning  # imports Tune

    begun: list[list[str]] = []

    def tuner(_: object, names: list[str], storage: Path, settings: object, steps: int, ends: tuning.Ends) -> Any:
        def fit() -> None:
            begun.append(names)
            if len(begun) == 1:
                ends.ended_names.add("one")
            if len(begun) == 3:
                ends.ended_names.add("two")
            else:
                try:
                    raise OutOfMemoryError("Task was killed due to the node running low on memory.")
                except OutOfMemoryError as error:
                    raise RuntimeError("Caught unexpected exception") from error

        return SimpleNamespace(fit=fit)

    monkeypatch.setattr(tuning, "_tuner", tuner)
    said: list[str] = []
    run = partial(tuning.run_trials, ["one", "two"], None, tmp_path, SweepSettings(), 1, 60.0, print, said.append)
    run()
    assert begun == [["one", "two"], ["two"], ["two"]]
    assert said == ["a trial's process was killed because memory ran out; all are taken up again"] * 2
    begun[:] = []
    monkeypatch.setattr(tuning, "ATTEMPTS", 1)
    with pytest.raises(ClusterError, match=r"sweep\.parallel"):
        run()
