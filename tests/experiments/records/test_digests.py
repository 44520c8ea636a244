"""A file that grows is what its digests say, up to the line at which a killed run was writing."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from actors.errors import UserError
from experiments.records import jsonl
from experiments.records.digests import digest_file

LINES = [f'{{"line": {number}}}' for number in range(5)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    for line in LINES:
        jsonl.append_to(tmp_path / "x.jsonl", line)
    return tmp_path / "x.jsonl"


def test_every_flipped_bit_is_refused_with_its_line_or_only_tears_the_last_one(path: Path) -> None:
    content = path.read_bytes()
    for place in range(0, 8 * len(content), 5):
        flipped = bytearray(content)
        flipped[place // 8] ^= 1 << place % 8
        path.write_bytes(flipped)
        with pytest.raises(UserError, match=r"x\.jsonl"):
            jsonl.check_digests(path, resumes=False)
        if place < 8 * len(content) - 8:
            with pytest.raises(UserError, match=r"x\.jsonl.* line [1-5]:"):
                jsonl.check_digests(path, resumes=True)


def test_every_flipped_bit_of_the_digests_is_refused_or_only_tears_their_last_line(path: Path) -> None:
    file = digest_file(path)
    content = file.read_bytes()
    for place in range(0, 8 * len(content) - 8, 9):
        flipped = bytearray(content)
        flipped[place // 8] ^= 1 << place % 8
        file.write_bytes(flipped)
        with pytest.raises(UserError, match=r"x\.jsonl"):
            jsonl.check_digests(path, resumes=False)


def test_a_compressed_file_has_the_digests_of_its_content(path: Path) -> None:
    jsonl.compress(path, longer_than=0)
    jsonl.check_digests(path, resumes=False)
    jsonl.make_plain(path)
    path.write_bytes(path.read_bytes().replace(b"3", b"8"))
    jsonl.compress(path, longer_than=0)
    with pytest.raises(UserError, match="line 4"):
        jsonl.check_digests(path, resumes=False)


def without_last_digest(path: Path) -> None:
    os.truncate(digest_file(path), digest_file(path).stat().st_size // 5 * 4)


def with_half_a_digest(path: Path) -> None:
    os.truncate(digest_file(path), digest_file(path).stat().st_size - 7)


def with_half_a_line(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 4)
    without_last_digest(path)


def without_last_line(path: Path) -> None:
    # After a power cut, which may keep the later write.
    os.truncate(path, path.stat().st_size // 5 * 4)


def without_digests(path: Path) -> None:
    digest_file(path).unlink()


def emptied(path: Path) -> None:
    os.truncate(path, 0)


@pytest.mark.parametrize(
    "kill", [without_last_digest, with_half_a_digest, with_half_a_line, without_last_line, without_digests, emptied]
)
def test_whatever_a_kill_leaves_is_resumed_and_covered_again(path: Path, kill: Callable[[Path], None]) -> None:
    kill(path)
    jsonl.check_digests(path, resumes=True)
    jsonl.cut(path)
    jsonl.append_to(path, "more")
    jsonl.check_digests(path, resumes=False)
    path.write_bytes(path.read_bytes().replace(b"more", b"less"))
    with pytest.raises(UserError, match="line"):
        jsonl.check_digests(path, resumes=True)


def test_lost_lines_are_refused_unless_the_run_is_resumed(path: Path) -> None:
    without_last_line(path)
    with pytest.raises(UserError, match="lacks lines"):
        jsonl.check_digests(path, resumes=False)
    jsonl.cut_to(path, path.stat().st_size)
    jsonl.check_digests(path, resumes=False)


@pytest.mark.parametrize("resumes", [False, True])
def test_a_last_line_that_became_shorter_is_refused(path: Path, resumes: bool) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole[:-2] + b"\n")
    with pytest.raises(UserError, match=path.name):
        jsonl.check_digests(path, resumes)


def test_lines_that_are_left_out_leave_the_digests_of_the_others(path: Path) -> None:
    places = [place for place, _ in jsonl.placed(path)]
    jsonl.cut_to(path, path.stat().st_size, without={places[1]})
    jsonl.check_digests(path, resumes=False)
    jsonl.append_to(path, "more")
    jsonl.check_digests(path, resumes=False)
    assert len(list(jsonl.lines(path))) == len(LINES)
