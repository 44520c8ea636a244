"""The Slurm script starts, resumes and queues again the right run. Slurm and the run itself are scripts here."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from experiments.config.loading import load
from tests.support.paths import ROOT

SCRIPT = ROOT / "experiments" / "clusters" / "slurm.sh"
AGORA = """#!/bin/bash
printf '%s\\n' "$@" >words
echo "run of job $SLURM_JOB_ID"
trap 'kill %1; exit 143' TERM
[[ ! -e wait ]] || { touch waits; sleep 600 >/dev/null 2>&1 & wait; }
exit "$(cat code)"
"""
SCONTROL = """#!/bin/bash
echo "$@" >scontrol
"""
SQUEUE = """#!/bin/bash
if [[ $* == *%T* ]]; then cat state; else echo OK; fi
"""
PROGRAMS = {"agora": AGORA, "scontrol": SCONTROL, "squeue": SQUEUE}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    for name, text in PROGRAMS.items():
        program = tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(text)
        program.chmod(0o700)
    (tmp_path / "code").write_text("0")
    return tmp_path


def begin(place: Path, *words: str, nodes: int = 1, task: str = "") -> subprocess.Popen[str]:
    environment = {**os.environ, "PATH": f"{place / 'bin'}:{os.environ['PATH']}", "SLURM_JOB_ID": "7"}
    environment |= {"SLURM_JOB_NUM_NODES": str(nodes), "SLURM_ARRAY_TASK_ID": task, "TMPDIR": str(place)}
    return subprocess.Popen(
        ["bash", str(SCRIPT), *words],
        cwd=place,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def words_of(place: Path, *words: str, task: str = "") -> list[str]:
    """The words of the run that a job with these words starts."""
    job = begin(place, *words, task=task)
    output, errors = job.communicate(timeout=300)
    assert job.returncode == 0, errors
    # Through a link to the job's own output, which is a file in Slurm.
    assert output in ("run of job 7\n", "")
    assert not list(place.glob("agora-mm-job.*"))
    return (place / "words").read_text().splitlines()


def test_a_new_job_starts_a_run_in_its_own_folder(place: Path) -> None:
    words = words_of(place, "experiment=mmqa_prune", "data.limit=3")
    assert words == ["experiment=mmqa_prune", "data.limit=3", f"cache={place}/runs/cache", f"output={place}/runs/7"]
    assert load(words).output == f"{place}/runs/7"
    assert words_of(place, "experiment=mmqa_prune", "output=there")[-1] == f"output={place}/there/7"


def test_a_job_that_was_queued_again_resumes_its_run(place: Path) -> None:
    run = place / "runs" / "7" / "20260101-000000-mmqa_prune"
    run.mkdir(parents=True)
    (run / "config.yaml").touch()
    words = words_of(place, "experiment=mmqa_prune", "data.limit=3")
    assert words == [f"resume={run}", "data.limit=3", f"cache={place}/runs/cache"]


def test_each_task_of_an_array_resumes_a_trial(place: Path) -> None:
    for number in range(3):
        (place / "sweep" / "trials" / f"000{number}-seed={number}").mkdir(parents=True)
    assert words_of(place, "trials=sweep", task="2") == ["resume=sweep/trials/0002-seed=2/"]
    assert words_of(place, "resume=sweep", "sweep.start=true") == ["resume=sweep", "sweep.start=true"]


@pytest.mark.parametrize(("state", "is_queued_again"), [("RUNNING", True), ("COMPLETING", False)])
def test_a_job_that_is_ended_is_queued_again_unless_it_is_cancelled(
    place: Path, state: str, is_queued_again: bool
) -> None:
    (place / "wait").touch()
    (place / "state").write_text(state)
    job = begin(place, "experiment=mmqa_prune")
    deadline = time.monotonic() + 300
    while not (place / "waits").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    job.send_signal(signal.SIGTERM)
    job.communicate(timeout=300)
    assert job.returncode == 143
    assert (place / "scontrol").exists() == is_queued_again
    if is_queued_again:
        assert (place / "scontrol").read_text() == "requeue 7\n"


@pytest.mark.parametrize("code", [1, 2, 143])
def test_a_run_that_ends_by_itself_is_not_queued_again(place: Path, code: int) -> None:
    (place / "code").write_text(str(code))
    job = begin(place, "experiment=mmqa_prune")
    job.communicate(timeout=300)
    assert job.returncode == code
    assert not (place / "scontrol").exists()


def test_several_nodes_have_to_be_whole(place: Path) -> None:
    job = begin(place, "experiment=mmqa_prune", nodes=2)
    _, errors = job.communicate(timeout=300)
    assert job.returncode == 2
    assert "--exclusive" in errors
