"""The parts of a run that all others work with: built once, and handed on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from actors.messages import Role
from experiments.config.config import Config
from experiments.datasets.item import Dataset
from experiments.evidence.evidence import Evidence
from experiments.records.progress import Progress
from experiments.records.recorder import Recorder
from experiments.records.tracking import Tracker


@dataclass(frozen=True)
class RunContext:
    """One run in one process: its questions, agents, evidence and records.

    `roles` are those that discuss, in the topology's order; agents beside the team are launched with them.
    """

    config: Config
    roles: Sequence[Role]
    dataset: Dataset
    evidence: Evidence
    recorder: Recorder
    tracker: Tracker
    progress: Progress

    @property
    def agents(self) -> tuple[str, ...]:
        """The names of the team's agents."""
        return tuple(role.name for role in self.roles)
