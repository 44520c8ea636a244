"""Files and texts from outside are plain, of a limited size, and fail in one line."""

import json
import os
from pathlib import Path

import pytest

from actors.errors import UserError
from actors.received import open_plain, read_plain, received

MOST = 1000


def test_only_plain_files_of_a_limited_size_are_opened(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.write_bytes(b"x" * MOST)
    assert read_plain(plain, MOST) == b"x" * MOST
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")  # whose opening would wait for a writer
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(2**33)
    for name in ("folder", "pipe", "sparse"):
        with pytest.raises(ValueError, match="it "):
            open_plain(tmp_path / name, MOST)
    with pytest.raises(FileNotFoundError):
        open_plain(tmp_path / "nothing", MOST)


@pytest.mark.parametrize("text", [b"{", b"\xff", b"[" * 100_000, b"9" * 10_000, b"[]", b'{"a": 1}'])
def test_whatever_a_broken_text_raises_becomes_one_line(text: bytes) -> None:
    with pytest.raises(UserError) as error, received("x.json", "write it again"):
        json.loads(text)["b"]
    assert str(error.value).startswith("x.json: ")
    assert str(error.value).endswith("; write it again")
    assert "\n" not in str(error.value)
