"""Attacks by name, the choice of compromised agents, and attacked discussions. Topologies do not know of attacks."""

from collections.abc import Callable, Collection, Iterable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from actors.errors import UserError
from actors.lookup import near_miss
from actors.messages import Message, Question, Source, Trace, Turn, derive_seed
from actors.reader.english import count_tokens
from experiments.attacks.catalogue import attack_kind
from experiments.attacks.kind import ALTERED, NONE, AttackContext, AttackSettings, Phase
from experiments.attacks.poison import Corpus
from experiments.attacks.targets import Targets
from experiments.attacks.transit import COPY
from experiments.datasets.item import Dataset, Item
from topologies.topology import DECISION_AGENT

Change = Callable[[Turn], Turn]


def choose_attackers(settings: AttackSettings, agents: Sequence[str], seed: int) -> tuple[str, ...]:
    """Names the compromised agents among the ones that discuss, in the team's order.

    The decision agent can be named as well, for an attack on its own turn. For an attack on messages they are the
    senders whose messages are rewritten; an empty tuple means all senders. Raises UserError for an attack or agent that
    does not exist, an agent named twice, and impossible numbers.
    """
    kind = attack_kind(settings.kind)
    if settings.kind == NONE:
        return ()
    if settings.agents and kind.acts_on == "evidence":
        raise UserError(f"attack={settings.kind} is on sources that all agents of their kind read: drop attack.agents")
    if DECISION_AGENT in settings.agents and (kind.acts_on != "turns" or kind.spreads):
        raise UserError(
            f"attack={settings.kind}: the decision agent speaks once, and no agent hears or remembers it: drop it from "
            "attack.agents, or choose an attack on its own turn, such as attack=response"
        )
    if settings.agents:
        attackers = [_agent_of(position_or_name, agents) for position_or_name in settings.agents]
    elif kind.acts_on in ("messages", "evidence"):
        # Without names, an attack on messages or evidence compromises no particular agent.
        attackers = []
    else:
        if not 1 <= settings.number <= len(agents):
            raise UserError(f"attack.number={settings.number}: expected 1 to {len(agents)}, as many as agents discuss")
        # An order by seed: a larger number adds attackers to those of a smaller one.
        ordered = sorted(agents, key=lambda name: derive_seed(seed, "attackers", name))
        attackers = ordered[: settings.number]
    if len(set(attackers)) < len(attackers):
        raise UserError(f"attack.agents names one of {', '.join(attackers)} twice: name each agent once")
    # Last, since an attack checks the number of its attackers.
    kind(settings).check(attackers)
    # In the team's order, so that the order in `attack.agents` changes nothing.
    compromised = set(attackers)
    return tuple(name for name in (*agents, DECISION_AGENT) if name in compromised)


def _agent_of(position_or_name: Any, agents: Sequence[str]) -> str:
    """Finds an agent by its position, from 0, or its name. Raises UserError for none."""
    if isinstance(position_or_name, int) and not isinstance(position_or_name, bool):  # True is an int as well
        if 0 <= position_or_name < len(agents):
            return agents[position_or_name]
        raise UserError(f"attack.agents: no agent at position {position_or_name}; they go from 0 to {len(agents) - 1}")
    name = str(position_or_name)
    if name not in (*agents, DECISION_AGENT):
        hint = f"{near_miss(name, agents)} Known: {', '.join(agents)}"
        raise UserError(f"attack.agents: no agent {name!r} discusses.{hint}")
    return name


