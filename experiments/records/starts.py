"""starts.jsonl: what every start of a run took of its machine, in seconds, processor time and memory.

A cost model is fitted on it. Only a run that went from its beginning to its end has a line: of one that was resumed no
start tells the whole.
"""

from __future__ import annotations

import json
import platform
import re
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import ClassVar

import psutil
from pydantic import ConfigDict, TypeAdapter

from actors.errors import UserError
from actors.spawned import cores
from experiments.records import jsonl
from experiments.records.schema import STRICT, Count, read_record
from experiments.records.speed import Speedometer
from experiments.records.usage import USAGE

STARTS = "starts.jsonl"
DRIVER, AGENT, REPLICA, LEARNER, RAY = "driver", "agent", "replica", "learner", "ray"
SCHEDULED = Path("/proc/self/schedstat")  # of the main thread: nanoseconds on a core, and waiting for one
# By the titles that Ray gives its workers.
ACTORS = {"AgentActor": AGENT, "ReplicaActor": REPLICA, "StatefulActor": LEARNER}
_TITLE = re.compile(r"ray::(\w+)")


@dataclass(frozen=True, slots=True)
class Machine:
    """`cores` are those that the run may use; `gpus` the names of all GPUs."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    processor: str
    cores: Count
    memory_gb: float
    gpus: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Taken:
    """All processes of one kind: the processor time that they took while discussions were held, and the memory that
    they had at the end (what several share is divided among them)."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    count: Count = 0
    cpu_s: float = 0.0
    memory_mb: float = 0.0


@dataclass(frozen=True, slots=True)
class Start:
    """`up_s` until agents could be asked, `discussing_s` while they were, `total_s` with figures and report.

    `waited` are the seconds of each of the three in which the process that holds the discussions was ready to go on and
    had no core, since others had them (zeros where the system does not say). `taken` is by kind of process, of those on
    this machine that the run started. `speeds` are those of a core (`speed.py`), means until agents could be asked,
    while they were, and after that; None in records of earlier versions.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    machine: Machine
    up_s: float
    discussing_s: float
    total_s: float
    waited: tuple[float, float, float] = (0.0, 0.0, 0.0)
    speeds: tuple[float, float, float] | None = None
    taken: Mapping[str, Taken] = field(default_factory=dict)

    def encode(self) -> str:
        return json.dumps(asdict(self), separators=(",", ":"))

    @staticmethod
    def decode(line: str) -> Start:
        return read_record(_START, line)


_START = TypeAdapter(Start)


@dataclass(frozen=True, slots=True)
class _Time:
    """What passed, what of it was waited for a core, and the mean speed meanwhile."""

    passed_s: float
    waited_s: float
    speed: float = 0.0

    def __add__(self, other: _Time) -> _Time:
        passed_s = self.passed_s + other.passed_s
        pieces = self.passed_s * self.speed + other.passed_s * other.speed
        return _Time(passed_s, self.waited_s + other.waited_s, pieces / passed_s if passed_s else other.speed)

    def __sub__(self, other: _Time) -> _Time:
        return _Time(self.passed_s - other.passed_s, self.waited_s - other.waited_s)


_NO_TIME = _Time(0.0, 0.0)


class Watch:
    """Times one start, in its run's folder. `up` and `discussed` take turns, as often as agents are launched; then
    `write`."""

    def __init__(self, folder: Path, speedometer: Speedometer) -> None:
        self._path = folder / STARTS
        self._resumed = (folder / USAGE).exists()
        self._speedometer = speedometer
        self._begun = self._mark = _now()
        self._up = self._discussing = _NO_TIME
        self._before: Mapping[int, tuple[str, float, float]] = {}
        self._taken: dict[str, Taken] = {}

    def up(self) -> None:
        """Agents can be asked from now on."""
        self._up = self._lap(self._up)
        self._before = _read_processes()

    def discussed(self) -> None:
        """All discussions are over, and the processes still there."""
        self._discussing = self._lap(self._discussing)
        sums: dict[str, tuple[int, float, float]] = {}
        for pid, (kind, cpu_s, memory_mb) in _read_processes().items():
            cpu_s -= self._before[pid][1] if pid in self._before else 0.0
            count, cpu_before, memory_before = sums.get(kind, (0, 0.0, 0.0))
            sums[kind] = count + 1, cpu_before + cpu_s, memory_before + memory_mb
        for kind, (count, cpu_s, memory_mb) in sums.items():
            had = self._taken.get(kind, Taken())
            # Of agents that were launched anew, the largest number at once.
            most = max(had.count, count), had.cpu_s + cpu_s, max(had.memory_mb, memory_mb)
            self._taken[kind] = Taken(most[0], round(most[1], 3), round(most[2], 1))

    def write(self) -> None:
        """Records the start, unless another one had begun the run. Raises UserError when it cannot be written."""
        if self._resumed:
            return
        concluding, total = self._lap(_NO_TIME), _now() - self._begun
        up, discussing = self._up, self._discussing
        start = Start(
            machine(),
            round(up.passed_s, 3),
            round(discussing.passed_s, 3),
            round(total.passed_s, 3),
            waited=(round(up.waited_s, 3), round(discussing.waited_s, 3), round(total.waited_s, 3)),
            speeds=(round(up.speed), round(discussing.speed), round(concluding.speed)),
            taken=self._taken,
        )
        try:
            with self._path.open("ab", buffering=0) as file:
                jsonl.append(file, start.encode())
        except OSError as error:
            raise UserError(f"cannot write {self._path}: {error}; make room and resume the run") from error

    def _lap(self, before: _Time) -> _Time:
        now, mark = _now(), self._mark
        self._mark = now
        return before + replace(now - mark, speed=self._speedometer.lap())


@contextmanager
def watched(folder: Path) -> Iterator[Watch]:
    """A watch for the block, in which the machine's speed is read."""
    with Speedometer() as speedometer:
        yield Watch(folder, speedometer)


