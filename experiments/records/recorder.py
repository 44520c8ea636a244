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

Of a long file of traces all but the newest lines are in compressed parts beside it (`parts.py`).

A checkpoint holds the sizes of the training records, so they are cut back to these. Evaluated questions need no
checkpoint: those whose trace and score are both complete are kept. A kill leaves at most one trace without its score; a
loss of power may leave more, and what is complete of it goes into a file of its own, `<name>.unmatched`.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
from collections import deque
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import ExitStack
from datetime import datetime
from io import FileIO
from itertools import chain, islice, takewhile
from pathlib import Path
from typing import Self

import numpy as np

from actors.errors import UserError
from actors.messages import Trace
from experiments.attacks.metrics import Harm
from experiments.datasets.item import Item, Score
from experiments.records import jsonl, parts
from experiments.records.atomic import write_atomically
from experiments.records.checkpoint import LEARNING, Checkpoint
from experiments.records.plain_files import check_plain
from experiments.records.records import LearningStep, Scored
from experiments.records.traces import decode, encode

SCORES = "scores.jsonl"
DAMAGED = "restore the file from a copy, or start a new run"
LOST = "restore it from a copy, or start a new run, which finds its model's replies in the completion cache"


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
                # Of a name that is too long, `Path.is_dir` would raise.
                if os.path.isdir(path):
                    continue
                raise UserError(f"cannot write a run folder in {output}: {error}; choose another output=") from error
            return cls(path)
        raise UserError(f"{output} already holds a thousand runs called {name}; choose another output=")

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """An existing run folder. Raises UserError when `path` is none, or holds anything but plain files."""
        run = cls(path.absolute())
        if not os.path.isfile(run.config):  # `Path.is_file` raises for a name that is too long
            what = "has no config.yaml" if os.path.isdir(path) else "is not a folder"
            raise UserError(f"{path} is not a run folder: it {what}; give a folder that a run printed as `run: ...`")
        check_plain(run.path)
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

    def training_traces(self) -> list[Path]:
        """The file of each stage of training, of which parts alone may be there; in the folder of a learned graph."""
        return parts.files(self.path / "traces", "train-*.jsonl")

    def count(self, phase: str) -> int:
        """How many traces of a phase there are. Counted as lines: decoding them would cost far more."""
        return sum(1 for _ in jsonl.lines(self.path / f"traces/{phase}.jsonl"))

    def learning(self) -> Iterator[LearningStep]:
        """Training steps of all stages, in order; in the folder of a learned graph."""
        return jsonl.records(self.path / LEARNING, LearningStep.decode, DAMAGED)

    def scores(self) -> Iterator[Scored]:
        """Scored answers in the order in which they were recorded. Raises UserError where one is there twice."""
        return (scored for _, scored in _scores(self.path / SCORES))

    def checkpoint(self) -> Checkpoint | None:
        """The learner's state, None before the first training step. Raises UserError when it is damaged."""
        return Checkpoint.read(self.topology) if self.topology.exists() else None


