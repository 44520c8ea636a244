"""Attacked discussions, from outside the topology: an attacker touches its own turns, the wire or the evidence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal

from actors.messages import Message, Question, Trace, Turn
from experiments.attacks.attackers import choose_attackers
from experiments.attacks.catalogue import attack_kind
from experiments.attacks.kind import NONE, AttackContext
from experiments.attacks.settings import AttackSettings
from experiments.attacks.targets import Targets
from experiments.datasets.item import Dataset, Item
from topologies.topology import Team, Topology, run_discussion

Phase = Literal["train", "evaluate"]
Change = Callable[[Turn], Turn]


class Attack:
    """Holds discussions under the attack that the settings name; topologies do not know of it.

    `attackers` are the compromised agents' names. A discussion without a compromised agent (one agent that answers
    alone) goes on as it would; its answer is compared with the target all the same, which shows how often the target is
    hit by chance.
    """

    def __init__(self, settings: AttackSettings, agents: Sequence[str], dataset: Dataset, seed: int) -> None:
        """Raises UserError when the settings name an attack or an agent that does not exist, or make no sense."""
        self.settings = settings
        self.attackers = choose_attackers(settings, agents, seed)
        self._kind = attack_kind(settings.kind)(settings)
        self._targets = Targets(dataset, seed)
        self._seed = seed

    def present(self, phase: Phase) -> bool:
        """True where discussions of the phase are attacked."""
        return self.settings.kind != NONE and self.settings.when in (phase, "both")

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
        among those of the phase."""
        if not self.present(phase):
            return await run_discussion(topology, question, team, seed, sample)
        # Recorded messages already are what the attack made of them.
        attacked_team = team if team.recorded else _AttackedTeam(team, self.change(item, number))
        trace = await run_discussion(topology, self.evidence(item, question, number), attacked_team, seed, sample)
        # A system may ask only some of the agents; the others cannot have done any harm.
        attacked = tuple(name for name in self.attackers if name in trace.agents)
        return replace(trace, attack=self.settings.kind, attacked=attacked, target=self.target(item))

    def target(self, item: Item) -> str | None:
        """The wrong answer that the attack is after; None where it is after none or the question has none."""
        return self._targets.of(item) if self._kind.aimed else None

    def evidence(self, item: Item, question: Question, number: int) -> Question:
        """The question with its evidence under this attack."""
        context = self._context(item, number)
        return self._kind.evidence(question, context) if context else question

    def change(self, item: Item, number: int) -> Change:
        """The change of every turn of a discussion."""
        # Once for all turns of the discussion: choosing a target reads the data set.
        context, on_wire = self._context(item, number), self._kind.acts_on == "messages"

        def change(turn: Turn) -> Turn:
            reached = on_wire or turn.agent in self.attackers
            return self._kind.change(turn, context) if context and reached else turn

        return change

    def _context(self, item: Item, number: int) -> AttackContext | None:
        """None where a question has no wrong answer: its discussion goes on as it would."""
        target, own_targets = self.target(item), {}
        if self._kind.aimed and target is None:
            return None
        if self._kind.several_targets:
            # A question with fewer wrong answers than attackers: the last of them share the first answer.
            own_targets = {name: self._targets.of(item, n) or target or "" for n, name in enumerate(self.attackers)}
        return AttackContext(target or "", self.attackers, number, self._seed, own_targets)


class _AttackedTeam:
    """A team with turns that are changed before they are taken. Its messages record what was sent to their agent
    (`heard`) and which of that arrived rewritten (`tampered`)."""

    def __init__(self, team: Team, change: Change) -> None:
        self.recorded, self.usage = team.recorded, team.usage
        self._team = team
        self._change = change

    async def ask(self, turn: Turn) -> Message:
        changed = self._change(turn)
        message = await self._team.ask(changed)
        # The agent's own record lists what reached it; the trace's must list what was sent.
        if changed is turn or changed.heard == turn.heard:
            return message
        arrived = {heard.message.id: heard.message for heard in changed.heard}
        sent = {heard.message.id: heard.message for heard in turn.heard}
        tampered = tuple(id for id, message in sent.items() if id in arrived and arrived[id] != message)
        return replace(message, heard=tuple(sent), tampered=tampered)

    def close(self, discussion: str) -> None:
        self._team.close(discussion)
