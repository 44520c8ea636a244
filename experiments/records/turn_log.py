"""turns/<phase>.jsonl: what each agent was asked in a turn, and what its model replied.

A line is one discussion; of a repeated one, the last line counts. The prompts of a discussion repeat each other, so
that each line of their text is written once, and named by its number. A replay has no such file.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from actors.messages import Kind, ModelCall, Source, Trace, Turn, TurnResult
from actors.prompting.form import places
from experiments.records import jsonl
from experiments.records.recorder import TURNS, RunFolder
from experiments.records.records import Count, Record

Text = tuple[Count, ...]
"""Numbers of the lines of a text."""


@dataclass(frozen=True, slots=True)
class RecordedSource:
    """A source, with the path of its picture and its number in the prompt."""

    id: str
    title: Text
    kind: Kind
    text: Text
    image: str | None
    number: Count


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """A request and its reply.

    images: numbers of the sources whose pictures it has, in its order. described: the model got their words alone.
    """

    system: Text
    shared: Text
    own: Text
    correction: Text
    images: tuple[Count, ...]
    reply: Text
    prompt_tokens: Count
    completion_tokens: Count
    described: bool = False


@dataclass(frozen=True, slots=True)
class RecordedTurn:
    """A turn: its calls, and the sources that it could read.

    weights: of the messages heard, by their ids; empty where all weigh alike.
    """

    calls: tuple[RecordedCall, ...]
    sources: tuple[RecordedSource, ...]
    weights: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DiscussionTurns(Record):
    """Turns of one discussion by their ids, and the lines of their texts."""

    question: str
    sample: Count
    lines: tuple[str, ...] = ()
    turns: Mapping[str, RecordedTurn] = field(default_factory=dict)
    REMEDY: ClassVar[str] = "delete the file"

    def text(self, numbers: Text) -> str:
        """Returns a text of the discussion."""
        return "\n".join(self.lines[number] for number in numbers)

    def check(self) -> None:
        numbers = [number for turn in self.turns.values() for number in _numbers(turn)]
        if max(numbers, default=-1) >= len(self.lines):
            raise ValueError("turns: expected numbers of lines")


def _numbers(turn: RecordedTurn) -> Iterable[int]:
    for call in turn.calls:
        yield from (*call.system, *call.shared, *call.own, *call.correction, *call.reply)
    for source in turn.sources:
        yield from (*source.title, *source.text)


class TurnLog:
    """Writes a folder's turns, alone. Used while the folder's recorder is open, which keeps other writers out."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        jsonl.reopen_all(folder.path / TURNS)
        # Turns of open discussions, with their calls.
        self._turns: dict[str, dict[str, tuple[Turn, tuple[ModelCall, ...]]]] = {}

    def turn(self, turn: Turn, result: TurnResult) -> None:
        """Notes a turn as its agent received it, and its calls."""
        # A repeated turn takes the place of the lost one.
        turns = self._turns.setdefault(turn.discussion, {})
        turns[f"{turn.round}/{turn.agent}"] = turn, result.calls

    def ended(self, phase: str, trace: Trace) -> None:
        """Records a discussion's turns. Raises UserError where they cannot be written."""
        turns = self._turns.pop(trace.discussion, None)
        if not turns:
            return
        lines = LineNumbers()
        # In the order of the trace, whichever turn ended first.
        recorded = {message.id: lines.turn(*turns[message.id]) for message in trace.turns if message.id in turns}
        line = DiscussionTurns(trace.question, trace.sample, tuple(lines.numbers), recorded)
        jsonl.append_to(turn_file(self._folder, phase), line.encode())


class LineNumbers:
    """Numbers the lines of a discussion's texts, from 0 in the order in which they come."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        # Turns share the parts of their prompts: each is split once.
        self._texts: dict[str, Text] = {}

    def text(self, text: str) -> Text:
        numbers = self._texts.get(text)
        if numbers is None:
            numbers = tuple(self.numbers.setdefault(line, len(self.numbers)) for line in text.split("\n"))
            self._texts[text] = numbers
        return numbers

    def source(self, source: Source, number: int) -> RecordedSource:
        return RecordedSource(
            source.id, self.text(source.title), source.kind, self.text(source.text), source.image, number
        )

    def call(self, call: ModelCall) -> RecordedCall:
        request, completion = call.request, call.completion
        return RecordedCall(
            system=self.text(request.system),
            shared=self.text(request.shared),
            own=self.text(request.own),
            correction=self.text(request.correction),
            # A request's pictures have their numbers in the place of ids.
            images=tuple(int(image.id) for image in request.images),
            reply=self.text(completion.text),
            prompt_tokens=completion.prompt_tokens,
            completion_tokens=completion.completion_tokens,
            described=any(image.image is None for image in request.images),
        )

    def turn(self, turn: Turn, calls: Iterable[ModelCall]) -> RecordedTurn:
        weights = {heard.message.id: heard.weight for heard in turn.heard}
        if len(set(weights.values())) <= 1:
            weights = {}
        numbers = places(turn.question)
        return RecordedTurn(
            calls=tuple(map(self.call, calls)),
            sources=tuple(self.source(source, numbers[source.id]) for source in turn.question.evidence),
            weights=weights,
        )


def turn_file(folder: RunFolder, phase: str) -> Path:
    return folder.path / TURNS / f"{phase}.jsonl"


def turns_of_trace(folder: RunFolder, phase: str, trace: Trace) -> DiscussionTurns | None:
    """Reads the turns of one discussion. None where they are not recorded. Raises UserError for a damaged line."""
    path = turn_file(folder, phase)
    recorded = None
    # Only lines that begin with its question and sample are decoded.
    head = DiscussionTurns(trace.question, trace.sample).encode().partition(',"lines"')[0].encode()
    for number, line in enumerate(jsonl.lines(path), start=1):
        if line.startswith(head + b","):
            recorded = jsonl.decoded(path, number, line, DiscussionTurns.decode, DiscussionTurns.REMEDY)
    return recorded