def read_starts(folder: Path) -> Iterator[Start]:
    """The starts of a run that ended well. Raises UserError for a line that is none."""
    return jsonl.records(folder / STARTS, Start.decode, "delete the file")


def machine() -> Machine:
    """This one."""
    return Machine(_processor(), cores(), round(psutil.virtual_memory().total / 1e9, 1), _gpus())


def _now() -> _Time:
    """The time, and how long this process has waited for a core so far."""
    waited_s = 0.0
    with suppress(OSError, ValueError, IndexError):
        waited_s = int(SCHEDULED.read_text().split()[1]) / 1e9
    return _Time(time.monotonic(), waited_s)


def _processor() -> str:
    with suppress(OSError):
        found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
        if found:
            return found[1].strip()
    return platform.processor() or platform.machine()


def _gpus() -> tuple[str, ...]:
    if shutil.which("nvidia-smi") is None:
        return ()
    command = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
    with suppress(OSError, subprocess.SubprocessError):
        told = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout
        return tuple(line.strip() for line in told.splitlines() if line.strip())
    return ()


def _read_processes() -> dict[int, tuple[str, float, float]]:
    """Kind, processor time so far and megabytes of this process and of all that it started, by process id."""
    found: dict[int, tuple[str, float, float]] = {}
    own = psutil.Process()
    for process in (own, *own.children(recursive=True)):
        # It may end meanwhile, or be another user's.
        with suppress(psutil.Error):
            times, memory = process.cpu_times(), process.memory_full_info()
            # What processes share is in `pss` once, divided among them; other systems than Linux do not say.
            size = getattr(memory, "pss", memory.uss)
            above = found.get(process.ppid())
            kind = DRIVER if process == own else _kind(" ".join(process.cmdline()), above[0] if above else RAY)
            found[process.pid] = kind, times.user + times.system, size / 1e6
    return found


def _kind(title: str, above: str) -> str:
    """What an actor starts, such as an engine, counts as that actor."""
    named = _TITLE.match(title)
    if named:
        return ACTORS.get(named[1], RAY)
    return above if above in (AGENT, REPLICA) else RAY
