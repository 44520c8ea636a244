"""The run folder: append-only records, a line at a time, from which a killed run is resumed.

    runs/<time>-<experiment>/
        config.yaml                    written by the runner; its presence makes the folder a run
        model.json                     what the model could do when the run began
        traces/calibrate.jsonl         the unlabelled discussions that some defences watch, written all at once
        traces/evaluate-<method>.jsonl one discussion per evaluated question
        scores.jsonl                   a Scored per line
        learned/<method>/              one for each learned graph
            traces/train-<stage>.jsonl     every discussion of a training step
            learning.jsonl                 a LearningStep per line
            topology.safetensors           the learner's state after its last training step

A checkpoint holds the sizes of the training records, so they are cut back to these. Evaluated questions need no
checkpoint: those whose trace and score are both complete are kept.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import ExitStack
from datetime import datetime
from io import FileIO
from pathlib import Path
from typing import Any, Self

from torch import Tensor

from actors.errors import UserError
from actors.messages import Trace
from experiments.attacks.metrics import Harm
from experiments.datasets.item import Item, Score
from experiments.records import jsonl
from experiments.records.atomic import write_atomically
from experiments.records.checkpoint import Checkpoint
from experiments.records.records import LearningStep, Scored
from experiments.records.traces import decode, encode

LEARNING, SCORES = "learning.jsonl", "scores.jsonl"
DAMAGED = "start a new run"


class RunFolder:
    """The paths in a run folder, and its records as iterators, readable while the run goes on."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = path.name
        self.config = path / "config.yaml"
        self.model = path / "model.json"
        self.topology = path / "topology.safetensors"
        self.metrics = path / "metrics.json"
        self.report = path / "report.html"
        self.figures = path / "figures"
        self.log = path / "run.log"

    @classmethod
    def create(cls, output: Path, experiment: str) -> RunFolder:
        """A new folder `<output>/<time>-<experiment>`. Raises UserError when it cannot be made."""
        name = f"{datetime.now():%Y%m%d-%H%M%S}-{experiment}"
        # Two runs can start in one second; `mkdir` decides who has the name, without a gap between check and use.
        for n in range(1, 1000):
            path = (output / (name if n == 1 else f"{name}-{n}")).absolute()
            try:
                output.mkdir(parents=True, exist_ok=True)
                path.mkdir()
            except OSError as error:
                # Taken: try the next number. Anything else (no rights, a full disk) would fail for every name.
                if path.is_dir():
                    continue
                raise UserError(f"cannot write a run folder in {output}: {error}; choose another output=") from error
            return cls(path)
        raise UserError(f"{output} already holds a thousand runs called {name}; choose another output=")

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """An existing run folder. Raises UserError when `path` is none."""
        run = cls(path.absolute())
        if not run.config.is_file():
            what = "has no config.yaml" if path.is_dir() else "is not a folder"
            raise UserError(f"{path} is not a run folder: it {what}; give a folder that a run printed as `run: ...`")
        return run

    def learned(self, method: str) -> RunFolder:
        """The folder of a learned method's graph: its training discussions and steps, state, and what was learned."""
        return RunFolder(self.path / "learned" / method)

    def all_learned(self) -> list[RunFolder]:
        """The folders of all learned graphs, each called after its method, in alphabetical order."""
        # Sorted: the order of a directory depends on the file system.
        return [RunFolder(path.parent) for path in sorted((self.path / "learned").glob(f"*/{LEARNING}"))]

    def traces(self, phase: str, only: Container[int] | None = None) -> Iterator[Trace]:
        """Traces of a phase (`calibrate`, `train-<stage>`, `evaluate-<method>`); `only` are positions, from 0."""
        return jsonl.records(self.path / f"traces/{phase}.jsonl", decode, DAMAGED, only)

    def learning(self) -> Iterator[LearningStep]:
        """Training steps of all stages, in order; in the folder of a learned graph."""
        return jsonl.records(self.path / LEARNING, LearningStep.decode, DAMAGED)

    def scores(self) -> Iterator[Scored]:
        """Scored answers in the order in which they were recorded."""
        return jsonl.records(self.path / SCORES, Scored.decode, DAMAGED)

    def checkpoint(self) -> Checkpoint | None:
        """The learner's state, None before the first training step. Raises UserError when it is damaged."""
        return Checkpoint.read(self.topology) if self.topology.exists() else None


