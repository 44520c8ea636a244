"""timings/<phase>.jsonl: when each turn was asked, how long it took, and which replica answered it.

A line is one discussion; of a repeated one, the last line counts. No other record depends on times. Turns of a
replay have none.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, ClassVar, NamedTuple

from pydantic import Field

from actors.messages import Trace, Turn, TurnResult
from experiments.records import jsonl
from experiments.records.recorder import TIMINGS, RunFolder
from experiments.records.records import Count, Record

Seconds = Annotated[float, Field(ge=0)]
DIGITS = 5  # after the point: the embedded reader answers in less than a millisecond


class TurnTime(NamedTuple):
    """Times of one turn.

    start: seconds after the first turn of its discussion was asked. seconds: until its message was there.
    cached_tokens: of its prompts, from a replica's prefix cache. replica: number of the one that answered last, from 1;
    0 where none did.
    """

    start: Seconds
    seconds: Seconds
    cached_tokens: Count = 0
    replica: Count = 0


@dataclass(frozen=True, slots=True)
class DiscussionTimes(Record):
    """Times of one discussion. Its first turn was asked at `started`, in Unix seconds; turns are by id."""

    question: str
    sample: Count
    started: Seconds
    turns: Mapping[str, TurnTime] = field(default_factory=dict)
    REMEDY: ClassVar[str] = "delete the file"


Times = Mapping[tuple[str, int], DiscussionTimes]  # by question and sample


class TimingLog:
    """Writes a folder's timings, alone. Used while the folder's recorder is open, which keeps other writers out."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        jsonl.reopen_all(folder.path / TIMINGS)

        # Times of open discussions by turn, each after the start of the monotonic clock.
        self._turns: dict[str, dict[str, TurnTime]] = {}
        # One reading of the wall clock, which may be set while the run goes on.
        self._epoch_s = time.time() - time.monotonic()

    def turn(self, turn: Turn, result: TurnResult, asked_s: float) -> None:
        """Notes a turn that was asked at a time of the monotonic clock, and is answered now."""
        seconds = time.monotonic() - asked_s
        # A repeated turn takes the place of the lost one.
        turns = self._turns.setdefault(turn.discussion, {})
        usage = result.usage
        turns[f"{turn.round}/{turn.agent}"] = TurnTime(asked_s, seconds, usage.cached_tokens, usage.replica)

    def ended(self, phase: str, trace: Trace) -> None:
        """Records a discussion's times. Raises UserError where they cannot be written."""
        turns = self._turns.pop(trace.discussion, None)
        if not turns:
            return
        began_s = min(turn.start for turn in turns.values())
        rounded = {
            id: turn._replace(start=round(turn.start - began_s, DIGITS), seconds=round(turn.seconds, DIGITS))
            for id, turn in turns.items()
        }
        times = DiscussionTimes(trace.question, trace.sample, round(self._epoch_s + began_s, DIGITS), rounded)
        jsonl.append_to(timing_file(self._folder, phase), times.encode())


def timing_file(folder: RunFolder, phase: str) -> Path:
    return folder.path / TIMINGS / f"{phase}.jsonl"


def times_of_turns(folder: RunFolder, phase: str) -> Times:
    """Reads times of a phase by question and sample, of a run or a learned graph."""
    return {(times.question, times.sample): times for times in DiscussionTimes.read(timing_file(folder, phase))}


def of_trace(folder: RunFolder, phase: str, trace: Trace) -> DiscussionTimes | None:
    """Reads the times of one discussion, as `times_of_turns`. None where there are none."""
    path = timing_file(folder, phase)
    times = None
    # Only lines that begin with its question and sample are decoded.
    head = DiscussionTimes(trace.question, trace.sample, 0).encode().partition(',"started"')[0].encode()
    for number, line in enumerate(jsonl.lines(path), start=1):
        if line.startswith(head):
            times = jsonl.decoded(path, number, line, DiscussionTimes.decode, DiscussionTimes.REMEDY)
    return times
