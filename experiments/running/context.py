"""The parts of a run that all others work with: opened once, and handed on."""

from __future__ import annotations

from dataclasses import dataclass

from experiments.config.config import Config
from experiments.datasets.item import Dataset
from experiments.evidence.evidence import Evidence
from experiments.planning.plan import Plan
from experiments.records.progress import Progress
from experiments.records.recorder import Recorder
from experiments.records.tracking import Tracker


@dataclass(frozen=True)
class RunContext:
    """One run in one process: its plan, questions, evidence and records."""

    plan: Plan
    dataset: Dataset
    evidence: Evidence
    recorder: Recorder
    tracker: Tracker
    progress: Progress

    @property
    def config(self) -> Config:
        """The run's settings."""
        return self.plan.config

    @property
    def agents(self) -> tuple[str, ...]:
        """Names of the team's agents."""
        return self.plan.roles.agents
