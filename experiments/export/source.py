"""A run's evaluated discussions as exports read them: with their scores and times."""

import hashlib
from collections.abc import Iterator
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

from actors.errors import UserError
from actors.messages import Message
from experiments.records.jsonl import DAMAGED
from experiments.records.recorder import RunFolder
from experiments.records.records import Scored
from experiments.records.timings import DiscussionTimes, TurnTime, times_of_turns

MADE_UP_S = 0.001  # of a turn whose time was not recorded


class TimedDiscussion(NamedTuple):
    """An evaluated discussion with times. Its id is the same in every export of its run, and no other one has it.

    Each turn has its time, in seconds after `started_s` (Unix time), and whether it was recorded. Otherwise turns take
    a millisecond each, one after another from the time of the run's configuration.
    """

    id: str
    scored: Scored
    started_s: float
    turns: list[tuple[Message, TurnTime, bool]]


def discussions(run: RunFolder) -> Iterator[TimedDiscussion]:
    """Reads a run's discussions, method by method. Raises UserError where there are none or they are damaged."""
    run_id = hashlib.blake2b(run.name.encode() + run.config.read_bytes(), digest_size=8).hexdigest()
    scores = sorted(run.scores(), key=attrgetter("method"))
    if not scores:
        raise UserError(f"{run.path} has no evaluated discussions; export another run, or a trial of a sweep")
    made_up = DiscussionTimes("", 0, run.config.stat().st_mtime)
    for method, of_method in groupby(scores, key=attrgetter("method")):
        traces, times = run.traces(f"evaluate-{method}"), times_of_turns(run, f"evaluate-{method}")
        for scored in of_method:
            trace = next(traces, None)
            if trace is None or trace.question != scored.question:
                raise UserError(f"{run.path}: scores and traces of {method} differ; {DAMAGED}")
            own = times.get((trace.question, trace.sample), made_up)
            turns = [
                (turn, own.turns.get(turn.id, TurnTime(n * MADE_UP_S, MADE_UP_S)), turn.id in own.turns)
                for n, turn in enumerate(trace.turns)
            ]
            yield TimedDiscussion(f"{run_id}/{method}/{scored.question}", scored, own.started, turns)
