"""turns/<phase>.jsonl: what each agent was asked in a turn, and what its model replied.

A line is one discussion; of one that was held again, the last line counts. Prompts repeat each other: a line of text, a
source and a call are written once in a block of discussions, and later ones name it by its number in the block.

A replay has no turns of its own.
"""

import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, NamedTuple, TypeVar

from actors.errors import UserError
from actors.messages import Kind, ModelCall, Source, Trace, Turn, TurnResult
from actors.prompting.form import places
from experiments.records import jsonl
from experiments.records.recorder import TURNS, RunFolder
from experiments.records.records import Count, Record

BLOCK = 64  # discussions whose repetitions are written once
_HEAD = re.compile(rb'\{"block":(\d+),(.*?),"lines":', re.DOTALL)
Numbers = tuple[Count, ...]
T = TypeVar("T", bound=Hashable)


class RecordedSource(NamedTuple):
    """A source that a turn could read."""

    id: str
    title: str
    kind: Kind
    text: str
    image: str | None


class RecordedCall(NamedTuple):
    """A request and its reply: numbers of their lines of text, and of the sources that are its pictures."""

    system: Numbers
    shared: Numbers
    own: Numbers
    correction: Numbers
    images: Numbers
    reply: Numbers
    prompt_tokens: Count
    completion_tokens: Count


class RecordedTurn(NamedTuple):
    """A turn: numbers of its calls and of the sources that it could read.

    weights: of the messages heard, by their ids; empty where all weigh alike.
    places: numbers of the sources in the prompt; empty where they are numbered from 1.
    """

    calls: Numbers
    evidence: Numbers
    weights: Mapping[str, float] = {}
    places: Numbers = ()


@dataclass(frozen=True, slots=True)
class DiscussionTurns(Record):
    """Turns of one discussion by their ids, with the lines, sources and calls that are new in its block."""

    block: Count
    question: str
    sample: Count
    lines: tuple[str, ...] = ()
    sources: tuple[RecordedSource, ...] = ()
    calls: tuple[RecordedCall, ...] = ()
    turns: Mapping[str, RecordedTurn] = field(default_factory=dict)
    REMEDY: ClassVar[str] = "delete the file"


class Numbered(dict[T, int]):
    """Numbers values from 0 in the order in which they come. `new` are those since the last `take`."""

    def __init__(self) -> None:
        super().__init__()
        self.new: list[T] = []

    def __missing__(self, value: T) -> int:
        number = self[value] = len(self)
        self.new.append(value)
        return number

    def take(self) -> tuple[T, ...]:
        values = tuple(self.new)
        self.new.clear()
        return values


class TurnBlock:
    """Numbers of what is written in a block."""

    def __init__(self) -> None:
        self.lines: Numbered[str] = Numbered()
        self.sources: Numbered[RecordedSource] = Numbered()
        self.calls: Numbered[RecordedCall] = Numbered()
        self.discussions = 0

    def text(self, text: str) -> Numbers:
        return tuple(self.lines[line] for line in text.split("\n"))

    def source(self, source: Source) -> int:
        return self.sources[RecordedSource(source.id, source.title, source.kind, source.text, source.image)]

    def call(self, call: ModelCall) -> int:
        request, completion = call.request, call.completion
        return self.calls[
            RecordedCall(
                system=self.text(request.system),
                shared=self.text(request.shared),
                own=self.text(request.own),
                correction=self.text(request.correction),
                images=tuple(map(self.source, request.images)),
                reply=self.text(completion.text),
                prompt_tokens=completion.prompt_tokens,
                completion_tokens=completion.completion_tokens,
            )
        ]

    def turn(self, turn: Turn, calls: Iterable[ModelCall]) -> RecordedTurn:
        weights = {heard.message.id: heard.weight for heard in turn.heard}
        if len(set(weights.values())) <= 1:
            weights = {}
        evidence = turn.question.evidence
        by_source = places(turn.question)
        in_prompt = tuple(by_source[source.id] for source in evidence)
        if in_prompt == tuple(range(1, len(evidence) + 1)):
            in_prompt = ()
        return RecordedTurn(tuple(map(self.call, calls)), tuple(map(self.source, evidence)), weights, in_prompt)


