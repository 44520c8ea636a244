"""W&B gets the same figures, offline, inside the run folder; and what fails there is said and ends nothing."""

import logging
import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from actors.errors import UserError
from experiments.analysis.run_facts import Metrics
from experiments.analysis.summary import summarise, write
from experiments.config.loading import load
from experiments.config.references import check_machine
from experiments.records.recorder import RunFolder
from experiments.records.tracking import MOST_CHARACTERS, SERVICE, Tracker, WandbSettings, is_written, table_of
from run import main
from tests.support.fake_run import FACTS, make_run
from tests.support.paths import ROOT
from tests.support.wandb_log import OfflineRun

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return make_run(tmp_path_factory.mktemp("runs"), steps=1, questions=4)


@pytest.fixture(scope="module")
def metrics(run: RunFolder) -> Metrics:
    return summarise(run, FACTS)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def test_an_offline_run_lies_in_the_run_folder(run: RunFolder, metrics: Metrics) -> None:
    write(run, metrics)
    (run.learned("m3prune").path / "topology.graphml").write_text("<graphml/>")
    script = (
        "import json, pathlib, sys; from experiments.records.tracking import Tracker, WandbSettings\n"
        "from experiments.records import tracking; tracking.MOST_ROWS = 12\n"
        "path = pathlib.Path(sys.argv[1])\n"
        "settings = WandbSettings(project='test', group='sweep')\n"
        "tracker = Tracker(path, {'seed': 1, 'job': 'prune', 'data': {'name': 'sample'}}, settings)\n"
        "tracker.log({'stage': 1, 'step': 1, 'rank': -0.2})\n"
        "from actors.messages import Usage\n"
        "tracker.summary(json.loads((path / 'metrics.json').read_text()), usage=Usage(calls=7))\n"
        "tracker.finish()\n"
    )
    # A process of its own, whose output is W&B's alone.
    command = [sys.executable, "-c", script, str(run.path)]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert (said.returncode, said.stdout, said.stderr) == (0, "", "")
    tracked = OfflineRun(run.path)
    [record] = [one.run for one in tracked.records if one.run.run_id]
    assert (record.run_id, record.job_type, record.run_group) == (run.path.name, "prune", "sweep")
    discussions = tracked.tables["discussions"]
    scores = sorted(run.scores(), key=lambda scored: (scored.question, scored.method))
    assert discussions["question"] == [scored.question for scored in scores[:12]]
    assert discussions["utility"] == [scored.utility for scored in scores[:12]]
    assert tracked.summary["discussions/left_out"] == len(scores) - 12
    assert tracked.summary["usage/calls"] == 7
    assert tracked.artifacts[f"{run.path.name}-m3prune"] == ["topology.graphml"]


