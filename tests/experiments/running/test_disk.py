"""A disk that is full, closed or gone during a run: one line, and the resumed run ends as if nothing had been."""

import errno
import shutil
import signal
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from actors.errors import UserError
from experiments.records.run_files import disk_failure
from tests.support.sessions import begin, finish, run_folder, wait_for

SMALL = ["experiment=mmqa_prune", "data.limit=2", "pruning.steps=1", "training.samples=2", "runtime=inline"]
SMALL += ["methods=[full,m3prune]", "topology.text=[critic,scientist]", "topology.visual=[critic]"]
SMALL += ["wandb.mode=disabled", "figures=false"]


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Metrics of an undisturbed run."""
    output = tmp_path_factory.mktemp("undisturbed")
    finish(begin(*SMALL, f"output={output}"))
    return (run_folder(output) / "metrics.json").read_bytes()


def resumed(folder: Path) -> bytes:
    finish(begin(f"resume={folder}"))
    for name in ("scores.jsonl", "learned/m3prune/learning.jsonl"):
        lines = (folder / name).read_text().splitlines()
        assert len(set(lines)) == len(lines)
    return (folder / "metrics.json").read_bytes()


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
    process = begin(*SMALL, f"output={tmp_path}")
    wait_for(process, tmp_path, "*-mmqa_prune/learned/m3prune/learning.jsonl")
    process.send_signal(signal.SIGSTOP)  # it might write what is being copied
    folder = run_folder(tmp_path)
    place = befall(folder)
    process.send_signal(signal.SIGCONT)
    error = finish(process, 2)
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
