"""A recorded discussion, which can be repeated with other speakers.

Its topology asks the same turns as in the run, with attacks, defences and tampered messages.
"""

from dataclasses import dataclass, fields, replace

from actors.errors import UserError, first_of
from actors.messages import Message, Question, Trace, Turn, TurnResult
from experiments.attacks.attack import Attack
from experiments.attacks.kind import Phase
from experiments.datasets.item import Item
from experiments.running.speakers import attacked_discussion
from topologies.topology import Speaker, Topology


@dataclass(frozen=True)
class RecordedDiscussion:
    """A discussion of a run.

    place: names it in errors. trace: its record. phase, number, sample: its place in the run.
    """

    place: str
    trace: Trace
    topology: Topology
    item: Item
    question: Question
    attack: Attack
    phase: Phase
    number: int
    sample: int

    async def hold(self, speaker: Speaker, attack: Attack | None = None) -> Trace:
        """Holds it with a speaker, under its attack or another one."""
        return await attacked_discussion(
            attack or self.attack,
            self.topology,
            self.item,
            self.question,
            speaker,
            self.trace.seed,
            phase=self.phase,
            number=self.number,
            sample=self.sample,
        )

    async def heard(self) -> "RecordedTurns":
        """Returns its turns as agents received them. Raises UserError where it is not the recorded one any more."""
        turns = RecordedTurns(self.trace)
        try:
            trace = await self.hold(turns)
        except* UserError as errors:
            raise UserError(f"{self.place}: {first_of(UserError, errors)}") from errors
        names = [field.name for field in fields(Trace)]
        differing = [name for name in names if getattr(trace, name) != getattr(self.trace, name)]
        if differing:
            raise UserError(
                f"{self.place}: the discussion made again differs from the recorded one in {', '.join(differing)}: "
                "the data, the settings or the program are others now"
            )
        return turns


class RecordedTurns:
    """Answers turns with the messages of a trace.

    turns: as agents received them, by id. memories: by turn, the message that its agent remembers.
    """

    def __init__(self, trace: Trace) -> None:
        self.turns: dict[str, Turn] = {}
        self.memories: dict[str, Message] = {}
        self._messages = {message.id: message for message in trace.turns}

    async def take(self, turn: Turn) -> TurnResult:
        id = f"{turn.round}/{turn.agent}"
        if id not in self._messages:
            raise UserError(f"turn {id} was never recorded: the data, the settings or the program are others now")
        # The trace lists sent messages, and the turn arrived ones. A topology may count rounds anew.
        message = replace(self._messages[id], round=turn.round)
        self.turns[id] = turn
        self.memories[id] = replace(message, heard=tuple(heard.message.id for heard in turn.heard), tampered=())
        return TurnResult(message)

    def close(self, discussion: str) -> None:
        """Does nothing: the turns are kept."""
