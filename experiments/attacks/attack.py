"""An attack on discussions, from outside the topology: what an attacker can touch is its own turns, the wire and the
evidence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal

from actors.messages import Message, Question, Trace, Turn
from experiments.attacks.attackers import choose_attackers
from experiments.attacks.contagion import spread
from experiments.attacks.input import from_prior_knowledge
from experiments.attacks.poison import plant
from experiments.attacks.response import argue
from experiments.attacks.settings import AttackSettings
from experiments.attacks.tamper import rewrite_heard
from experiments.attacks.targets import Targets
from experiments.datasets.item import Dataset, Item
from topologies.discussion import Team, run_discussion
from topologies.topology import Topology

Phase = Literal["train", "evaluate"]
Change = Callable[[Turn], Turn]


class Attack:
    """Holds discussions in which some agents are compromised; topologies are told nothing of it.

    `attackers` are the compromised agents' names (for `tamper`, those whose messages are rewritten). Every kind says
    what it sees and changes where it is defined. A discussion without a compromised agent (one agent that answers
    alone) goes on as it would; that its answer is compared with the target all the same says how often the target is
    hit by chance.
    """

    def __init__(self, settings: AttackSettings, agents: Sequence[str], dataset: Dataset, seed: int) -> None:
        """Raises UserError when the settings name an agent that is not there, or make no sense."""
        self.settings = settings
        self.attackers = choose_attackers(settings, agents, seed)
        self._targets = Targets(dataset, seed)
        self._seed = seed

    def present(self, phase: Phase) -> bool:
        return self.settings.kind != "none" and self.settings.when in (phase, "both")

    async def run_discussion(
        self,
        topology: Topology,
        item: Item,
        question: Question,
        team: Team,
        seed: int,
        *,
        phase: Phase,
        number: int,
        sample: int = 0,
    ) -> Trace:
        """One discussion, attacked if the phase is. `question` is the item's, with evidence; `number` its position
        among those of the phase. What was recorded under an attack is replayed as it was said."""
        if not self.present(phase):
            return await run_discussion(topology, question, team, seed, sample)
        target = self.target(item)
        change = self.change(item, number)
        asked = team if team.recorded or change is None else _Attacked(team, change)
        trace = await run_discussion(topology, self.evidence(item, question), asked, seed, sample)
        attacked = tuple(name for name in self.attackers if name in trace.agents)
        return replace(trace, attack=self.settings.kind, attacked=attacked, target=target)

    def target(self, item: Item) -> str | None:
        """The wrong answer that the attack is after; None for `input`, and where a question has no wrong answer."""
        return None if self.settings.kind == "input" else self._targets.of(item)

    def evidence(self, item: Item, question: Question) -> Question:
        """The question as it is asked under this attack."""
        target = self.target(item)
        if self.settings.kind != "poison" or target is None:
            return question
        return plant(question, target, self.settings.source)

    def change(self, item: Item, number: int) -> Change | None:
        """What becomes of every turn of a discussion, None for nothing."""
        settings, target = self.settings, self.target(item)
        if settings.kind == "input":
            return self._of_attackers(from_prior_knowledge)
        if target is None or settings.kind == "poison":
            return None
        match settings.kind:
            case "tamper":
                return lambda turn: rewrite_heard(turn, target, settings.rate, self.attackers, self._seed)
            case "contagion":
                return self._of_attackers(lambda turn: spread(turn, target))
            case "collude":
                return self._of_attackers(lambda turn: argue(turn, target, self._others(turn.agent)))
            case "sleeper":
                awake = number >= settings.from_question
                return self._of_attackers(
                    lambda turn: argue(turn, target) if awake and turn.round >= settings.from_round else turn
                )
            case _:
                own = {name: self._targets.of(item, n) or target for n, name in enumerate(self.attackers)}
                return self._of_attackers(lambda turn: argue(turn, own[turn.agent]))

    def _of_attackers(self, change: Change) -> Change:
        return lambda turn: change(turn) if turn.agent in self.attackers else turn

    def _others(self, agent: str) -> list[str]:
        return [name for name in self.attackers if name != agent]


class _Attacked:
    """A team whose turns are changed before they are taken. What is written down of a message says what was sent to
    its agent (`heard`) and which of that arrived rewritten (`tampered`)."""

    def __init__(self, team: Team, change: Change) -> None:
        self.recorded, self.usage = team.recorded, team.usage
        self._team = team
        self._change = change

    async def ask(self, turn: Turn) -> Message:
        changed = self._change(turn)
        message = await self._team.ask(changed)
        if changed is turn or changed.heard == turn.heard:
            return message
        arrived = {heard.message.id: heard.message for heard in changed.heard}
        sent = {heard.message.id: heard.message for heard in turn.heard}
        tampered = tuple(id for id, was in sent.items() if id in arrived and arrived[id] != was)
        return replace(message, heard=tuple(sent), tampered=tampered)

    def close(self, discussion: str) -> None:
        self._team.close(discussion)
