"""A file in compressed parts is read as one, whatever moment its writer was killed at, and ends with the same bytes."""

from __future__ import annotations

import gzip
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import pytest

from actors.errors import UserError
from experiments.records import jsonl, parts
from experiments.records.recorder import RunFolder
from tests.support.fake_run import carry_on, make_run

# What changes a folder: a process that is killed has done the first few of these.
CHANGES = ("os.rename", "os.replace", "os.unlink", "os.truncate")
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

    patches = [patch(name, counted(getattr(__import__("os"), name.partition(".")[2]))) for name in CHANGES]
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


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file with two parts of 30 lines and 30 lines more."""
    path = tmp_path / "traces.jsonl"
    for first in (0, 30):
        path.write_bytes(b"".join(LINES[first : first + 30]))
        parts.put_away(path)
    path.write_bytes(b"".join(LINES[60:]))
    return path


def names(path: Path) -> list[str]:
    return sorted(file.name for file in path.parent.iterdir())


def test_parts_are_read_as_one_file_and_hold_what_gzip_reads(path: Path) -> None:
    assert list(jsonl.lines(path)) == LINES
    assert names(path) == ["traces.jsonl", "traces.jsonl.0001.gz", "traces.jsonl.0002.gz"]
    assert gzip.decompress(path.with_name("traces.jsonl.0002.gz").read_bytes()) == b"".join(LINES[30:60])
    assert [jsonl.line_at(path, place) for place, _ in jsonl.placed(path)] == LINES


@pytest.mark.parametrize("change", range(3))
def test_a_file_that_is_put_away_by_a_killed_process_has_each_line_once(path: Path, change: int) -> None:
    assert killed_at(change, lambda: parts.put_away(path)) == (change < 3)
    assert list(jsonl.lines(path)) == LINES
    assert parts.files(path.parent, "*.jsonl") == [path]
    parts.compress(path)
    assert list(jsonl.lines(path)) == LINES
    assert not (path.parent / "traces.jsonl.0003").exists()


def test_nothing_is_left_to_do_after_three_changes(path: Path) -> None:
    assert not killed_at(3, lambda: parts.put_away(path))
    assert names(path) == ["traces.jsonl", *(f"traces.jsonl.000{number}.gz" for number in (1, 2, 3))]


@pytest.mark.parametrize("lines", [0, 12, 30, 31, 60, 75, 90])
def test_a_cut_that_was_killed_keeps_what_it_should_and_is_made_again(tmp_path: Path, path: Path, lines: int) -> None:
    size = len(b"".join(LINES[:lines]))
    for change in range(20):
        copy = tmp_path / f"killed-{change}" / path.name
        copy.parent.mkdir()
        for file in tmp_path.glob(f"{path.name}*"):
            shutil.copy(file, copy.parent)
        killed = killed_at(change, lambda copy=copy: parts.cut(copy, size))  # type: ignore[misc]
        found = list(jsonl.lines(copy))
        assert found[:lines] == LINES[:lines]
        assert found == LINES[: len(found)]
        parts.cut(copy, size)
        assert list(jsonl.lines(copy)) == LINES[:lines]
        if not killed:
            break
    else:
        raise AssertionError("it never came to an end")
    assert list(jsonl.lines(path, size)) == LINES[lines:]


def test_a_file_is_read_whole_while_it_is_put_away(tmp_path: Path) -> None:
    path = tmp_path / "traces.jsonl"
    path.touch()
    ended = threading.Event()
    wrong: list[list[bytes]] = []

    def read() -> None:
        while not ended.is_set():
            found = list(jsonl.lines(path))
            if found != [b'{"line": %d}\n' % number for number in range(len(found))]:
                wrong.append(found)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for number in range(400):
            with path.open("ab", buffering=0) as file:
                file.write(b'{"line": %d}\n' % number)
            if number % 20 == 19:
                parts.put_away(path)
    finally:
        ended.set()
        reader.join()
    assert not wrong
    assert len(list(jsonl.lines(path))) == 400


@pytest.mark.parametrize("damage", ["cut", "changed", "text", "empty", "bomb"])
def test_a_part_that_cannot_be_one_is_named_with_what_to_do(
    path: Path, damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "MOST_BYTES", 1000)
    part = path.with_name(f"{path.name}.0002.gz")
    whole = part.read_bytes()
    part.write_bytes(
        {
            "cut": whole[:-20],
            "changed": whole[:40] + bytes([whole[40] ^ 255]) + whole[41:],
            "text": b"not compressed at all",
            "empty": b"",
            "bomb": gzip.compress(bytes(parts.MOST_BYTES + 1)),
        }[damage]
    )
    with pytest.raises(UserError, match=r"\.0002\.gz (is damaged|holds more than).*; restore it") as raised:
        list(jsonl.lines(path))
    assert "\n" not in str(raised.value)


def records(run: RunFolder) -> dict[str, bytes]:
    return {path.relative_to(run.path).as_posix(): path.read_bytes() for path in run.path.rglob("*.jsonl*")}


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "PART_BYTES", 9000)


def test_a_run_in_parts_has_the_records_of_one_in_whole_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = make_run(tmp_path / "whole", steps=4, questions=9)
    monkeypatch.setattr(parts, "PART_BYTES", 9000)
    run = make_run(tmp_path / "parts", steps=4, questions=9)
    assert sum(path.suffix == ".gz" for path in run.path.rglob("*")) > 6
    for name in ("evaluate-m3prune", "evaluate-full-graph"):
        assert list(run.traces(name)) == list(whole.traces(name))
    for name in ("train-1", "train-2"):
        assert list(run.learned("m3prune").traces(name)) == list(whole.learned("m3prune").traces(name))
    assert run.learned("m3prune").checkpoint().sizes == whole.learned("m3prune").checkpoint().sizes  # type: ignore[union-attr]


@pytest.mark.usefixtures("small_parts")
def test_a_run_in_parts_that_is_killed_anywhere_ends_with_the_same_bytes(tmp_path: Path) -> None:
    whole = records(make_run(tmp_path / "whole", steps=2, questions=4))
    for change in range(200):
        run = RunFolder.create(tmp_path / "killed", "fake")
        run.config.write_text("experiment: fake\nmodel:\n  name: reader\n")
        killed = killed_at(change, lambda run=run: carry_on(run, 2, 4))  # type: ignore[misc]
        carry_on(run, 2, 4)
        assert records(run) == whole, change
        if not killed:
            break
    assert change > 20


@pytest.mark.usefixtures("small_parts")
def test_a_run_in_parts_without_its_checkpoint_learns_again(tmp_path: Path) -> None:
    run = make_run(tmp_path, steps=4, questions=2)
    whole = records(run)
    run.learned("m3prune").topology.unlink()
    carry_on(run, 4, 2)
    assert records(run) == whole


@pytest.mark.usefixtures("small_parts")
def test_a_part_that_is_gone_is_noticed_when_the_run_goes_on(tmp_path: Path) -> None:
    run = make_run(tmp_path, steps=4, questions=9)
    gone = run.learned("m3prune").path / "traces" / "train-1.jsonl.0001.gz"
    gone.unlink()
    with pytest.raises(UserError, match=r"train-1\.jsonl is (shorter than|not what it was)"):
        carry_on(run, 4, 9)


def test_a_folder_where_a_file_belongs_is_named(tmp_path: Path) -> None:
    (path := tmp_path / "traces.jsonl").mkdir()
    for wrong in (path, tmp_path / "notes.txt" / "traces.jsonl"):
        (tmp_path / "notes.txt").touch()
        with pytest.raises(UserError, match=f"{wrong} cannot be read"):
            list(jsonl.lines(wrong))
    path.rmdir()
    path.touch()
    for part, says in (("traces.jsonl.0001.gz", "is damaged"), ("traces.jsonl.0001", "cannot be read")):
        (tmp_path / part).mkdir()
        with pytest.raises(UserError, match=f"{part} {says}"):
            list(jsonl.lines(path))
