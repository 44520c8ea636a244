"""Records of attribution: explained answers, a line each in `attribution.jsonl` of the run folder."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from experiments.records.recorder import RunFolder
from experiments.records.records import Count, Record, Share

ATTRIBUTION = "attribution.jsonl"
By = Literal["counterpart", "silence", "sample"]
JOINED = " + "  # between agents that change an answer together
BY_DECISION = "the decision agent, against the last round's commonest answer"
NOT_THE_ATTACK = "no honest team of these agents answers otherwise"
THE_ATTACK = "the whole attack"
NO_SINGLE = "no single agent"
UNKNOWN = "not known"
Replaced = Literal["turn", "agent", "edge", "attack", "agents", "decision"]


@dataclass(frozen=True, slots=True)
class Effect(Record):
    """Answer with an intervention, and whether it is another one. `failed`: a turn failed, so nothing is concluded.

    phi: a turn's Shapley value and its interval, in place of an answer; in folders of earlier versions alone.
    of: the turn, agent or edge; of several agents their names with ` + ` between.
    """

    kind: Replaced
    of: str
    answer: str | None = None
    utility: Share = 0.0
    changed: bool = False
    failed: bool = False
    phi: tuple[float, float, float] | None = None


@dataclass(frozen=True, slots=True)
class Explained(Record):
    """An answer, and the agent and the turn (empty: none) without which it would be another.

    group: agents that change the answer together, none of whom can be left out, where no single one does.
    asked: number of turns that were asked again, with their `tokens`; recorded: tokens of the discussion.
    finished: the budget had room for all interventions of the search. If not, a smaller set may exist.
    suspects: the conformal set of agents by their suspicion.
    """

    method: str
    question: str
    answer: str | None
    utility: Share
    by: By
    agent: str
    turn: str
    effects: tuple[Effect, ...]
    suspicion: Mapping[str, float]
    asked: Count
    tokens: Count
    recorded: Count
    suspects: tuple[str, ...] = ()
    group: tuple[str, ...] = ()
    finished: bool = True
    SPARSE: ClassVar[Mapping[str, Any]] = {"group": (), "finished": True}
    REMEDY: ClassVar[str] = "remove it, and explain the run again"

    @property
    def cause(self) -> str:
        """The agent, the group, the whole attack, the decision agent, or why there is none."""
        if self.agent or self.group:
            return self.agent or JOINED.join(self.group)
        of_attack = [effect for effect in self.effects if effect.kind == "attack"]
        if any(effect.changed for effect in of_attack):
            return THE_ATTACK
        if any(effect.changed for effect in self.effects if effect.kind == "decision"):
            return BY_DECISION
        if not self.finished or any(effect.failed for effect in of_attack):
            return UNKNOWN
        return NOT_THE_ATTACK if self.by == "counterpart" else NO_SINGLE

    @property
    def culprits(self) -> list[str]:
        """Agents that change the answer, alone, with a turn or in a group."""
        agents = list(self.group)
        for effect in self.effects:
            if effect.changed and effect.kind in ("turn", "agent"):
                # A turn's id ends with its agent.
                agents.append(effect.of.rpartition("/")[2])
        return agents


def explained(run: RunFolder) -> Iterator[Explained]:
    """Reads the explained answers of a run. None where nothing was explained. Raises UserError for a damaged file."""
    return Explained.read(run.path / ATTRIBUTION)
