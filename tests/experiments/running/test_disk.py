"""A disk that is full, closed or gone during a run: one line, and the resumed run ends as if nothing had been."""

import errno
import resource
import shutil
import signal
import subprocess
import sys
import time
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from actors.errors import UserError
from experiments.records.run_files import disk_failure
from tests.support.paths import ROOT

SMALL = ["experiment=mmqa_prune", "data.limit=2", "pruning.steps=1", "training.samples=2", "runtime=inline"]
SMALL += ["wandb.mode=disabled", "figures=false"]


def begun(*words: str, most_bytes: int | None = None) -> subprocess.Popen[str]:
    """A run whose files may have so many bytes each."""

    def limit() -> None:
        if most_bytes is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes))

    command = [sys.executable, "run.py", *words]
    return subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=limit
    )


def ended(process: subprocess.Popen[str], code: int) -> str:
    said, error = process.communicate(timeout=600)
    assert process.returncode == code, said + error
    return said if code == 0 else error


def folder_in(output: Path) -> Path:
    [config] = output.glob("*-mmqa_prune/config.yaml")
    return config.parent


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run, beside its cache."""
    output = tmp_path_factory.mktemp("undisturbed")
    ended(begun(*SMALL, f"output={output}"), 0)
    return folder_in(output)


@pytest.fixture(scope="module")
def expected(undisturbed: Path) -> bytes:
    return (undisturbed / "metrics.json").read_bytes()


def resumed(folder: Path, *words: str) -> bytes:
    ended(begun(f"resume={folder}", *words), 0)
    for name in ("scores.jsonl", "learned/m3prune/learning.jsonl"):
        lines = (folder / name).read_text().splitlines()
        assert len(set(lines)) == len(lines)
    return (folder / "metrics.json").read_bytes()


@pytest.mark.slow
def test_a_full_disk_is_one_line_and_the_run_goes_on_when_there_is_room(
    undisturbed: Path, tmp_path: Path, expected: bytes
) -> None:
    # What is no run's own is there already: data and index.
    cache = f"cache={undisturbed.with_name('cache')}"
    words = [*SMALL, f"output={tmp_path}", cache, "completions.reuse=false"]
    error = ended(begun(*words, most_bytes=12_000), 2)
    folder = folder_in(tmp_path)
    assert error.startswith(f"error: cannot write {folder}")
    assert error.count("\n") == 1
    assert f" run.py resume={folder} {cache}\n" in error
    assert resumed(folder, cache) == expected


def moved(folder: Path) -> Path:
    return folder.rename(folder.with_name("moved"))


def deleted(folder: Path) -> Path:
    shutil.copytree(folder, folder.with_name("copy"))
    shutil.rmtree(folder)
    return folder.with_name("copy")


@pytest.mark.slow
@pytest.mark.parametrize("befall", [moved, deleted])
def test_a_folder_that_is_moved_or_deleted_is_one_line_and_the_run_goes_on_from_it(
    befall: Callable[[Path], Path], tmp_path: Path, expected: bytes
) -> None:
    process = begun(*SMALL, f"output={tmp_path}")
    deadline = time.monotonic() + 300
    while not list(tmp_path.glob("*-mmqa_prune/learned/m3prune/learning.jsonl")) and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGSTOP)  # it might write what is being copied
    folder = folder_in(tmp_path)
    place = befall(folder)
    process.send_signal(signal.SIGCONT)
    error = ended(process, 2)
    assert error.startswith(f"error: {folder} ")
    assert error.count("\n") == 1
    assert resumed(place) == expected


def caused(number: int, name: str | None = None) -> UserError:
    error = UserError("cannot write")
    error.__cause__ = OSError(number, "no", name)
    return error


def test_an_error_of_the_disk_is_found_in_groups_and_behind_errors_of_one_line(tmp_path: Path) -> None:
    group = ExceptionGroup("several", [ValueError("x"), ExceptionGroup("some", [caused(errno.ENOSPC)])])
    assert disk_failure(group, tmp_path) == f"cannot write {tmp_path}: no; make room"


def test_it_is_found_behind_what_could_not_be_closed_after_it(tmp_path: Path) -> None:
    error = zlib.error("Error -2 while flushing: inconsistent stream state")
    error.__context__ = OSError(errno.ENOSPC, "No space left on device")
    assert disk_failure(error, tmp_path) == f"cannot write {tmp_path}: No space left on device; make room"


def test_an_error_that_was_raised_again_out_of_its_group_is_no_failure_of_the_disk(tmp_path: Path) -> None:
    def again() -> None:
        try:
            raise ExceptionGroup("turns", [UserError("never recorded")])
        except ExceptionGroup as group:
            raise group.exceptions[0] from None

    with pytest.raises(UserError) as raised:
        again()
    assert disk_failure(raised.value, tmp_path) == ""


def test_a_folder_that_became_read_only_is_to_be_made_writable(tmp_path: Path) -> None:
    error = caused(errno.EROFS, f"{tmp_path}/metrics.json")
    assert disk_failure(error, tmp_path) == f"cannot write {tmp_path}/metrics.json: no; make it writable"


def test_a_folder_in_a_file_s_place_is_named_and_not_taken_for_a_broken_disk(tmp_path: Path) -> None:
    (tmp_path / "trials.jsonl").mkdir()
    with pytest.raises(IsADirectoryError) as raised:
        (tmp_path / "trials.jsonl").open("ab")
    said = disk_failure(raised.value, tmp_path)
    assert said.startswith(f"cannot write {tmp_path}/trials.jsonl: Is a directory")


def test_a_missing_file_of_somebody_elses_is_no_failure_of_the_runs_disk(tmp_path: Path) -> None:
    assert disk_failure(caused(errno.ENOENT, "/data/pictures/1.png"), tmp_path) == ""
    assert disk_failure(ConnectionRefusedError(errno.ECONNREFUSED, "refused"), tmp_path) == ""
