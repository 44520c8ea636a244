"""Readings of how fast a core is: taken meanwhile, each counted once, and none after the block."""

from __future__ import annotations

import threading

import pytest

from experiments.records import speed as speeds
from experiments.records.speed import Speedometer, speed


def test_a_speed_is_read_of_whatever_machine_this_is() -> None:
    assert 0 < speed() < float("inf")


def test_a_lap_is_the_mean_of_its_own_readings_and_of_one_at_least(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speeds, "EVERY_S", 3600.0)
    readings = iter([10.0, 20.0])
    monkeypatch.setattr(speeds, "speed", lambda: next(readings))
    with Speedometer() as speedometer:
        assert speedometer.lap() == 10.0
        assert speedometer.lap() == 20.0


def test_readings_are_taken_meanwhile_and_end_with_the_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speeds, "EVERY_S", 0.0)
    read = threading.Semaphore(0)

    def reading() -> float:
        read.release()
        return 5.0

    monkeypatch.setattr(speeds, "speed", reading)
    with Speedometer() as speedometer:
        for _ in range(3):
            assert read.acquire(timeout=60)
        assert speedometer.lap() == 5.0
    assert "speedometer" not in {thread.name for thread in threading.enumerate()}
