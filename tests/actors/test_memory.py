"""Memory that ran out, by the files in which Linux counts it."""

from pathlib import Path

from actors.processes import kills


def test_processes_that_were_killed_for_memory_are_counted(tmp_path: Path) -> None:
    vmstat = tmp_path / "vmstat"
    vmstat.write_text("pgfault 12\noom_kill 2\n")
    assert kills(tmp_path, vmstat) == 2
    (tmp_path / "memory.events").write_text("low 0\noom 4\noom_kill 3\n")
    assert kills(tmp_path, vmstat) == 3
    assert kills(tmp_path / "nowhere", tmp_path / "nothing") == 0
