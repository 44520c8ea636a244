"""usage.jsonl: calls and tokens that a run actually spent, by phase and agent, over all its starts.

Caches and crashes decide what a run spends, so neither traces nor metrics.json hold it. Lines are increments and are
only ever appended: a phase has several where it lasted long or was resumed, and their sum is what it cost in all.
Turns that were under way when a run ended are not in it.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from typing import Annotated, ClassVar

from pydantic import ConfigDict, Field, TypeAdapter

from actors.errors import UserError
from actors.messages import Usage
from experiments.records import jsonl
from experiments.records.recorder import RunFolder
from experiments.records.records import STRICT, read_record

USAGE = "usage.jsonl"
EVERY_S = 20.0  # seconds between lines of a phase: what a killed run forgets at most
HEADERS = (
    *("phase", "time", "per question", "calls made", "answered again", "prompt tokens", "prefix-cached"),
    "completion tokens",
)
EVALUATING = "evaluating "  # before a method's name: the phase in which it answers
TIMES = (
    "Times are of the wall clock, with as many discussions at once as concurrency says, and what the completion cache "
    "answered took none. To compare methods by seconds per question, run them with completions.reuse=false and "
    "concurrency=1 (and a sweep with sweep.parallel=1): a figure then shows them."
)
RECURRING = (
    "The table counts every turn's calls and tokens as if nothing were kept; identical requests recur within a run "
    "(a turn's seed does not depend on the sample), and those are made once."
)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Spent:
    """The cost of one phase: seconds of wall clock, and each agent's usage (agents without any are left out)."""

    phase: str
    seconds: float
    agents: Mapping[str, Usage] = field(default_factory=dict)

    @property
    def total(self) -> Usage:
        return sum(self.agents.values(), Usage())

    def encode(self) -> str:
        agents = {name: {key: n for key, n in asdict(usage).items() if n} for name, usage in self.agents.items()}
        record = {"phase": self.phase, "seconds": round(self.seconds, 3), "agents": agents}
        return json.dumps(record, separators=(",", ":"))

    @staticmethod
    def decode(line: str) -> Spent:
        said = read_record(_LINE, line)
        return Spent(said.phase, said.seconds, {name: Usage(**usage) for name, usage in said.agents.items()})


