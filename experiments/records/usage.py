"""usage.jsonl: calls, tokens and seconds of a run by phase and agent, over all its starts.

Caches and crashes change a run's usage, so traces and metrics.json do not contain it. Lines are increments and are only
appended: a phase has several lines if it was long or resumed, and its usage is their sum. Turns in progress when a run
ended are not counted.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import Field

from actors.errors import UserError
from actors.messages import Usage
from experiments.records import jsonl
from experiments.records.recorder import RunFolder
from experiments.records.records import Record

USAGE = "usage.jsonl"
EVERY_S = 20.0  # seconds between lines of a phase: a killed run forgets no more
EVALUATING = "evaluating "  # before a method's name: the phase in which it answers
HEADERS = (
    "phase",
    "time",
    "per question",
    "calls made",
    "answered again",
    "prompt tokens",
    "prefix-cached",
    "completion tokens",
)
TIMES = (
    "Times are of the wall clock, with as many discussions at once as concurrency allows; completions from the cache "
    "took none. To compare methods by seconds per question, run them with completions.reuse=false and "
    "concurrency=1 (and a sweep with sweep.parallel=1): a figure then shows them."
)
RECURRING = (
    "The table counts the calls and tokens of every turn as if nothing were cached; identical requests recur within a "
    "run (a turn's seed does not depend on the sample), and the model answers each once."
)

log = logging.getLogger(__name__)
UsageByAgent = Mapping[str, Usage]


@dataclass(frozen=True, slots=True)
class PhaseUsage(Record):
    """Wall-clock seconds of a phase and the usage of its agents; as JSON, without zeros."""

    phase: str
    seconds: Annotated[float, Field(ge=0)]
    agents: Mapping[str, Usage] = field(default_factory=dict)
    REMEDY: ClassVar[str] = "delete the file"

    @property
    def total(self) -> Usage:
        return sum(self.agents.values(), Usage())

    def check(self) -> None:
        for usage in self.agents.values():
            if max(map(abs, astuple(usage))) >= 2**63:
                raise ValueError("agents: expected counts of calls and tokens")


class UsageLog:
    """Writes usage.jsonl, alone. Used while the folder's `Recorder` is open, which keeps other writers out.

    `read_usage` returns every agent's usage so far; `every_s` seconds lie between lines, where an event loop runs.
    """

    def __init__(self, folder: RunFolder, read_usage: Callable[[], UsageByAgent], every_s: float = EVERY_S) -> None:
        self._path = folder.path / USAGE
        self._read_usage = read_usage
        self._every_s = every_s
        jsonl.cut(self._path)

    @contextmanager
    def phase(self, name: str, read_usage: Callable[[], UsageByAgent] | None = None) -> Iterator[None]:
        """Appends the usage of the block inside, regularly and at its end, even an end by an error.

        `read_usage` returns the usage of this phase alone, where others go on side by side. Raises UserError where the
        line at the end cannot be written, and no other error has ended the phase.
        """
        phase = _OpenPhase(self._path, name, read_usage or self._read_usage)
        timer: asyncio.TimerHandle | None = None

        def tick() -> None:
            nonlocal timer
            try:
                phase.append()
            except UserError as error:
                log.warning("%s", error)  # the end of the phase raises it
            timer = asyncio.get_running_loop().call_later(self._every_s, tick)

        # Without an event loop only the end of the phase is recorded.
        with suppress(RuntimeError):
            timer = asyncio.get_running_loop().call_later(self._every_s, tick)
        try:
            yield
        # Also for Ctrl-C and cancellation: those tokens were used too.
        except BaseException:
            # Raising here would hide the error that ended the phase.
            with suppress(UserError):
                phase.append()
            raise
        else:
            phase.append()
        finally:
            if timer:
                timer.cancel()


class _OpenPhase:
    """Phase that goes on, whose usage is written as increments."""

    def __init__(self, path: Path, name: str, read_usage: Callable[[], UsageByAgent]) -> None:
        self._path = path
        self._name = name
        self._read_usage = read_usage
        self._usage = dict(read_usage())
        self._read_at = time.monotonic()

    def append(self) -> None:
        """Writes the usage since the last line."""
        usage = dict(self._read_usage())
        read_at = time.monotonic()
        increments: dict[str, Usage] = {}

        for agent in sorted(usage):
            # An agent may appear only later, and all its usage is then new.
            increment = usage[agent] - self._usage.get(agent, Usage())
            if increment != Usage():
                increments[agent] = increment

        line = PhaseUsage(self._name, round(read_at - self._read_at, 3), increments)
        self._usage = usage
        self._read_at = read_at
        # Opened for each line: they are rare, and an open file would need closing.
        jsonl.append_to(self._path, line.encode())


def read(folder: RunFolder) -> Iterator[PhaseUsage]:
    """Reads the complete lines of usage.jsonl. Raises UserError for any other line."""
    return PhaseUsage.read(folder.path / USAGE)


def by_phase(folder: RunFolder) -> dict[str, PhaseUsage]:
    """Sums the usage of each phase over its lines, in the run's order."""
    phases: dict[str, PhaseUsage] = {}
    for line in read(folder):
        phase = phases.get(line.phase, PhaseUsage(line.phase, 0.0))
        agents = dict(phase.agents)
        for agent, usage in line.agents.items():
            agents[agent] = agents.get(agent, Usage()) + usage
        phases[line.phase] = PhaseUsage(line.phase, phase.seconds + line.seconds, agents)
    return phases


def total(folder: RunFolder) -> Usage:
    return sum((line.total for line in read(folder)), Usage())


def notes(usage: Usage) -> Iterator[str]:
    """States the total usage in up to three sentences. None if no model was called."""
    if usage == Usage():
        return

    completions = usage.calls + usage.reused
    yield (
        f"In all: {usage.calls:,} model calls made and {usage.reused:,} of {completions:,} "
        f"({usage.reused / max(1, completions):.1%}) answered from the completion cache, which saved "
        f"{usage.reused_tokens:,} tokens."
    )
    yield (
        f"Prompt tokens computed: {usage.prompt_tokens - usage.cached_tokens:,}; served by the model's prefix cache: "
        f"{usage.cached_tokens:,} ({usage.cached_tokens / max(1, usage.prompt_tokens):.1%}); completion tokens: "
        f"{usage.completion_tokens:,}."
    )
    if usage.reused:
        yield RECURRING


def cells(phase: PhaseUsage, questions: int) -> tuple[str, ...]:
    """Returns the cells of a phase under `HEADERS`, where each method answers so many questions."""
    usage = phase.total
    per_question = ""
    if questions and phase.phase.startswith(EVALUATING):
        per_question = f"{phase.seconds / questions:,.2f} s"
    return (
        phase.phase,
        f"{phase.seconds:,.1f} s",
        per_question,
        f"{usage.calls:,}",
        f"{usage.reused:,}",
        f"{usage.prompt_tokens:,}",
        f"{usage.cached_tokens:,}",
        f"{usage.completion_tokens:,}",
    )