def _scores(path: Path) -> Iterator[tuple[bytes, Scored]]:
    """Each line of a file of scores, and what it holds."""
    seen = set()
    for number, line in enumerate(jsonl.lines(path), start=1):
        scored = jsonl.decoded(path, number, line, Scored.decode, DAMAGED)
        if (scored.method, scored.question) in seen:
            raise UserError(f"{path}, line {number}: {scored.method} has answered {scored.question} before; {DAMAGED}")
        seen.add((scored.method, scored.question))
        yield line, scored


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

    def _put_away_if_long(self, name: str) -> int:
        """Makes a part of a file that is long enough for one. Returns the bytes that were put away."""
        length = _size(self._file(name))
        if length < parts.PART_BYTES:
            return 0
        self._files.pop(name).close()
        parts.put_away(self.run.path / name)
        return length


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
        # Not between the two: what a part holds has its scores.
        self._put_away_if_long(_evaluation(trace.method))
        return scored

    def _cut(self) -> None:
        """Notes the questions with a complete trace and score, by method; cuts off the others."""
        done: dict[str, set[str]] = {}
        kept = {SCORES: 0}
        traces: dict[str, Iterator[bytes]] = {}
        path = self.run.path
        scores = list(_scores(path / SCORES))
        self._check_both_there({scored.method for _, scored in scores})
        for line, scored in scores:
            name = _evaluation(scored.method)
            # Each method's traces stand in the order of its scores.
            trace = next(traces.setdefault(name, jsonl.lines(path / name)), None)
            # The score of a trace that did not reach the disk; whatever follows was written later and is asked again.
            if trace is None:
                break
            finished = done.setdefault(scored.method, set())
            answered = jsonl.decoded(path / name, len(finished) + 1, trace, _answered, DAMAGED)
            if answered != (scored.question, scored.answer):
                raise UserError(f"{path / name} and {path / SCORES} list different answers; {DAMAGED}")
            kept[SCORES] += len(line)
            kept[name] = kept.get(name, 0) + len(trace)
            finished.add(scored.question)
        # Also of methods without any complete question: their half-written files become empty.
        for file in [path / SCORES, *parts.files(path / "traces", "evaluate-*.jsonl")]:
            name = file.relative_to(path).as_posix()
            _cut_off(file, kept.get(name, 0))
            # As it would have been by now, had the process not been killed.
            if name != SCORES:
                parts.compress(file)
                self._put_away_if_long(name)
        self._done = done

    def _check_both_there(self, scored: set[str]) -> None:
        """Raises UserError where all scores are gone, or all traces of a method with scores: no kill does that."""
        path = self.run.path
        traced = {file for file in parts.files(path / "traces", "evaluate-*.jsonl") if len(_first(file, 2)) > 1}
        if traced and not scored:
            raise UserError(
                f"{path / SCORES} has no scores for {', '.join(sorted(file.name for file in traced))}; {LOST}"
            )
        for method in sorted(scored):
            if not _first(file := path / _evaluation(method), 1):
                raise UserError(f"{file} has no discussions for the scores of {method} in {path / SCORES}; {LOST}")


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
        self._append(f"traces/train-{stage}.jsonl", encode(trace))

    def learned(self, step: LearningStep, state: Mapping[str, np.ndarray]) -> None:
        """Records a training step and makes it the point from which a killed run goes on."""
        self._append(LEARNING, step.encode())
        sizes = {}
        for name, file in self._files.items():
            if _is_training(name):
                os.fsync(file.fileno())  # before the checkpoint, which vouches for these bytes
                sizes[name] = self._in_parts.get(name, 0) + _size(file)
        digests = {name: self._hashes[name].hexdigest() for name in sizes}
        self.checkpoint = Checkpoint(step.stage, step.step, dict(state), sizes, digests)
        self.checkpoint.write(self.run.topology)
        self._put_away_traces()

    def _put_away_traces(self) -> None:
        """Makes parts of long files; only where a checkpoint has been written, which vouches for all that is in one."""
        for name in [name for name in self._files if name != LEARNING]:
            self._in_parts[name] = self._in_parts.get(name, 0) + self._put_away_if_long(name)
            self._file(name)

    def _append(self, name: str, line: str) -> None:
        jsonl.append(self._file(name), line)
        self._hashes.setdefault(name, _hash()).update(f"{line}\n".encode())

    def _cut(self) -> None:
        self.checkpoint = self.run.checkpoint()
        # Without a checkpoint learning starts again, so every training record is cut to nothing.
        sizes = self.checkpoint.sizes if self.checkpoint else {}
        digests = self.checkpoint.digests if self.checkpoint else {}
        present = {f"traces/{path.name}" for path in self.run.training_traces()}
        names = sorted({LEARNING, *present, *sizes})
        # All of them before any is cut: what is refused stays as it is.
        self._in_parts = dict.fromkeys(names, 0)
        self._hashes = {name: self._hash_of(name, sizes.get(name, 0), digests.get(name)) for name in names}
        if self.checkpoint:
            self._check_last_step(self.checkpoint)
        for name in names:
            # Discussions after the checkpoint are held again, at the same seeds.
            self._in_parts[name] = parts.cut(self.run.path / name, sizes.get(name, 0))
            parts.compress(self.run.path / name)
            # Opened here so that later checkpoints know the sizes of files that nothing is appended to any more.
            self._file(name)
        self._put_away_traces()

    def _check_last_step(self, checkpoint: Checkpoint) -> None:
        """Raises UserError unless the records that a checkpoint keeps end with its own step."""
        path, size = self.run.path / LEARNING, checkpoint.sizes.get(LEARNING, 0)
        kept = takewhile(lambda found: found[0].offset < size, jsonl.placed(path))
        step = None
        for number, (place, line) in deque(enumerate(kept, 1), maxlen=1):  # the last one
            step = jsonl.decoded(path, number, line[: size - place.offset], LearningStep.decode, DAMAGED)
        if step is None or (step.stage, step.step) != (checkpoint.stage, checkpoint.step):
            raise UserError(
                f"{path} does not end with the step of {self.run.topology}; restore them from a copy, or delete "
                "the second to learn again from the start"
            )

    def _hash_of(self, name: str, size: int, digest: str | None) -> hashlib.blake2b:
        """The hash of a file's first `size` bytes. Raises UserError where they are not what the checkpoint says."""
        path, hasher = self.run.path / name, _hash()
        if size or digest is not None:
            left = size
            for _, file in parts.opened(path):
                for piece in parts.beginning(file, left):
                    hasher.update(piece)
                    left -= len(piece)
            if left or hasher.hexdigest() != digest:
                what = "shorter than" if left else "not what it was"
                raise UserError(
                    f"{path} is {what} when the checkpoint was written; restore it from a copy, "
                    f"or delete {self.run.topology} and resume to learn again from the start"
                )
        return hasher


def _evaluation(method: str) -> str:
    """The file of a method's traces. Raises ValueError when its name cannot be part of a file's name."""
    if not re.fullmatch(r"[\w.-]+", method):
        raise ValueError(f"method {method!r}: letters, digits, '-', '_' and '.' only, for its traces get a file")
    return f"traces/evaluate-{method}.jsonl"


def _is_training(name: str) -> bool:
    return name == LEARNING or name.startswith("traces/train-")


def _size(file: FileIO) -> int:
    return os.fstat(file.fileno()).st_size


def _hash() -> hashlib.blake2b:
    return hashlib.blake2b(digest_size=16)


def _answered(line: str) -> tuple[str, str | None]:
    # Decoding a whole trace of every question would make resumption slow.
    trace = json.loads(line)
    return trace["question"], trace.get("answer")


def _first(path: Path, number: int) -> list[bytes]:
    """The first complete lines of a file, `number` at most."""
    return list(islice(jsonl.lines(path), number))


def _cut_off(path: Path, size: int) -> None:
    """Cuts a file of records to `size` bytes; complete lines after them are kept beside it."""
    after = jsonl.lines(path, size)
    first = list(islice(after, 2))
    # One line is what a kill leaves, and it is written again.
    if len(first) > 1:
        with path.with_name(f"{path.name}.unmatched").open("ab") as beside:
            beside.writelines(chain(first, after))
            beside.flush()
            os.fsync(beside.fileno())
    parts.cut(path, size)