@dataclass(frozen=True, slots=True)
class _Line:
    """A line of usage.jsonl; of an agent's usage zeros are left out."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    phase: str
    seconds: Annotated[float, Field(ge=0)]
    agents: Mapping[str, Mapping[str, Annotated[int, Field(gt=-(2**63), lt=2**63)]]]


_LINE = TypeAdapter(_Line)


class UsageLog:
    """The one writer of usage.jsonl; open it while the folder's `Recorder` is open, which keeps other writers out.

    Args:
        spent: gives every agent's usage so far; only the growth during a phase counts.
        every_s: a killed run forgets this many seconds at most, where an event loop runs.
    """

    def __init__(self, folder: RunFolder, spent: Callable[[], Mapping[str, Usage]], every_s: float = EVERY_S) -> None:
        self._path = folder.path / USAGE
        self._spent = spent
        self._every_s = every_s
        jsonl.cut(self._path)

    @contextmanager
    def phase(self, name: str, spent: Callable[[], Mapping[str, Usage]] | None = None) -> Iterator[None]:
        """Appends the usage of the block inside, now and then and at its end, even an end by an error.

        Args:
            spent: of this phase alone, where others go on side by side.

        Raises:
            UserError: the line at the end cannot be written, and nothing else has gone wrong.
        """
        meter = _Meter(name, spent or self._spent)
        timer = self._every(meter)
        try:
            yield
        # Also for Ctrl-C and cancellation: those tokens were spent too.
        except BaseException:
            try:
                self._append(meter.read())
            except UserError as error:
                # Raising here would hide the error that ended the phase.
                log.warning("what %s spent is lost: %s", name, error)
            raise
        else:
            self._append(meter.read())
        finally:
            for handle in timer:
                handle.cancel()

    def _every(self, meter: _Meter) -> list[asyncio.TimerHandle]:
        """Starts appending the usage since the last line every few seconds; the list holds the timer to cancel."""
        timer: list[asyncio.TimerHandle] = []
        try:
            loop = asyncio.get_running_loop()
        # No event loop, no timer: then only the end of the phase is recorded.
        except RuntimeError:
            return timer

        def tick() -> None:
            try:
                self._append(meter.read())
            except UserError as error:
                log.warning("%s", error)  # the end of the phase will say so to the user
            # The same list, because the caller holds it and cancels whatever timer it has at the end.
            timer[:] = [loop.call_later(self._every_s, tick)]

        timer.append(loop.call_later(self._every_s, tick))
        return timer

    def _append(self, spent: Spent) -> None:
        try:
            # Opened for each line: they are rare, and a file kept open would need a close of its own.
            with self._path.open("ab", buffering=0) as file:
                jsonl.append(file, spent.encode())
        except OSError as error:
            raise UserError(f"cannot write {self._path}: {error}; make room and resume the run") from error


class _Meter:
    """Reads the usage since its last reading."""

    def __init__(self, phase: str, spent: Callable[[], Mapping[str, Usage]]) -> None:
        self._phase = phase
        self._spent = spent
        self._then, self._read_at = dict(spent()), time.monotonic()

    def read(self) -> Spent:
        now, at = dict(self._spent()), time.monotonic()
        # An agent may appear only later, and its growth is then all that it spent.
        grown = {name: _minus(usage, self._then.get(name, Usage())) for name, usage in sorted(now.items())}
        spent = Spent(
            self._phase, at - self._read_at, {name: usage for name, usage in grown.items() if usage != Usage()}
        )
        self._then, self._read_at = now, at
        return spent


def read(folder: RunFolder) -> Iterator[Spent]:
    """The complete lines of usage.jsonl. Raises UserError for one that is none."""
    return jsonl.records(folder.path / USAGE, Spent.decode, "delete the file")


def by_phase(folder: RunFolder) -> dict[str, Spent]:
    """The usage of each phase, summed over lines, in the order in which the run first reached them."""
    phases: dict[str, Spent] = {}
    for line in read(folder):
        before = phases.get(line.phase, Spent(line.phase, 0.0))
        agents = {
            name: before.agents.get(name, Usage()) + line.agents.get(name, Usage())
            for name in dict.fromkeys((*before.agents, *line.agents))
        }
        phases[line.phase] = Spent(line.phase, before.seconds + line.seconds, agents)
    return phases


def by_agent(folder: RunFolder) -> dict[str, Usage]:
    """Each agent's total usage, in alphabetical order."""
    agents: dict[str, Usage] = {}
    for line in read(folder):
        for name, usage in line.agents.items():
            agents[name] = agents.get(name, Usage()) + usage
    return dict(sorted(agents.items()))


def total(folder: RunFolder) -> Usage:
    """The usage of all agents and phases."""
    return sum(by_agent(folder).values(), Usage())


def notes(usage: Usage) -> Iterator[str]:
    """The total usage in two or three lines; none where no model was called."""
    if usage == Usage():
        return
    answered = usage.calls + usage.reused
    yield (
        f"Spent in all: {usage.calls:,} model calls made and {usage.reused:,} of {answered:,} "
        f"({_share(usage.reused, answered)}) answered from the completion cache, which saved {usage.reused_tokens:,} "
        "tokens."
    )
    yield (
        f"Prompt tokens computed: {usage.prompt_tokens - usage.cached_tokens:,}; served by the model's prefix cache: "
        f"{usage.cached_tokens:,} ({_share(usage.cached_tokens, usage.prompt_tokens)}); completion tokens: "
        f"{usage.completion_tokens:,}."
    )
    if usage.reused:
        yield RECURRING


def cells(spent: Spent, questions: int) -> tuple[str, ...]:
    """One phase's figures as text, in the order of `HEADERS`; each method has answered so many questions."""
    usage = spent.total
    each = f"{spent.seconds / questions:,.2f} s" if questions and spent.phase.startswith(EVALUATING) else ""
    return (
        spent.phase,
        f"{spent.seconds:,.1f} s",
        each,
        f"{usage.calls:,}",
        f"{usage.reused:,}",
        f"{usage.prompt_tokens:,}",
        f"{usage.cached_tokens:,}",
        f"{usage.completion_tokens:,}",
    )


def _share(part: int, whole: int) -> str:
    # Zero of zero is 0.0%.
    return f"{part / max(1, whole):.1%}"


def _minus(now: Usage, then: Usage) -> Usage:
    return Usage(*(getattr(now, f.name) - getattr(then, f.name) for f in fields(Usage)))
