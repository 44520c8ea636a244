"""Settings of attacks, and their base class. It has the parts of a discussion that an attack changes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import gettempdir
from typing import Any, ClassVar, Literal

from actors.lookup import names_code
from actors.messages import Heard, Message, Question, Source, Turn, derive_seed
from actors.settings import setting

NONE = "none"
ALTERED = Path(gettempdir())  # where pictures are altered outside a run
Phase = Literal["train", "evaluate"]


@dataclass
class AttackSettings:
    """An attack and its attackers. `attack=response` is short for `attack.kind=response`."""

    kind: str = setting(NONE, outside=names_code("attacks"))
    """`none`, one that `help=attacks` lists, or one of your own as `package.module:Class`."""
    agents: list[Any] = field(default_factory=list)
    """Positions in the team (from 0) or role names, such as [0, visual_critic]; empty: `number` of them, by seed.
    `decision` is the decision agent, for attacks on its own turn: input, response, collude, sleeper, late, sabotage."""
    number: int = setting(1, at_least=1, when="agents=[]")
    """Number of compromised agents where `agents` names none."""
    when: Literal["train", "evaluate", "both"] = "both"
    """Phases of a run that are attacked."""
    clean: bool = setting(False, when="when!=train", since="0.4.0")
    """Evaluate every method a second time without the attack, along the same graphs, as `<method>-clean`."""
    share: float = setting(0.5, at_least=0, at_most=1)
    """Share of messages that are hit in transit (of those that `agents` send, of all where it is empty); picture: of
    pictures with text drawn into them; sabotage: of honest agents that are framed."""
    source: Literal["text", "image"] = "text"
    """Kind of the planted source, a passage or the caption of a picture."""
    sources: int = setting(1, at_least=1, at_most=100, since="0.4.0")
    """corpus: number of sources that are planted for each question."""
    from_round: int = setting(2, at_least=1)
    """sleeper: first round in which it is no longer honest."""
    from_question: int = setting(0, at_least=0)
    """sleeper: number of questions of a phase that it answers honestly first."""
    gradual: int = setting(0, at_least=0, since="0.4.0")
    """sleeper: number of further questions over which it defects in a growing share (0: at once)."""
    target: int = setting(0, at_least=0, at_most=100, since="0.4.0")
    """Wrong answer to argue for, by its place among those of a question (from 0); the first where it has fewer."""
    phrasing: Literal["evidence", "authority", "consensus", "correction"] = setting("evidence", since="0.4.0")
    """Appeal by which an attacker argues: to the evidence, to an official record, to agreement, or to a mistake that it
    has corrected."""
    confidence: float = setting(0.95, at_least=0, at_most=1, since="0.4.0")
    """Confidence that an attacker states."""

    def attacks(self, phase: Phase) -> bool:
        """True if discussions of the phase are attacked."""
        return self.kind != NONE and self.when in (phase, "both")


@dataclass(frozen=True, slots=True)
class AttackContext:
    """Knowledge of an attack about the discussion that it attacks. The gold answer is no part of it.

    target: the wrong answer that the attack argues for; empty for an attack without one.
    attackers: names of the compromised agents, in the team's order.
    own_targets: a wrong answer for each of them, where the attack has `several_targets`.
    number: the question's position among those of the phase, from 0.
    phase: `train` or `evaluate`. folder: for altered pictures.
    undelivered: delayed messages of this discussion, by a place and by id. spared: messages to leave alone,
        by their ids or, to one hearer alone, as `<id> -> <hearer's turn>`.
    """

    target: str
    attackers: tuple[str, ...]
    number: int
    seed: int
    own_targets: Mapping[str, str] = field(default_factory=dict)
    phase: Phase = "evaluate"
    folder: Path = ALTERED
    undelivered: dict[tuple[str, int], dict[str, Heard]] = field(default_factory=dict)
    spared: frozenset[str] = frozenset()

    @property
    def held(self) -> dict[tuple[str, int], dict[str, Heard]]:
        """The former name of `undelivered`, for attacks written for 0.3.0."""
        return self.undelivered

    def falls(self, share: float, *parts: Any) -> bool:
        """Draws by the seed and `parts` alone; True with the probability `share`."""
        return derive_seed(self.seed, *parts) < share * 2.0**63  # seeds are uniform in 63 bits


class AttackKind:
    """Base of all attacks. A subclass states its threat model in its docstring.

    name: as in the configuration and in traces.
    reads: keys of the settings that count with it; others are refused. By default the ones that the run itself reads
        for an attack on agents with a target. An attack with further settings adds them to these.
    acts_on: `turns` or `memory` of the compromised agents, `messages` of all agents between sender and receiver, or
        `evidence`.
    aimed: it argues for a wrong answer; without one there is no success rate.
    several_targets: each compromised agent argues for another wrong answer.
    spreads: agents that are not compromised may pass it on.
    in_games: it is one of the attacks that `job=game` plays by default.
    """

    name: ClassVar[str] = "an attack of your own"
    reads: ClassVar[tuple[str, ...]] = (
        "attack.agents",
        "attack.number",
        "attack.when",
        "attack.clean",
        "attack.target",
    )
    acts_on: ClassVar[Literal["turns", "memory", "messages", "evidence"]] = "turns"
    aimed: ClassVar[bool] = True
    several_targets: ClassVar[bool] = False
    spreads: ClassVar[bool] = False
    in_games: ClassVar[bool] = False

    def __init__(self, settings: AttackSettings) -> None:
        self.settings = settings

    def check(self, attackers: Sequence[str]) -> None:
        """Raises UserError for settings, or a number of attackers, that make no sense."""

    def check_phases(self, rounds: int | None, questions: int | None) -> None:
        """Raises UserError where `rounds` and `questions` (None: not known) are too few for the attack."""

    def change(self, turn: Turn, context: AttackContext) -> Turn:
        """Returns the turn as its agent receives it. Where `acts_on` is `messages`, it gets all agents' turns."""
        return turn

    def evidence(self, question: Question, context: AttackContext) -> Question:
        """Returns the question with the evidence that agents receive."""
        return question

    def publishes(self, question: Question, context: AttackContext) -> tuple[Source, ...]:
        """Returns the sources that the attacker publishes for a question."""
        return ()

    @staticmethod
    def carries(message: Message, target: str) -> bool:
        """True for a message that passes the attack on."""
        return False


class NoAttack(AttackKind):
    """No attack."""

    name = NONE
    reads = ()
