"""Settings of the testbed with known truth; plain dataclasses, so that OmegaConf can read them."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from actors.settings import at_least, setting, share
from topologies.learning.variants import LearnedMethod


class Influence(StrEnum):
    """What hearing somebody does.

    `answers`: it pulls towards the answer heard, and the decision agent goes by the answers that it reads.
    `evidence`: the same among agents, but the decision agent goes by what they believe alone, whoever told it to those
    that it reads: their answers do not matter to it. `help`: the first agent of each modality gives no answer, and
    whoever hears one is pulled towards what is right. `deaf`: nobody but the decision agent goes by what it hears, so
    that messages merely distract. `chance`: hearing does nothing, and scores are drawn anew for every discussion.
    """

    ANSWERS = "answers"
    EVIDENCE = "evidence"
    HELP = "help"
    DEAF = "deaf"
    CHANCE = "chance"


@dataclass
class OpinionSettings:
    """A team and its questions. Pulls and noises are in units of the pull of an agent's own opinion."""

    text: int = at_least(0, default=5, most=100)
    visual: int = at_least(0, default=4, most=100)
    rounds: int = at_least(1, default=2, most=100)
    options: int = at_least(2, default=8, most=1_000)
    """Possible answers, one of them right."""
    kinds: list[float] = setting(factory=lambda: [0.45, 0.35, 0.2], at_least=0, at_most=1)
    """Shares of questions on text, on pictures and on both."""
    skill_own: float = share(0.55)
    """Chance of knowing the answer alone, on a question of the agent's modality ..."""
    skill_other: float = share(0.25)
    """... of the other one ..."""
    skill_both: float = share(0.4)
    """... of both."""
    spread: float = at_least(0, default=0.12)
    """Standard deviation of skill between agents."""
    conformity: float = at_least(0, default=1.2)
    """Pull of everyone heard in a round together, and as much again of everyone heard from the round before."""
    persistence: float = at_least(0, default=0.3)
    """Pull of the agent's own answer in the round before."""
    noise: float = at_least(0, default=0.05)
    """Standard deviation of what sways an agent at random, hearing nobody ..."""
    distraction: float = at_least(0, default=0.1)
    """... and by how much it grows with the root of the number of messages heard."""
    influence: Influence = Influence.ANSWERS
    """What hearing somebody does."""
    decision_skill: float = share(0.4)
    decision_pull: float = at_least(0, default=0.6)
    """Pull of the decision agent's own opinion."""


@dataclass
class PlantedSettings:
    """The learners, and the worlds in which each of them learns: strengths x seeds, with and without adversary.

    The defaults are 65 worlds, of about fifteen seconds of one core each. `experiment=planted_full` has all nine places
    of an adversary, five strengths and twice the questions, for narrower intervals of the same rows.
    """

    learners: list[LearnedMethod] = field(default_factory=lambda: list(LearnedMethod))
    """Learned methods, as they come: `learner` and `pruning` give them their rates and steps."""
    share: bool = True
    """Also learn from another's discussions wherever a run with `training.share` would (`effects from m3prune`): in
    the same worlds and beside the learner that holds its own, so that both stand in one table."""
    seeds: int = at_least(1, default=5, most=10_000)
    """Teams and questions of each setting; the adversaries of these teams are spread over all agents, and with more
    seeds than agents begin anew."""
    opinions: OpinionSettings = field(default_factory=OpinionSettings)
    strengths: list[list[float]] = setting(factory=lambda: [[1.2, 0.1], [2.0, 0.1], [1.2, 0.2]], at_least=0)
    """Pairs of conformity and distraction. Weaker ones than the first put learners in the same order."""
    influences: list[Influence] = field(default_factory=lambda: list(Influence))
    """What hearing somebody does: `answers` with all strengths, the others with the first."""
    truth: int = at_least(1, default=20_000, most=10_000_000)
    """Discussions of the randomised run from which the true effects are estimated."""
    evaluated: int = at_least(2, default=2_000, most=10_000_000)
    """Questions on which a learned graph is evaluated, none of them learned from."""
    checkpoints: list[int] = setting(factory=lambda: [10, 20, 40, 60, 80], at_least=1)
    """Numbers of questions used after which regret is measured."""
