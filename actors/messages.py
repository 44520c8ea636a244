"""Everything that crosses a process: frozen values, standard library only, no behaviour beyond their own arithmetic."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, fields
from enum import StrEnum
from operator import attrgetter
from typing import Any, TypeVar, cast, dataclass_transform

C = TypeVar("C", bound=type[Any])


@dataclass_transform(frozen_default=True)
def wire(cls: C) -> C:
    """A frozen, slotted dataclass that pickles as its constructor's arguments: a third of the time of the default."""
    built: Any = dataclass(frozen=True, slots=True)(cls)
    values = attrgetter(*(field.name for field in fields(built)))

    def reduce(self: object) -> tuple[Any, tuple[object, ...]]:
        return built, values(self)

    built.__reduce__ = reduce
    return cast(C, built)


class Modality(StrEnum):
    """What an agent reads; `both` is for a decision agent or a single agent that stands for a whole team."""

    TEXT = "text"
    VISUAL = "visual"
    BOTH = "both"

    def reads(self, kind: Kind) -> bool:
        """Tables are text: a textual agent gets passages and table rows, a visual one pictures."""
        return self is Modality.BOTH or (self is Modality.VISUAL) == (kind is Kind.IMAGE)


class Kind(StrEnum):
    """What a source is."""

    TEXT = "text"
    TABLE = "table"
    IMAGE = "image"


class Status(StrEnum):
    """How a turn ended. Only `ok` carries something that others hear."""

    OK = "ok"
    UNPARSED = "unparsed"
    FAILED = "failed"


@wire
class Source:
    """One retrievable piece: a passage, one row of a table, or one picture.

    `doc` names the document that it belongs to (all rows of a table share theirs). For a picture, `text` is what
    the data set says of it (a caption, recognised lettering, a scene description; may be empty) and `image` its file.
    """

    id: str
    doc: str
    kind: Kind
    title: str
    text: str
    image: str | None = None


@wire
class Question:
    """A question without its label, as everything outside `experiments/` sees it."""

    id: str
    text: str
    choices: tuple[str, ...] = ()
    evidence: tuple[Source, ...] = ()


@wire
class Message:
    """What one agent said in one turn, and all that the turn cost: the record that traces are made of.

    `id` is `<round>/<agent>`, unique within its discussion; `heard` holds the ids of the messages that it read.
    """

    id: str
    agent: str
    round: int
    content: str = ""
    answer: str | None = None
    confidence: float | None = None
    status: Status = Status.OK
    error: str = ""
    heard: tuple[str, ...] = ()
    seed: int = 0
    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0


@wire
class Heard:
    """A message as its receiver reads it: with the edge's weight among the receiver's present senders (Eqs. 6, 10)."""

    message: Message
    weight: float
    temporal: bool = False


@wire
class Turn:
    """What one agent is asked to do once. `discussion` keys the agent's memory; `round` starts at 1.

    `recall` is how many earlier turns of this discussion the agent must remember: an agent that remembers another
    number (its process was restarted) says so instead of answering from half a memory.
    """

    discussion: str
    question: Question
    agent: str
    round: int
    seed: int
    heard: tuple[Heard, ...] = ()
    recall: int = 0

    @property
    def id(self) -> str:
        return f"{self.discussion}/{self.round}/{self.agent}"


@wire
class Request:
    """One call of a model. The prompt is `system`, then `images` (with `shared` after them), then `own`.

    `system` + `images` + `shared` are the same for all agents of one modality on one question, in every round and
    sample, so that a prefix cache serves them; `prefix` is their digest, by which a pool chooses the replica.
    """

    id: str
    prefix: str
    system: str
    shared: str
    own: str
    images: tuple[Source, ...] = ()
    seed: int = 0
    temperature: float = 0.0
    max_tokens: int = 512


@wire
class Completion:
    """A model's reply. `stop` is `stop`, `length` or, where the model could not answer, `error` with the reason."""

    id: str
    text: str
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    stop: str = "stop"
    error: str = ""


@wire
class Trace:
    """One discussion as it happened; the only source of reports.

    `spatial` and `temporal` list the edges taken, `allowed_spatial` and `allowed_temporal` those that could have
    been, as `(round, sender, receiver)` with agents as indices into `agents`; `decision` names whom the decision
    agent read. `answer` is None when no usable answer was produced.
    """

    question: str
    method: str
    sample: int
    agents: tuple[str, ...]
    turns: tuple[Message, ...]
    answer: str | None
    status: Status
    seed: int
    evidence: tuple[str, ...] = ()
    spatial: tuple[tuple[int, int, int], ...] = ()
    temporal: tuple[tuple[int, int, int], ...] = ()
    allowed_spatial: tuple[tuple[int, int, int], ...] = ()
    allowed_temporal: tuple[tuple[int, int, int], ...] = ()
    decision: tuple[str, ...] = ()


def derive_seed(*parts: str | int) -> int:
    """A 63-bit seed that depends on every part and on nothing else (not on order of execution, host or process).

    Every random draw of a run comes from `derive_seed(run seed, question id, sample, round, agent)` or a shorter
    such list, which is what makes traces independent of concurrency, replicas and crashes.
    """
    digest = hashlib.blake2b("\x1f".join(map(str, parts)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1