class _Writer:
    """Files of a folder that are appended to, each opened once; one process at a time may have its lock.

    Raises UserError when another process has it.
    """

    def __init__(self, run: RunFolder, lock: str) -> None:
        self.run = run
        self._files: dict[str, FileIO] = {}
        self._open = ExitStack()
        with ExitStack() as undo:  # closes the files when anything below fails
            undo.callback(self.close)
            (run.path / "traces").mkdir(parents=True, exist_ok=True)
            try:
                # The kernel releases the lock when the process dies, so no stale lock stops a resumption.
                fcntl.flock(self._file(lock), fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise UserError(f"{run.path} is being written by another process; wait for it or stop it") from error
            # Only under the lock: before it another process may be writing these files.
            self._cut()
            # All went well, so the files stay open until `close`.
            undo.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        self._open.close()
        self._files.clear()

    def _cut(self) -> None:
        """Cuts off whatever a killed run left incomplete."""

    def _file(self, name: str) -> FileIO:
        # Unbuffered: a line is with the system as soon as it is written, so a killed process loses none.
        if name not in self._files:
            self._files[name] = self._open.enter_context((self.run.path / name).open("ab", buffering=0))
        return self._files[name]


class Recorder(_Writer):
    """The one writer of a run's evaluation. Opening it cuts off whatever a killed run left incomplete.

    Raises UserError when another process is writing the folder, or its records are damaged.
    """

    def __init__(self, run: RunFolder) -> None:
        super().__init__(run, SCORES)

    def done(self, method: str) -> frozenset[str]:
        """Ids of the questions that a resumed run has already evaluated with this method."""
        return frozenset(self._done.get(method, ()))

    def calibrated(self, traces: Sequence[Trace]) -> None:
        """Records all unlabelled discussions at once: the folder holds none of them or all."""
        path = self.run.path / "traces" / "calibrate.jsonl"
        try:
            write_atomically(path, "".join(f"{encode(trace)}\n" for trace in traces).encode())
        except OSError as error:
            raise UserError(f"cannot write {path}: {error}; make room and go on with resume={self.run.path}") from error

    def evaluated(self, trace: Trace, item: Item, score: Score, harm: Harm | None = None) -> Scored:
        """Records one evaluated question: the trace first, because the score vouches for it."""
        scored = Scored.of(trace, item, score, harm)
        jsonl.append(self._file(_evaluation(trace.method)), encode(trace))
        # A crash between the two leaves a trace without a score, which is cut off when the run is resumed.
        jsonl.append(self._file(SCORES), scored.encode())
        return scored

    def _cut(self) -> None:
        """Notes the questions with a complete trace and score, by method; cuts off the others."""
        done: dict[str, set[str]] = {}
        kept = {SCORES: 0}
        traces: dict[str, Iterator[bytes]] = {}
        path = self.run.path
        for number, line in enumerate(jsonl.lines(path / SCORES), start=1):
            scored = jsonl.decoded(path / SCORES, number, line, Scored.decode, DAMAGED)
            name = _evaluation(scored.method)
            # Each method's traces stand in the order of its scores.
            trace = next(traces.setdefault(name, jsonl.lines(path / name)), None)
            # The score of a trace that did not reach the disk; whatever follows was written later and is asked again.
            if trace is None:
                break
            finished = done.setdefault(scored.method, set())
            if jsonl.decoded(path / name, len(finished) + 1, trace, _question, DAMAGED) != scored.question:
                raise UserError(f"{path / name} and {path / SCORES} list different questions; start a new run")
            kept[SCORES] += len(line)
            kept[name] = kept.get(name, 0) + len(trace)
            finished.add(scored.question)
        # Also of methods without any complete question: their half-written files become empty.
        for file in [path / SCORES, *(path / "traces").glob("evaluate-*.jsonl")]:
            os.truncate(file, kept.get(file.relative_to(path).as_posix(), 0))
        self._done = done


class LearningRecorder(_Writer):
    """The one writer of what a learner learned, in a folder of its own (`RunFolder.learned`).

    `checkpoint` is where it goes on. Opening it cuts off whatever a killed run left incomplete.

    Raises UserError when another process is writing the folder, or its checkpoint or records are damaged.
    """

    checkpoint: Checkpoint | None

    def __init__(self, run: RunFolder) -> None:
        super().__init__(run, LEARNING)

    def trained(self, stage: int, trace: Trace) -> None:
        """Records one discussion of a training step."""
        # Before the step that uses it: `learned` then vouches for the file's size.
        jsonl.append(self._file(f"traces/train-{stage}.jsonl"), encode(trace))

    def learned(self, step: LearningStep, state: Mapping[str, Tensor]) -> None:
        """Records a training step and makes it the point from which a killed run goes on."""
        jsonl.append(self._file(LEARNING), step.encode())
        sizes = {}
        for name, file in self._files.items():
            if _is_training(name):
                os.fsync(file.fileno())  # before the checkpoint, which vouches for these bytes
                sizes[name] = file.tell()
        self.checkpoint = Checkpoint(step.stage, step.step, dict(state), sizes)
        self.checkpoint.write(self.run.topology)

    def _cut(self) -> None:
        self.checkpoint = self.run.checkpoint()
        # Without a checkpoint learning starts again, so every training record is cut to nothing.
        sizes = self.checkpoint.sizes if self.checkpoint else {}
        present = {f"traces/{path.name}" for path in (self.run.path / "traces").glob("train-*.jsonl")}
        for name in sorted({LEARNING, *present, *sizes}):
            # Opened here so that later checkpoints know the sizes of files that nothing is appended to any more.
            file = self._file(name)
            if file.tell() < sizes.get(name, 0):
                raise UserError(
                    f"{self.run.path / name} is shorter than when the checkpoint was written; restore it from a copy, "
                    f"or delete {self.run.topology} and resume to learn again from the start"
                )
            # Discussions after the checkpoint are held again, at the same seeds.
            file.truncate(sizes.get(name, 0))
            file.seek(0, os.SEEK_END)  # `tell` gives the size from here on


def _evaluation(method: str) -> str:
    """The file of a method's traces. Raises ValueError when its name cannot be part of a file's name."""
    if not re.fullmatch(r"[\w.-]+", method):
        raise ValueError(f"method {method!r}: letters, digits, '-', '_' and '.' only, for its traces get a file")
    return f"traces/evaluate-{method}.jsonl"


def _is_training(name: str) -> bool:
    return name == LEARNING or name.startswith("traces/train-")


def _question(trace: str) -> Any:
    # Decoding a whole trace of every question would make resumption slow.
    return json.loads(trace)["question"]