class Attack:
    """Attacks discussions as the settings say. `attackers` are the compromised agents' names.

    A discussion without a compromised agent (one agent alone) is not changed; its answer is compared with the target
    all the same, which shows how often the target is hit by chance.
    """

    def __init__(
        self, settings: AttackSettings, agents: Sequence[str], dataset: Dataset, seed: int, applies: bool = True
    ) -> None:
        """Raises UserError for an attack or an agent that does not exist, and for impossible settings.

        applies: turns are changed; False where recorded messages answer them, which include the attack.
        """
        self._agents = agents
        self._dataset = dataset
        self._targets = Targets(dataset, seed)
        self._seed = seed
        self.applies = applies
        self._spared: frozenset[str] = frozenset()
        self.settings = settings
        self.attackers = choose_attackers(settings, self._agents, self._seed)
        self._kind = attack_kind(settings.kind)(settings)
        self._folder = ALTERED
        self.evidence: Any = None  # the `Evidence` that attacked discussions search; its package imports this one

    def under(self, settings: AttackSettings) -> "Attack":
        """Returns another attack on the same agents and questions. Raises UserError as the constructor does."""
        attack = Attack(settings, self._agents, self._dataset, self._seed, self.applies)
        attack._targets = self._targets
        return attack

    def absent(self) -> "Attack":
        """Returns the same without the attack: every discussion is left as it is."""
        return self.under(AttackSettings())

    def sparing(self, turns: Collection[str]) -> "Attack":
        """Returns a copy that leaves these turns (`<round>/<agent>`) and their messages alone.

        In transit also an edge, `<turn> -> <hearer's turn>`. All agents read the same evidence: an attack on it spares
        all turns as soon as one is named.
        """
        if turns and self._kind.acts_on == "evidence":
            return self.absent()
        attack = copy(self)
        attack._spared = frozenset(turns)
        return attack

    def prepare(self, evidence: Any) -> None:
        """Publishes an attack's sources in a copy of the run's corpus. Raises UserError where nothing is retrieved."""
        self._folder = evidence.store.folder.parent.parent / "pictures"  # next to the indexes, in the cache
        if not isinstance(self._kind, Corpus):
            return
        items: list[Item] = []
        if self.settings.attacks("train"):
            items += self._dataset.train()
        if self.settings.attacks("evaluate"):
            items += self._dataset.evaluate()
        if all(_reads_its_own(item, evidence) for item in items):
            raise UserError(
                "attack=corpus: nothing is retrieved, the questions' evidence is their own: use attack=poison"
            )

        planted = {}
        for item in items:
            context = self._context(item, 0, "evaluate")
            if context:
                planted[item.question.id] = self._kind.publishes(item.question, context)
        store = evidence.store.of(lambda: chain(evidence.store.everything(), *planted.values()))
        documents = {question: [source.doc for source in sources] for question, sources in planted.items()}
        self.evidence = replace(evidence, store=store, planted=documents)

    async def discussion(
        self, item: Item, question: Question, *, phase: Phase, number: int
    ) -> "AttackedDiscussion | None":
        """Attacks the discussion of an item's `question`, number `number` (from 0) of the phase.

        Returns None where the phase is not attacked.
        """
        if not self.settings.attacks(phase):
            return None
        if self.evidence:
            question = await self.evidence.question(item)
        context = self._context(item, number, phase)
        target = self.target(item)
        published: tuple[Source, ...] = ()
        if context:
            # Without a target the attack moves messages, and writes nothing.
            published = self._kind.publishes(question, context) if target else ()
            question = self._kind.evidence(question, context)
        return AttackedDiscussion(
            question=question,
            attack=self.settings.kind,
            attackers=self.attackers,
            target=target,
            published=published,
            change=self._change_of(context),
            in_transit=self._kind.acts_on == "messages",
            applies=self.applies,
        )

    def target(self, item: Item) -> str | None:
        """Returns the wrong answer that the attack argues for, or None."""
        if not self._kind.aimed:
            return None
        return self._targets.of(item, self.settings.target) or self._targets.of(item)

    def change(self, item: Item, number: int, phase: Phase = "evaluate") -> Change:
        """Returns the change of every turn of a discussion."""
        return self._change_of(self._context(item, number, phase))

    def _change_of(self, context: AttackContext | None) -> Change:
        every_turn = self._kind.acts_on in ("messages", "evidence")

        def change(turn: Turn) -> Turn:
            is_attackers = turn.agent in self.attackers and f"{turn.round}/{turn.agent}" not in self._spared
            if context and (every_turn or is_attackers):
                return self._kind.change(turn, context)
            return turn

        return change

    def _context(self, item: Item, number: int, phase: Phase) -> AttackContext | None:
        """Makes the context of an attacked discussion. None for a question without a wrong answer."""
        target = self.target(item)
        if self._kind.aimed and target is None:
            return None
        own_targets = {}
        if self._kind.several_targets:
            # A question with fewer wrong answers than attackers: the last of them share the first answer.
            for place, name in enumerate(self.attackers, start=self.settings.target):
                own_targets[name] = self._targets.of(item, place) or target or ""
        return AttackContext(
            target=target or "",
            attackers=self.attackers,
            number=number,
            seed=self._seed,
            own_targets=own_targets,
            phase=phase,
            folder=self._folder,
            spared=self._spared,
        )


def _reads_its_own(item: Item, evidence: Any) -> bool:
    """True for a question whose searches find nothing but its own sources."""
    pools = [space.pool for space in evidence.spaces(item)]
    return all(pool is not None and {*pool} <= {*item.own} for pool in pools)


@dataclass(frozen=True)
class AttackedDiscussion:
    """An attack on one discussion.

    question: as the agents see it. attackers: names of the compromised agents. target: the wrong answer.
    published: sources of the attacker. change: makes each turn the one that its agent receives.
    in_transit: messages are changed on their way, and not by their senders.
    applies: turns are changed; False where recorded messages answer them, which include the attack.
    """

    question: Question
    attack: str
    attackers: tuple[str, ...]
    target: str | None
    published: tuple[Source, ...]
    change: Change
    in_transit: bool
    applies: bool

    def as_sent(self, reply: Message, sent: Turn, received: Turn) -> Message:
        """Records in a reply what was sent to its agent (`heard`), and what did not arrive so (`tampered`)."""
        if sent.heard == received.heard:
            return reply
        messages_sent = dict.fromkeys(hearing.message for hearing in sent.heard)
        messages_received = dict.fromkeys(hearing.message for hearing in received.heard)
        altered = [message for message in messages_received if message not in messages_sent]
        if self.in_transit:
            altered = [message for message in messages_sent if message not in messages_received] + altered
        return replace(
            reply,
            heard=tuple(message.id for message in messages_sent),
            tampered=tuple(dict.fromkeys(message.id.partition(COPY)[0] for message in altered)),
        )

    def added(self, sent: Turn, received: Turn) -> set[Message | Source]:
        """Returns the messages and sources of the attacker that a turn has."""
        return _contents(received) - _contents(sent)

    def marked(self, trace: Trace, added: Iterable[Message | Source]) -> Trace:
        """Records the attack in the trace of the discussion. added: what its turns had of the attacker."""
        additions = {*added, *self.published}
        speakers = {*trace.agents, *(turn.agent for turn in trace.turns)}
        texts = [part.text if isinstance(part, Source) else part.content for part in additions]
        return replace(
            trace,
            attack=self.attack,
            # A system may ask only some of the agents; the others cannot have done any harm.
            attacked=tuple(name for name in self.attackers if name in speakers),
            target=self.target,
            planted=sum(1 for part in additions if isinstance(part, Source)),
            written=sum(map(count_tokens, texts)),
        )


def _contents(turn: Turn) -> set[Message | Source]:
    return {*(hearing.message for hearing in turn.heard), *turn.memories, *turn.question.evidence}
