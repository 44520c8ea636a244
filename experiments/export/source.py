"""A run's evaluated discussions as exports read them: with their scores and times."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter

from actors.errors import UserError
from actors.messages import Message
from experiments.records.jsonl import DAMAGED
from experiments.records.recorder import RunFolder
from experiments.records.records import Scored
from experiments.records.run_files import read_whole
from experiments.records.timings import times_of_turns

MADE_UP_S = 0.001  # of a turn whose time was not recorded


@dataclass(frozen=True, slots=True)
class TimedTurn:
    """A turn between two times in Unix seconds."""

    message: Message
    begins_s: float
    ends_s: float
    cached_tokens: int
    is_recorded: bool


@dataclass(frozen=True, slots=True)
class TimedDiscussion:
    """An evaluated discussion with times. Its id is the same in every export of its run, and no other one has it.

    Turns without recorded times take a millisecond each, one after another from the time of the run's configuration.
    """

    id: str
    scored: Scored
    started_s: float
    turns: list[TimedTurn]

    @property
    def ends_s(self) -> float:
        return max((turn.ends_s for turn in self.turns), default=self.started_s)


def discussions(run: RunFolder) -> Iterator[TimedDiscussion]:
    """Reads a run's discussions, method by method. Raises UserError where there are none or they are damaged."""
    run_id = hashlib.blake2b(run.name.encode() + read_whole(run.config), digest_size=8).hexdigest()
    configured_s = run.config.stat().st_mtime
    scores = sorted(run.scores(), key=attrgetter("method"))
    if not scores:
        raise UserError(f"{run.path} has no evaluated discussions; export another run, or a trial of a sweep")

    for method, method_scores in groupby(scores, key=attrgetter("method")):
        traces = run.traces(f"evaluate-{method}")
        all_times = times_of_turns(run, f"evaluate-{method}")
        for scored in method_scores:
            trace = next(traces, None)
            if trace is None or trace.question != scored.question:
                raise UserError(f"{run.path}: scores and traces of {method} differ; {DAMAGED}")

            times = all_times.get((trace.question, trace.sample))
            started_s = times.started if times else configured_s
            turns: list[TimedTurn] = []

            for number, message in enumerate(trace.turns):
                time = times.turns.get(message.id) if times else None
                if time:
                    begins_s = started_s + time.start
                    turns.append(TimedTurn(message, begins_s, begins_s + time.seconds, time.cached_tokens, True))
                else:
                    begins_s = started_s + number * MADE_UP_S
                    turns.append(TimedTurn(message, begins_s, begins_s + MADE_UP_S, 0, False))

            yield TimedDiscussion(f"{run_id}/{method}/{scored.question}", scored, started_s, turns)