def test_every_trial_has_its_own_id_where_the_environment_names_one(tmp_path: Path) -> None:
    script = (
        "import pathlib, sys; from experiments.records.tracking import Tracker, WandbSettings\n"
        "for name in ('seed=0', 'seed=1'):\n"
        "    path = pathlib.Path(sys.argv[1], name); path.mkdir()\n"
        "    tracker = Tracker(path, {}, WandbSettings(group='sweep'), trial_id=f'sweep-{name[-1]}')\n"
        "    tracker.log({'step': 1}); tracker.finish()\n"
    )
    named = {"WANDB_RUN_ID": "shared", "WANDB_SWEEP_ID": "agent"}
    command = [sys.executable, "-c", script, str(tmp_path)]
    ended = subprocess.run(command, cwd=ROOT, env={**os.environ, **named}, capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (0, "")
    found = {path.stem for path in tmp_path.glob("*/wandb/offline-run-*/run-*.wandb")}
    assert found == {"run-sweep-0", "run-sweep-1"}


@pytest.mark.parametrize("trial_id", ["abc", None])
def test_a_resumed_run_goes_on_under_its_id(
    trial_id: str | None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for step in (1, 2):
        tracker = Tracker(tmp_path, {"seed": 1}, WandbSettings(), trial_id=trial_id)
        tracker.log({"step": step})
        tracker.finish()
    assert {path.stem for path in tmp_path.glob("wandb/offline-run-*/run-*.wandb")} == {
        f"run-{trial_id or tmp_path.name}"
    }
    assert warnings(caplog) == []


def test_disabled_tracking_imports_nothing(tmp_path: Path) -> None:
    script = (
        "import sys, pathlib; from experiments.records.tracking import Tracker, WandbSettings\n"
        f"tracker = Tracker(pathlib.Path({str(tmp_path)!r}), {{}}, WandbSettings(mode='disabled'))\n"
        "tracker.log({'step': 1}); tracker.summary({}); tracker.finish(); print('wandb' in sys.modules)"
    )
    command = [sys.executable, "-c", script]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert said.stdout == "False\n"
    assert list(tmp_path.iterdir()) == []


def test_a_failure_in_the_middle_ends_tracking_only(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    tracker = Tracker(tmp_path, {}, WandbSettings())
    tracker.summary({"paired": {}})
    tracker.log({"step": 1})
    tracker.finish()
    assert warnings(caplog) == [tracker.problem]
    assert tracker.problem.startswith("W&B could not summarise")


def test_a_column_of_a_table_has_one_type_whatever_its_cells_are() -> None:
    columns = {
        "number": [1, None, 0.5],
        "interval": [[0.1, 0.4], [], None],
        "texts": [["one"], ("one", "two", "three"), []],
        "mixed": [{"score": 1}, 2, "text"],
        "long": ["x" * 1_000, None, ""],
    }
    table = table_of(columns)
    assert list(zip(*table.data, strict=True)) == [
        (1, None, 0.5),
        ("0.1 to 0.4", "", None),
        ("one", "one | two | three", ""),
        ('{"score": 1}', "2", "text"),
        ("x" * MOST_CHARACTERS, None, ""),
    ]


HANGS = """
import logging, pathlib, signal, sys, time
import psutil
from experiments.records import tracking
logging.basicConfig(format="%(message)s")
tracking.FINISH_S = tracking.TEARDOWN_S = 1
path = pathlib.Path(sys.argv[1])
tracker = tracking.Tracker(path, {}, tracking.WandbSettings())
tracker.log({"step": 1})
def service():
    return [child for child in psutil.Process().children() if child.name() == "wandb-core"]
while not service() or tracker._calls.qsize():
    time.sleep(0.05)
print(service()[0].pid)
service()[0].send_signal(getattr(signal, sys.argv[2]))
for step in range(2, 50):
    tracker.log({"step": step})
tracker.finish()
print("ended")
"""


@pytest.mark.parametrize(
    ("sent", "warning"), [("SIGSTOP", "W&B did not end within 1 s"), ("SIGKILL", r"W&B (could not \w+|did not end)")]
)
def test_a_service_that_hangs_or_dies_is_one_warning_and_no_process_waits_for_it(
    tmp_path: Path, sent: str, warning: str
) -> None:
    # With a service of its own, and not that of this process, which W&B names to its children.
    environment = {name: value for name, value in os.environ.items() if name != "WANDB_SERVICE"}
    command = [sys.executable, "-c", HANGS, str(tmp_path), sent]
    ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120)
    service, *printed = ended.stdout.splitlines()
    with suppress(ProcessLookupError):
        os.kill(int(service), signal.SIGKILL)
    assert (ended.returncode, printed) == (0, ["ended"])
    assert re.fullmatch(f"{warning}.+\n", ended.stderr), ended.stderr


def test_a_log_is_complete_once_the_service_has_closed_it(tmp_path: Path) -> None:
    # As a service that is slow would, it has the log open for as long as it lives.
    program = tmp_path / SERVICE
    program.symlink_to(str(shutil.which("sleep")))
    with (tmp_path / "run-1.wandb").open("w") as log:
        service = subprocess.Popen([program, "600"], stdout=log)
    try:
        assert is_written(tmp_path)
        assert not is_written(tmp_path.parent)
    finally:
        service.kill()
        service.wait()
    assert not is_written(tmp_path)


@pytest.mark.parametrize("known", ["", "environment", "netrc"])
def test_uploading_without_a_key_is_refused_at_the_start(
    known: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("WANDB_API_KEY", "WANDB_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "netrc").write_text("machine api.wandb.ai login user password key\n" if known == "netrc" else "")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    if known == "environment":
        monkeypatch.setenv("WANDB_API_KEY", "key")
    words = ["experiment=mmqa_prune", "wandb.mode=online", f"output={tmp_path / 'runs'}"]
    if known:
        return WandbSettings(mode="online").check_key()
    with pytest.raises(UserError, match=r"wandb\.mode=online"):
        WandbSettings(mode="online").check_key()
    check_machine(load(["experiment=recall", "wandb.mode=online"]))  # it tracks nothing
    monkeypatch.setattr("actors.runtime.head.begin", lambda address: pytest.fail("Ray started"))
    assert main(words) == 2
    assert not (tmp_path / "runs").exists()
