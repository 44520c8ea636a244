"""Gzipped files: several members and some zeros after them are read, zeros without end are not."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from experiments.datasets.reading import unpacked


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "lines.gz"
    path.write_bytes(gzip.compress(b"one\n") + bytes(1_000) + gzip.compress(b"two\n"))
    return path


def test_all_members_are_read(path: Path) -> None:
    with unpacked(path) as file:
        assert file.readlines() == [b"one\n", b"two\n"]


def test_zeros_without_end_are_not_waited_for(path: Path) -> None:
    os.truncate(path, 20 * 2**30)  # takes no room on the disk
    with unpacked(path) as file, pytest.raises(gzip.BadGzipFile, match="more than 65,536 zeros"):
        file.read()
