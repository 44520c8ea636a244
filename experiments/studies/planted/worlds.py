"""Worlds with known truth, in which learners are to find harmful edges.

Teams of the opinion model (opinions.py), with an adversary at every position in turn and without one, over several
strengths of conformity and distraction.
"""

from dataclasses import dataclass, field

from experiments.config.study_settings import EASY, Influence, PlantedSettings
from experiments.studies.planted.scenarios import SCENARIOS


@dataclass(frozen=True)
class PlantedWorld:
    """One team and its questions, both determined by `number`, with one adversary or none.

    adversary: the first of the special agents, in a scenario that has others (scenarios.py).
    """

    conformity: float
    distraction: float
    number: int
    adversary: int | None
    influence: Influence = Influence.ANSWERS


@dataclass(frozen=True)
class Outcome:
    """One learner, or one baseline, in one world.

    learner: a learned method; one `from` another, whose discussions it learned from; `full` (everyone hears everyone,
        in random orders), `none` (no agent hears another), `readers` (the same, and the decision agent reads no agent
        that 40 questions grade as worse), `by_hand` (cut by the world's author, mostly without the adversary) or `best`
        (greedy removal by the true effects).
    utility: mean over answers along the graph; share: its ratio to the best reachable.
    turns, readings: cost of one discussion (`price`).
    auc_adversary: probability that an edge of the adversary ranks below (`saint`: above) one of another agent, both to
        honest agents.
    auc_harmful, auc_costly: the same of all edges with a negative true effect, on the receiver or on the final answer.
    training: mean tokens of a training discussion, discussions: their number, both 0 where they were another's.
    warned: 1 where the learner doubts its graph (`Learner.doubts`).
    edges: left after training (in a round, where rounds differ).
    wrongly: edges that were cut as certain to harm although they help both their receiver and the final answer.
    joined: share of the turns of training that equal another's on the question, and are answered with it.
    reported: evaluated questions after which the monitor reports a special agent as worse than in training (None: not
        within the first `measures.MONITORED`); alarms: number of other agents that it reports.
    random: utility of random graphs with as many edges; gain: own utility minus the best of `full`, `none`, `readers`
        and this.
    regret: best reachable minus own utility, by the number of questions learned from (of a regime by its budget in
        training questions of the paper's ten samples); reached: that utility; ranked:
        `auc_adversary`, or else `auc_harmful`; spent: cost of the discussions until then, equal turns once.
    """

    world: PlantedWorld
    learner: str
    utility: float
    share: float
    turns: int
    readings: int
    auc_adversary: float | None = None
    auc_harmful: float | None = None
    auc_costly: float | None = None
    regret: dict[int, float] = field(default_factory=dict)
    training: float | None = None
    discussions: int | None = None
    warned: float | None = None
    edges: int | float | None = None
    wrongly: int | None = None
    joined: float | None = None
    reported: int | None = None
    alarms: int | None = None
    random: float | None = None
    gain: float | None = None
    reached: dict[int, float] = field(default_factory=dict)
    ranked: dict[int, float] = field(default_factory=dict)
    spent: dict[int, int] = field(default_factory=dict)

    @property
    def tokens(self) -> int:
        """Cost in messages: a turn's own prompt counts as one."""
        return self.turns + self.readings


def worlds(settings: PlantedSettings, agents: int) -> list[PlantedWorld]:
    """Returns all worlds to explore. Easy ones have teams with and without adversary, but with `chance`, where it could
    do nothing; hard ones have teams with their special agents alone."""
    planted_worlds = []
    for influence in map(Influence, settings.influences):
        strengths = settings.strengths if influence == Influence.ANSWERS else settings.strengths[:1]
        # Teams with an adversary come first.
        teams = []
        if SCENARIOS[influence].ranked != "neither":
            teams.append(True)
        if not teams or influence in EASY:
            teams.append(False)
        for conformity, distraction in strengths:
            for attacked in teams:
                for number in range(settings.seeds):
                    adversary = _adversary(number, settings.seeds, agents) if attacked else None
                    planted_worlds.append(PlantedWorld(conformity, distraction, number, adversary, influence))
    return planted_worlds


def _adversary(number: int, seeds: int, agents: int) -> int:
    """Spreads adversaries over the team. Agents are ordered by modality: the first ones alone would be of one."""
    return number * agents // seeds if seeds < agents else number % agents
