"""Settings of the defences that need no labels."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class DefenceSettings:
    """What the methods that defend without labels go by."""

    calibration: int = 40
    """Training questions on which agents are watched, unlabelled, by methods that rank them (anomaly, agreement)."""
    dropped: int = 1
    """How many agents such a method silences."""
