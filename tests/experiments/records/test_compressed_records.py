"""A finished file is compressed once, whatever moment its writer is killed at, and its lines stay readable."""

import gzip
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import pytest

from actors.errors import UserError
from experiments.records import jsonl
from experiments.records.recorder import RunFolder
from tests.support.fake_run import carry_on, make_run

# What changes a folder: a process that is killed has done the first few of these.
CHANGES = ("replace", "unlink", "truncate")
LINES = [b'{"line": %d}\n' % number for number in range(90)]


class Killed(BaseException):
    pass


def killed_at(change: int, work: Callable[[], object]) -> bool:
    """Does some work as a process that is killed before that change to its folder; False where it needs fewer."""
    left = [change]

    def counted(real: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: object, **named: object) -> object:
            left[0] -= 1
            if left[0] < 0:
                raise Killed
            return real(*arguments, **named)

        return call

    patches = [patch(f"os.{name}", counted(getattr(os, name))) for name in CHANGES]
    for one in patches:
        one.start()
    try:
        work()
    except Killed:
        return True
    finally:
        for one in patches:
            one.stop()
    return False


@pytest.fixture(autouse=True)
def short_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that fake runs write are compressed."""
    monkeypatch.setattr(jsonl, "COMPRESS_BYTES", 900)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A compressed file."""
    path = tmp_path / "traces.jsonl"
    path.write_bytes(b"".join(LINES))
    jsonl.compress(path)
    return path


def names(path: Path) -> list[str]:
    return sorted(file.name for file in path.parent.iterdir() if not file.name.startswith("."))


def test_a_compressed_file_is_read_as_before_and_by_gzip(path: Path) -> None:
    assert names(path) == ["traces.jsonl.gz"]
    assert gzip.decompress(jsonl.compressed(path).read_bytes()) == b"".join(LINES)
    assert list(jsonl.lines(path)) == LINES
    assert jsonl.files(path.parent, "tra*.jsonl") == [path]
    with jsonl.seekable(path) as file:
        for offset, line in reversed(list(jsonl.placed(path))):
            file.seek(offset)
            assert file.readline() == line


@pytest.mark.parametrize("work", ["compress", "make_plain"])
def test_a_process_that_is_killed_while_it_changes_the_form_leaves_each_line_once(
    tmp_path: Path, path: Path, work: str
) -> None:
    if work == "compress":
        jsonl.make_plain(path)
    for change in range(3):
        copy = tmp_path / f"killed-{change}" / path.name
        copy.parent.mkdir()
        for file in tmp_path.glob(f"{path.name}*"):
            shutil.copy(file, copy.parent)
        killed = killed_at(change, lambda copy=copy: getattr(jsonl, work)(copy))  # type: ignore[misc]
        assert killed == (change < 2)
        assert list(jsonl.lines(copy)) == LINES
        getattr(jsonl, work)(copy)
        assert list(jsonl.lines(copy)) == LINES
        assert names(copy) == [f"{path.name}.gz" if work == "compress" else path.name]


@pytest.mark.parametrize("lines", [0, 31, 90])
def test_a_cut_that_was_killed_keeps_what_it_should_and_is_made_again(tmp_path: Path, path: Path, lines: int) -> None:
    size = len(b"".join(LINES[:lines]))
    for change in range(9):
        copy = tmp_path / f"killed-{change}" / path.name
        copy.parent.mkdir()
        shutil.copy(jsonl.compressed(path), copy.parent)
        killed = killed_at(change, lambda copy=copy: jsonl.cut_to(copy, size))  # type: ignore[misc]
        found = list(jsonl.lines(copy))
        assert found[:lines] == LINES[:lines]
        assert found == LINES[: len(found)]
        jsonl.cut_to(copy, size)
        assert list(jsonl.lines(copy)) == LINES[:lines]
        if not killed:
            return
    raise AssertionError("it never came to an end")


def test_a_file_is_read_whole_while_its_form_changes(path: Path) -> None:
    ended, wrong = threading.Event(), list[int]()

    def read() -> None:
        while not ended.is_set():
            if (found := len(list(jsonl.lines(path)))) != len(LINES):
                wrong.append(found)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for _ in range(100):
            jsonl.make_plain(path)
            jsonl.compress(path)
    finally:
        ended.set()
        reader.join()
    assert not wrong


@pytest.mark.parametrize("damage", ["cut", "changed", "text", "empty"])
def test_a_damaged_file_is_named(path: Path, damage: str) -> None:
    packed = jsonl.compressed(path)
    whole = packed.read_bytes()
    changed = whole[:40] + bytes([whole[40] ^ 255]) + whole[41:]
    packed.write_bytes({"cut": whole[:-20], "changed": changed, "text": b"no gzip at all", "empty": b""}[damage])
    with pytest.raises(UserError, match=r"traces\.jsonl\.gz ") as raised:
        list(jsonl.lines(path))
    assert "\n" not in str(raised.value)


def test_a_folder_in_place_of_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "traces.jsonl.gz").mkdir()
    (tmp_path / "notes.txt").touch()
    for wrong in (tmp_path / "traces.jsonl", tmp_path / "notes.txt" / "traces.jsonl"):
        with pytest.raises(UserError, match=f"{wrong}"):
            list(jsonl.lines(wrong))


def records(run: RunFolder) -> dict[str, bytes]:
    return {path.relative_to(run.path).as_posix(): path.read_bytes() for path in run.path.rglob("*.jsonl*")}


@pytest.mark.slow
def test_a_run_that_is_killed_anywhere_ends_with_the_same_compressed_bytes(tmp_path: Path) -> None:
    whole = records(make_run(tmp_path / "whole", steps=2, questions=4))
    traces = {name for name in whole if name.startswith("learned/m3prune/traces") and not name.endswith(".digest")}
    assert traces == {
        "learned/m3prune/traces/train-1.jsonl.gz",
        "learned/m3prune/traces/train-2.jsonl.gz",
    }
    assert "traces/evaluate-m3prune.jsonl.gz" in whole
    for change in range(200):
        run = RunFolder.create(tmp_path / "killed", "fake")
        run.config.write_text("experiment: fake\nmodel:\n  name: reader\n")
        killed = killed_at(change, lambda run=run: carry_on(run, 2, 4))  # type: ignore[misc]
        carry_on(run, 2, 4)
        assert records(run) == whole, change
        if not killed:
            break
    assert change > 10


def test_a_finished_run_goes_on_with_more_questions_or_learns_again(tmp_path: Path) -> None:
    run = make_run(tmp_path / "few", steps=2, questions=2)
    carry_on(run, 2, 4)
    whole = records(run)
    expected = records(make_run(tmp_path / "whole", steps=2, questions=4))
    # Scores are in the order in which methods answered.
    in_order = ("scores.jsonl", "scores.jsonl.digest")
    assert whole == expected | {name: whole[name] for name in in_order}
    run.learned("m3prune").topology.unlink()
    carry_on(run, 2, 4)
    assert records(run) == whole


def test_a_folder_with_traces_in_parts_is_refused(tmp_path: Path) -> None:
    run = make_run(tmp_path, steps=1, questions=1)
    (run.path / "traces" / "evaluate-m3prune.jsonl.0001.gz").touch()
    with pytest.raises(UserError, match=r"version 0\.1"):
        RunFolder.open(run.path)
