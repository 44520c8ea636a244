"""What is free and what ran out, by the files in which Linux tells it."""

from __future__ import annotations

from pathlib import Path

import psutil

from actors.memory import available_bytes, kills


def test_a_container_leaves_what_its_limit_leaves(tmp_path: Path) -> None:
    (tmp_path / "memory.max").write_text("5000\n")
    (tmp_path / "memory.current").write_text("3000\n")
    assert available_bytes(tmp_path) == 2000
    (tmp_path / "memory.stat").write_text("anon 2000\ninactive_file 900\n")
    assert available_bytes(tmp_path) == 2900
    (tmp_path / "memory.current").write_text("6000\n")
    assert available_bytes(tmp_path) == 0


def test_without_a_limit_the_machine_s_memory_counts(tmp_path: Path) -> None:
    (tmp_path / "memory.max").write_text("max\n")
    for folder in (tmp_path, tmp_path / "nowhere"):
        assert 0 < available_bytes(folder) <= psutil.virtual_memory().total


def test_processes_that_were_killed_for_memory_are_counted(tmp_path: Path) -> None:
    vmstat = tmp_path / "vmstat"
    vmstat.write_text("pgfault 12\noom_kill 2\n")
    assert kills(tmp_path, vmstat) == 2
    (tmp_path / "memory.events").write_text("low 0\noom 4\noom_kill 3\n")
    assert kills(tmp_path, vmstat) == 3
    assert kills(tmp_path / "nowhere", tmp_path / "nothing") == 0
