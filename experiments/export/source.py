"""A run's evaluated discussions as exports read them: with their scores and times."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from actors.errors import UserError
from actors.messages import Message
from experiments.config.saved import read
from experiments.planning.models import models_named
from experiments.records import jsonl
from experiments.records.recorder import TIMINGS, RunFolder
from experiments.records.records import Scored
from experiments.records.timings import DiscussionTimes, TurnTime
from experiments.records.trials import TRIALS

MADE_UP_S = 0.001  # of a turn whose time was not recorded


class Discussion(NamedTuple):
    """An evaluated discussion, by an id that no other one has and that every export of its run gives it.

    Each turn has its time, in seconds after `started_s` (Unix time), and whether it was recorded. Otherwise turns take
    a millisecond each, one after another from the time of the run's configuration.
    """

    id: str
    scored: Scored
    started_s: float
    turns: list[tuple[Message, TurnTime, bool]]


class RunSource:
    """A run with evaluated discussions. Raises UserError for a damaged folder, and for that of a sweep."""

    def __init__(self, path: Path) -> None:
        self.folder = RunFolder.open(path)
        self.scored: dict[str, list[Scored]] = {}
        for scored in sorted(self.folder.scores(), key=attrgetter("method")):
            self.scored.setdefault(scored.method, []).append(scored)
        if not self.scored:
            of_trials = f" in {path / TRIALS}" if (path / TRIALS).is_dir() else ""
            raise UserError(f"{path} has no evaluated discussions: export another run{of_trials}")
        self.config = read(self.folder.config)
        self.model = models_named(self.config)
        named = self.folder.name.encode() + self.folder.config.read_bytes()
        self.id = hashlib.blake2b(named, digest_size=8).hexdigest()

    def discussions(self, method: str) -> Iterator[Discussion]:
        """Reads a method's discussions in the order in which they were recorded."""
        traces = self.folder.traces(f"evaluate-{method}")
        timings = self.folder.path / TIMINGS / f"evaluate-{method}.jsonl"
        # Of a discussion that was held again the last line counts.
        times = {one.question: one for one in jsonl.records(timings, DiscussionTimes.decode, "delete the file")}
        made_up = DiscussionTimes("", 0, self.folder.config.stat().st_mtime)
        for scored in self.scored[method]:
            trace = next(traces, None)
            if trace is None or trace.question != scored.question:
                raise UserError(f"{self.folder.path}: scores and traces of {method} differ; {jsonl.DAMAGED}")
            own = times.get(scored.question, made_up)
            turns = [
                (turn, own.turns.get(turn.id, TurnTime(n * MADE_UP_S, MADE_UP_S)), turn.id in own.turns)
                for n, turn in enumerate(trace.turns)
            ]
            yield Discussion(f"{self.id}/{method}/{scored.question}", scored, own.started, turns)
