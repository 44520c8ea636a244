"""Settings of the studies, a group for each job."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from actors.lookup import near_miss
from actors.settings import MOST, setting, shown
from topologies.learning.variants import LEARNED, VARIANTS

Strength = Annotated[float, Field(ge=0, le=MOST)]
Count = Annotated[int, Field(ge=1, le=MOST)]
Some = Annotated[int, Field(ge=1, le=1_000)]


class Influence(StrEnum):
    """Effect of messages on their receivers in a planted world.

    - `answers`: messages pull towards their answer, and the decision agent follows answers.
    - `evidence`: the same among agents, but the decision agent follows the beliefs in messages.
    - `help`: the first agent of each modality gives no answer, and its receivers are pulled towards the right one.
    - `deaf`: messages only distract.
    - `chance`: no effect; scores are random.

    Further worlds are hard to learn, each in its own way:

    - `mixed`: one agent, whom all follow, is right on questions on text and wrong on all others.
    - `shift`: the same, with two thirds of the questions on text in training and one third in evaluation.
    - `unseen`: `mixed`, but features of a question do not show its kind.
    - `herd`: all follow an agent better than they are, which raises their own scores and lowers the team's.
    - `overload`: two messages help as much as ten, and each beyond two distracts.
    - `xor`: hearing either of two agents helps, and hearing both misleads.
    - `late`: one agent lies, and only after training.
    - `zero`: one agent lies, and all agents' own answers score 0.
    - `hypocrite`: one agent's own answers are right and its messages wrong.
    - `saint`: one agent's own answers are wrong and its messages right.
    - `delayed`: hearing one agent misleads a round later.
    - `collusion`: two agents argue for the same wrong answer.
    - `idle`: messages change nothing.
    """

    ANSWERS = "answers"
    EVIDENCE = "evidence"
    HELP = "help"
    DEAF = "deaf"
    CHANCE = "chance"
    MIXED = "mixed"
    SHIFT = "shift"
    UNSEEN = "unseen"
    HERD = "herd"
    OVERLOAD = "overload"
    XOR = "xor"
    LATE = "late"
    ZERO = "zero"
    HYPOCRITE = "hypocrite"
    SAINT = "saint"
    DELAYED = "delayed"
    COLLUSION = "collusion"
    IDLE = "idle"


EASY = (Influence.ANSWERS, Influence.EVIDENCE, Influence.HELP, Influence.DEAF, Influence.CHANCE)


@dataclass
class PlantedSettings:
    """Learners and worlds of `job=planted`. By default 65 worlds, of about fifteen seconds of one core each."""

    learners: list[str] = setting(factory=lambda: list(LEARNED))
    """Learned methods to compare; `training.share` adds learners from another's discussions."""
    seeds: int = setting(5, at_least=1, at_most=10_000)
    """Number of teams for each setting; their adversaries are distributed over all agents."""
    strengths: list[list[Strength]] = setting(factory=lambda: [[1.2, 0.1], [2.0, 0.1], [1.2, 0.2]])
    """Pairs of conformity (pull of messages) and distraction (pull of their number), relative to the own opinion."""
    influences: list[Influence] = setting(factory=lambda: list(EASY))
    """Effects of messages on their receivers, one for each world; only `answers` is tried with all strengths."""
    truth: int = setting(20_000, at_least=1, at_most=10_000_000)
    """Discussions of the randomised run from which the true effects are estimated."""
    evaluated: int = setting(2_000, at_least=2, at_most=10_000_000)
    """Held-out questions on which a learned graph is evaluated."""
    checkpoints: list[Count] = setting(factory=lambda: [10, 20, 40, 60, 80])
    """Numbers of training questions after which regret is measured."""
    budgets: list[Annotated[int, Field(ge=1, le=1_000_000)]] = setting(factory=list, since="0.4.0")
    """Multiples of the training budget at which M3Prune's learner is measured in other regimes (`regimes.py`): with a
    baseline, other rewards, without stages or penalties (empty: not)."""

    def __post_init__(self) -> None:
        """Raises ValueError for a learner that does not exist, and strengths that are no pairs."""
        check_learners(self.learners)
        if not self.strengths or any(len(pair) != 2 for pair in self.strengths):
            raise ValueError(f"strengths={self.strengths}: expected pairs of conformity and distraction")


@dataclass
class ScalingSettings:
    """Teams and learners of `job=scaling`, which counts the discussions that it takes to rank a liar's edges."""

    learners: list[str] = setting(factory=lambda: list(LEARNED))
    """Learned methods to compare."""
    agents: list[Annotated[int, Field(ge=3, le=1_000)]] = setting(factory=lambda: [5, 9, 17, 33])
    """Numbers of agents; exponents are fitted over them."""
    seeds: int = setting(5, at_least=1, at_most=10_000)
    """Number of teams of each size."""
    rounds: int = setting(2, at_least=1, at_most=100)
    """Rounds of a discussion."""
    influence: Influence = Influence.ANSWERS
    """Effect of messages on their receivers, one in which special agents do harm."""
    liars: int = setting(1, at_least=1, at_most=1_000)
    """Number of special agents. With `influence=answers` they argue for one wrong answer."""
    accuracy: float = setting(0.55, at_least=0, at_most=1)
    """Chance that an honest agent knows the answer to a question on text."""
    pictures: float = setting(0.0, at_least=0, at_most=1)
    """Share of questions on pictures, which the agents know less often."""
    auc: float = setting(0.95, above=0.5, below=1)
    """AUC of the liars' edges to reach; it has to last until four times as many discussions."""
    discussions: int = setting(10_000, at_least=1, at_most=10_000_000)
    """Discussions of each training."""
    truth: int = setting(40_000, at_least=1, at_most=10_000_000)
    """Discussions of the randomised run from which the law's number is computed."""

    def __post_init__(self) -> None:
        """Raises ValueError for a learner that does not exist, or teams of liars alone."""
        check_learners(self.learners)
        if self.liars > min(self.agents, default=0) - 2:
            raise ValueError(f"liars={self.liars}: expected two honest agents or more in every team of `agents`")


def check_learners(names: Sequence[str]) -> None:
    """Raises ValueError for a learner that does not exist."""
    for name in names:
        if name not in VARIANTS:
            hint = f"{near_miss(name, VARIANTS)} Known: {', '.join(VARIANTS)}"
            raise ValueError(f"learners: there is no learner {shown(name)!r}.{hint}")


@dataclass
class RedundancySettings:
    """Measures Definition 1: `job=redundancy` removes each edge in turn and compares the result with learners' cuts."""

    questions: int = setting(40, at_least=1)
    """Evaluated questions for each removed edge."""


@dataclass
class BehaviourSettings:
    """Measures how irrelevant evidence and wrong colleagues change one agent's answers (`job=behaviour`)."""

    irrelevant: list[Some] = setting(factory=lambda: [4, 16])
    """Numbers of irrelevant passages and rows to mix into the evidence."""
    colleagues: list[Some] = setting(factory=lambda: [1, 3])
    """Numbers of colleagues who give the same wrong answer."""

    def __post_init__(self) -> None:
        """Raises ValueError for the same number twice."""
        for name in ("irrelevant", "colleagues"):
            numbers = getattr(self, name)
            if len(set(numbers)) < len(numbers):
                raise ValueError(f"{name}={numbers}: expected different numbers")