class TurnLog:
    """Writes a folder's turns, alone. Used while the folder's recorder is open, which keeps other writers out."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        # The folder itself is made by its recorder. One that was moved away must not appear again.
        (folder.path / TURNS).mkdir(exist_ok=True)
        # Turns of open discussions, with their calls.
        self._turns: dict[str, dict[str, tuple[Turn, tuple[ModelCall, ...]]]] = {}
        self._blocks: dict[str, tuple[int, TurnBlock]] = {}

    def turn(self, turn: Turn, result: TurnResult) -> None:
        """Notes a turn as its agent received it, and its calls."""
        # A repeated turn takes the place of the lost one.
        turns = self._turns.setdefault(turn.discussion, {})
        turns[f"{turn.round}/{turn.agent}"] = turn, result.calls

    def ended(self, phase: str, trace: Trace) -> None:
        """Records a discussion's turns. Raises UserError where they cannot be written."""
        turns = self._turns.pop(f"{trace.method}/{trace.question}/{trace.sample}", None)
        if not turns:
            return
        path = turn_file(self._folder, phase)
        if phase not in self._blocks:
            jsonl.make_plain(path)
            jsonl.cut(path)
            self._blocks[phase] = _last_block(path) + 1, TurnBlock()
        number, block = self._blocks[phase]
        if block.discussions == BLOCK:
            number, block = self._blocks[phase] = number + 1, TurnBlock()
        block.discussions += 1
        # In the order of the trace, whichever turn ended first.
        recorded = {message.id: block.turn(*turns[message.id]) for message in trace.turns if message.id in turns}
        line = DiscussionTurns(
            block=number,
            question=trace.question,
            sample=trace.sample,
            lines=block.lines.take(),
            sources=block.sources.take(),
            calls=block.calls.take(),
            turns=recorded,
        )
        jsonl.append_to(path, line.encode())


def turn_file(folder: RunFolder, phase: str) -> Path:
    return folder.path / TURNS / f"{phase}.jsonl"


class CallTexts(NamedTuple):
    """A request and its reply in full."""

    system: str
    shared: str
    own: str
    correction: str
    images: tuple[RecordedSource, ...]
    reply: str
    prompt_tokens: int
    completion_tokens: int


class TurnTexts(NamedTuple):
    """A turn in full: its calls, the sources that it could read by their numbers, and weights of messages heard."""

    calls: tuple[CallTexts, ...]
    evidence: Mapping[int, RecordedSource]
    weights: Mapping[str, float]


def turns_of_trace(folder: RunFolder, phase: str, trace: Trace) -> dict[str, TurnTexts]:
    """Reads the turns of one discussion, by their ids. Empty where none are recorded.

    Raises UserError for a damaged file.
    """
    path = turn_file(folder, phase)
    wanted = DiscussionTurns(0, trace.question, trace.sample).encode()
    identity = wanted.partition(",")[2].partition(',"lines"')[0].encode()
    texts: dict[str, TurnTexts] = {}
    block_number = -1
    block: list[tuple[int, bytes]] = []
    for number, line in enumerate(jsonl.lines(path), start=1):
        # Only blocks that hold the discussion are decoded.
        head = _HEAD.match(line)
        if head is None or int(head[1]) != block_number:
            block_number = int(head[1]) if head else -1
            block = []
        block.append((number, line))
        if head and head[2] == identity:
            texts = _in_full(path, block)
    return texts


def _in_full(path: Path, block: Iterable[tuple[int, bytes]]) -> dict[str, TurnTexts]:
    """Puts lines, sources and calls of a block in the place of their numbers, for its last discussion."""
    lines: list[str] = []
    sources: list[RecordedSource] = []
    calls: list[RecordedCall] = []
    turns: Mapping[str, RecordedTurn] = {}
    for number, encoded in block:
        record = jsonl.decoded(path, number, encoded, DiscussionTurns.decode, DiscussionTurns.REMEDY)
        lines += record.lines
        sources += record.sources
        calls += record.calls
        turns = record.turns

    def text(numbers: Numbers) -> str:
        return "\n".join(lines[number] for number in numbers)

    def in_full(call: RecordedCall) -> CallTexts:
        return CallTexts(
            system=text(call.system),
            shared=text(call.shared),
            own=text(call.own),
            correction=text(call.correction),
            images=tuple(sources[number] for number in call.images),
            reply=text(call.reply),
            prompt_tokens=call.prompt_tokens,
            completion_tokens=call.completion_tokens,
        )

    try:
        return {
            id: TurnTexts(
                calls=tuple(in_full(calls[number]) for number in turn.calls),
                evidence=_numbered(turn, sources),
                weights=turn.weights,
            )
            for id, turn in turns.items()
        }
    except (IndexError, ValueError) as error:
        problem = "a turn names a line, a source or a call that is not there"
        raise UserError(f"{path}: {problem}; {DiscussionTurns.REMEDY}") from error


def _numbered(turn: RecordedTurn, sources: Sequence[RecordedSource]) -> dict[int, RecordedSource]:
    """Returns the sources of a turn by their numbers in the prompt. Raises ValueError where some have none."""
    in_prompt = turn.places or range(1, len(turn.evidence) + 1)
    return {place: sources[number] for place, number in zip(in_prompt, turn.evidence, strict=True)}


def _last_block(path: Path) -> int:
    """Returns the number of the file's last block, -1 for none."""
    number = -1
    for line in jsonl.lines(path):
        if head := _HEAD.match(line):
            number = int(head[1])
    return number
