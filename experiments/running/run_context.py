"""The context of a run: what its learners, evaluations and studies share while its agents live."""

from dataclasses import dataclass
from typing import Self

from experiments.attacks.attack import Attack
from experiments.config.config import Config
from experiments.datasets.item import Dataset
from experiments.evidence.evidence import Evidence
from experiments.planning.plan import Plan
from experiments.records.failures import Breaker
from experiments.records.progress import Progress
from experiments.records.recorder import Recorder
from experiments.records.tracking import Tracker
from experiments.records.usage import UsageLog
from experiments.running.discussion_slots import Slots
from experiments.running.launching import Launched, MeteredTeam


@dataclass(frozen=True)
class RunContext:
    """One run in one process: its plan, questions, evidence, records, agents, and the attack on them."""

    plan: Plan
    dataset: Dataset
    evidence: Evidence
    recorder: Recorder
    tracker: Tracker
    progress: Progress
    launched: Launched
    attack: Attack
    usage: UsageLog
    slots: Slots
    breaker: Breaker

    @classmethod
    def of(
        cls,
        plan: Plan,
        dataset: Dataset,
        evidence: Evidence,
        recorder: Recorder,
        tracker: Tracker,
        progress: Progress,
        launched: Launched,
    ) -> Self:
        """A run whose agents are launched, with the attack, the limits and the logs of its configuration."""
        config = plan.config
        attack = Attack(config.attack, plan.attackable, dataset, config.seed)
        usage = UsageLog(recorder.run, launched.usage)
        limits = Slots(config.concurrency), Breaker(config.failures)
        return cls(plan, dataset, evidence, recorder, tracker, progress, launched, attack, usage, *limits)

    @property
    def config(self) -> Config:
        return self.plan.config

    @property
    def agents(self) -> tuple[str, ...]:
        """Names of the team's agents."""
        return self.plan.roles.agents

    @property
    def team(self) -> MeteredTeam:
        return self.launched.team
