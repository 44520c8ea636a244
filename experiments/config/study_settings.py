"""Settings of the studies: each group exists in the configuration of its own job alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from actors.errors import UserError
from actors.settings import setting
from experiments.config.config import Config
from topologies.learning.variants import LearnedMethod


class Influence(StrEnum):
    """Effect of messages on their receivers in a planted world.

    - `answers`: they pull towards their answer, and the decision agent follows the answers.
    - `evidence`: the same among agents, but the decision agent follows the beliefs that messages pass on.
    - `help`: the first agent of each modality gives no answer, and its receivers are pulled towards the right one.
    - `deaf`: they merely distract.
    - `chance`: none, and scores are drawn for every discussion.
    """

    ANSWERS = "answers"
    EVIDENCE = "evidence"
    HELP = "help"
    DEAF = "deaf"
    CHANCE = "chance"


@dataclass
class PlantedSettings:
    """Learners and worlds of `job=planted`: influences x strengths x seeds, with and without an adversary.

    The defaults are 65 worlds, of about fifteen seconds of one core each.
    """

    learners: list[LearnedMethod] = setting(factory=lambda: list(LearnedMethod))
    """Learned methods to compare; with `training.share` also those that can learn from another's discussions."""
    seeds: int = setting(5, at_least=1, at_most=10_000)
    """Teams of each setting; their adversaries are spread over all agents."""
    strengths: list[list[float]] = setting(factory=lambda: [[1.2, 0.1], [2.0, 0.1], [1.2, 0.2]], at_least=0)
    """Pairs of conformity and distraction: pulls of messages and of their number, in units of the own opinion's."""
    influences: list[Influence] = setting(factory=lambda: list(Influence))
    """Effects of messages on their receivers, one per world; `answers` has all strengths, the others the first."""
    truth: int = setting(20_000, at_least=1, at_most=10_000_000)
    """Discussions of the randomised run from which the true effects are estimated."""
    evaluated: int = setting(2_000, at_least=2, at_most=10_000_000)
    """Questions on which a learned graph is evaluated, none of them learned from."""
    checkpoints: list[int] = setting(factory=lambda: [10, 20, 40, 60, 80], at_least=1)
    """Numbers of questions used after which regret is measured."""

    def check_values(self, key: str) -> None:
        """Raises UserError for strengths that are no pairs."""
        if not self.strengths or any(len(pair) != 2 for pair in self.strengths):
            raise UserError(f"{key}.strengths={self.strengths}: expected pairs of conformity and distraction")


@dataclass
class RedundancySettings:
    """Definition 1, measured: `job=redundancy` removes every edge in turn, and compares learners' cuts with that."""

    questions: int = setting(40, at_least=1)
    """Evaluated questions on which each edge's absence is tried."""


@dataclass
class BehaviourSettings:
    """`job: behaviour`: what one agent makes of irrelevant evidence and of colleagues who are wrong."""

    irrelevant: list[int] = setting(factory=lambda: [4, 16], at_least=1, at_most=1_000)
    """How many passages and rows that look relevant, and are not, stand among the relevant ones."""
    colleagues: list[int] = setting(factory=lambda: [1, 3], at_least=1, at_most=1_000)
    """How many colleagues give the same wrong answer."""

    def check_values(self, key: str) -> None:
        """Raises UserError for numbers that name no condition, or the same one twice."""
        for name in ("irrelevant", "colleagues"):
            numbers = getattr(self, name)
            if any(number < 1 for number in numbers) or len(set(numbers)) < len(numbers):
                raise UserError(f"{key}.{name}={numbers}: expected different numbers, each 1 or more")


@dataclass
class PlantedConfig(Config):
    """The configuration of `job=planted`."""

    planted: PlantedSettings = field(default_factory=PlantedSettings)


@dataclass
class RedundancyConfig(Config):
    """The configuration of `job=redundancy`."""

    redundancy: RedundancySettings = field(default_factory=RedundancySettings)


@dataclass
class BehaviourConfig(Config):
    """The configuration of `job=behaviour`."""

    behaviour: BehaviourSettings = field(default_factory=BehaviourSettings)


# By job, which is also the name of the job's own group of settings.
OF_JOBS: dict[str, type[Config]] = {
    "planted": PlantedConfig,
    "redundancy": RedundancyConfig,
    "behaviour": BehaviourConfig,
}
