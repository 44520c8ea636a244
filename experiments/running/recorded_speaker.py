"""Answers turns from the traces of a recorded run, without agents and models.

A turn must be the recorded one: the same seed, the same messages heard and the same evidence.
"""

import json
import weakref
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import BinaryIO

from actors.errors import UserError
from actors.messages import Message, Trace, Turn, TurnResult
from experiments.records import jsonl
from experiments.records.recorder import RunFolder
from experiments.records.records import decode_trace
from topologies.learning.learned_topology import TRAINING

INTACT = "replay an intact run"
_ABOUT_ENDS = b',"agents":'  # quotes inside a JSON string are escaped, so this is never part of a question's id


class RecordedSpeaker:
    """The agents of a run folder. Keeps the byte offset of every discussion, and the discussions that are open.

    Of the methods in `searching`, turns may read parts of the evidence that the trace lists. Raises UserError, when a
    discussion of a method is first asked for, where its traces cannot be read.
    """

    def __init__(self, folder: RunFolder, searching: Collection[str] = ()) -> None:
        self.folder = folder
        self._searching = searching
        self._places: dict[str, dict[str, tuple[Path, int]]] = {}
        self._files: dict[Path, BinaryIO] = {}
        self._open: dict[str, tuple[Trace, dict[str, Message]]] = {}

    async def take(self, turn: Turn) -> TurnResult:
        """Returns the recorded message. Raises UserError for an unknown turn, or another seed, evidence or messages."""
        trace, messages = self._discussion(turn)
        message = messages.get(f"{turn.round}/{turn.agent}")
        if message is None:
            raise UserError(
                f"{_named(turn)} was never recorded: in {self.folder.path} {turn.agent} did not speak then; "
                "replay the roles, rounds and wiring of that run, or ask a model"
            )
        evidence = [source.id for source in turn.question.evidence]
        recorded_evidence = list(trace.evidence)
        if trace.method in self._searching and set(evidence) <= set(recorded_evidence):
            evidence = recorded_evidence
        self._require_same(turn, "its seed is", [turn.seed], [message.seed])
        # Sorted: who is heard matters, and not in which order the trace has listed them.
        heard = sorted(heard.message.id for heard in turn.heard)
        self._require_same(turn, "it hears", heard, sorted(message.heard))
        self._require_same(turn, "its evidence is", evidence, recorded_evidence)
        return TurnResult(message)  # nothing is spent

    def close(self, discussion: str) -> None:
        """No more turns of this discussion will come."""
        self._open.pop(discussion, None)

    def _require_same(self, turn: Turn, aspect: str, present: Sequence[object], recorded: Sequence[object]) -> None:
        if present != recorded:
            raise UserError(
                f"{_named(turn)}: {aspect} {_listed(present)}, and in {self.folder.path} {_listed(recorded)}; replay "
                "with that run's settings, data and scores, or ask a model"
            )

    def _discussion(self, turn: Turn) -> tuple[Trace, dict[str, Message]]:
        # Read from disk at the first turn and dropped at `close`: a whole run's traces would fill the memory.
        if turn.discussion not in self._open:
            trace = self._read(turn)
            self._open[turn.discussion] = trace, {message.id: message for message in trace.turns}
        return self._open[turn.discussion]

    def _read(self, turn: Turn) -> Trace:
        method = turn.discussion.partition("/")[0]
        if method not in self._places:
            self._places[method] = places_of(self.folder, method)
        places = self._places[method]
        if turn.discussion not in places:
            count = f"{len(places):,} discussions of {method}" if places else "none"
            raise UserError(
                f"{_named(turn)} was never recorded: {self.folder.path} holds {count} and not this one; replay "
                "with the recorded methods, questions and training.samples, or ask a model"
            )
        path, offset = places[turn.discussion]
        if path not in self._files:
            file = jsonl.seekable(path)
            self._files[path] = file
            weakref.finalize(self, file.close)
        self._files[path].seek(offset)
        try:
            return decode_trace(self._files[path].readline(jsonl.LINE_BYTES).decode())
        except ValueError as error:
            raise UserError(f"{path}: {error}; {INTACT}") from error


def _named(turn: Turn) -> str:
    method, _, rest = turn.discussion.partition("/")
    sample = rest.rpartition("/")[2]
    return f"turn {turn.round}/{turn.agent} of question {turn.question.id} (method {method}, sample {sample})"


def _listed(values: Sequence[object]) -> str:
    return ", ".join(map(str, values)) or "nothing"


def places_of(folder: RunFolder, method: str) -> dict[str, tuple[Path, int]]:
    """Finds the file and the first byte of each discussion of a method, by its id. Only a line's head is parsed."""
    if method.startswith(TRAINING):
        paths = folder.learned(method.removeprefix(TRAINING)).training_traces()
    else:
        paths = [folder.trace_file("calibrate" if method == "calibrate" else f"evaluate-{method}")]
    places = {}
    for path in paths:
        for number, (offset, line) in enumerate(jsonl.placed(path), start=1):
            head, separator, _ = line.partition(_ABOUT_ENDS)
            # The head lacks only its closing brace to be an object.
            about = head + b"}" if separator else line
            discussion = jsonl.decoded(path, number, about, _discussion_id, INTACT)
            places[discussion] = path, offset
    return places


def _discussion_id(text: str) -> str:
    return "{method}/{question}/{sample}".format(**json.loads(text))
