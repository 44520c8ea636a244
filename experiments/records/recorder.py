"""Writes and reads run folders: append-only records, from which a killed run is resumed.

docs/runs.md lists its files. Long files of traces are compressed when the run ends (`jsonl.py`).

A checkpoint has the sizes of the training records, so resuming cuts them back to these. Evaluated questions need no
checkpoint: those with a complete trace and score count, and a trace or score alone is cut off. Resuming also drops
questions with a turn that failed for another reason than the question itself: they are asked and judged again.
"""

import hashlib
import json
import logging
import os
import re
from collections.abc import Container, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from io import FileIO
from itertools import islice
from pathlib import Path
from typing import ClassVar, Self

import numpy as np

from actors.errors import UserError
from actors.messages import Status, Trace
from experiments.attacks.attack_metrics import Harm
from experiments.datasets.item import Item, Score
from experiments.records import jsonl
from experiments.records.checkpoint import LEARNING, Checkpoint
from experiments.records.failures import of_question
from experiments.records.jsonl import DAMAGED
from experiments.records.records import LearningStep, Scored, decode_trace, encode_trace
from experiments.records.run_files import check_plain, write_atomically

SCORES = "scores.jsonl"
TIMINGS = "timings"  # the folder of `timings.py`'s files
JUDGEMENTS, SCENES = "judgements.jsonl", "scenes.jsonl"  # of a judge (`judging/`)
LOST = "restore it from a copy, or start a new run, which finds its model's replies in the completion cache"

log = logging.getLogger(__name__)


class RunFolder:
    """Paths in a run folder, and its records as iterators, readable while the run goes on."""

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
    def create(cls, output: Path, experiment: str) -> "RunFolder":
        """Makes a new folder `<output>/<time>-<experiment>`. Raises UserError when that is impossible."""
        name = f"{datetime.now():%Y%m%d-%H%M%S}-{experiment}"
        # Two runs can start in one second; `mkdir` decides, without a gap between check and use.
        for n in range(1, 1000):
            path = (output / (name if n == 1 else f"{name}-{n}")).absolute()
            try:
                output.mkdir(parents=True, exist_ok=True)
                path.mkdir()
            except OSError as error:
                # Taken: try the next number. Anything else (no rights, a full disk) would fail for every name.
                # `Path.is_dir` would raise for a name that is too long.
                if os.path.isdir(path):
                    continue
                raise UserError(f"cannot write a run folder in {output}: {error}; choose another output=") from error
            return cls(path)
        raise UserError(f"{output} already holds a thousand runs called {name}; choose another output=")

    @classmethod
    def open(cls, path: Path) -> "RunFolder":
        """Opens a run folder. Raises UserError where it is none, has links or pipes, or records of version 0.1."""
        run = cls(path.absolute())
        if not os.path.isfile(run.config):  # `Path.is_file` raises for a name that is too long
            what = "has no config.yaml" if os.path.isdir(path) else "is not a folder"
            raise UserError(f"{path} is not a run folder: it {what}; give a folder that a run printed as `run: ...`")
        check_plain(run.path)
        if part := next(run.path.rglob("*.jsonl.0001*"), None):
            raise UserError(f"{part}: version 0.1 wrote traces in parts; read this folder with that version")
        return run

    def keep_log(self) -> logging.Handler:
        """Sends the log of this process to the run's file. The terminal is for progress and results."""
        handler = logging.FileHandler(self.log)
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
        logging.getLogger().addHandler(handler)
        logging.getLogger().setLevel(logging.INFO)
        # Their INFO lines would bury the run's own.
        for library in ("wandb", "fontTools"):
            logging.getLogger(library).setLevel(logging.WARNING)
        return handler

    def learned(self, method: str) -> "RunFolder":
        """Returns the folder of a learned graph: training discussions and steps, state and edges."""
        return RunFolder(self.path / "learned" / method)

    def all_learned(self) -> "list[RunFolder]":
        """Lists the folders of all learned graphs, each called after its method, in alphabetical order."""
        # Sorted: the order of a directory depends on the file system.
        return [RunFolder(path.parent) for path in sorted((self.path / "learned").glob(f"*/{LEARNING}"))]

    def traces(self, phase: str, only: Container[int] | None = None) -> Iterator[Trace]:
        """Traces of a phase (`calibrate`, `train-<stage>`, `evaluate-<method>`). `only` are positions, from 0."""
        return jsonl.records(self.path / f"traces/{phase}.jsonl", decode_trace, DAMAGED, only)

    def training_traces(self) -> list[Path]:
        """Lists the plain path of each stage's traces; in the folder of a learned graph."""
        return jsonl.files(self.path / "traces", "train-*.jsonl")

    def failed(self, phase: str) -> bool:
        """True if a turn of a phase failed. Traces are not decoded for it."""
        # A quotation mark inside a text is escaped, so this is always a field.
        return any(b'"status":"failed"' in line for line in jsonl.lines(self.path / f"traces/{phase}.jsonl"))

    def count(self, phase: str) -> int:
        """Counts the traces of a phase as lines: decoding them would cost far more."""
        return sum(1 for _ in jsonl.lines(self.path / f"traces/{phase}.jsonl"))

    def learning(self) -> Iterator[LearningStep]:
        """Training steps of all stages, in order; in the folder of a learned graph."""
        return jsonl.records(self.path / LEARNING, LearningStep.decode, DAMAGED)

    def scores(self) -> Iterator[Scored]:
        """Scored answers in the order in which they were recorded. Raises UserError where one is there twice."""
        return (scored for *_, scored in self.placed_scores())

    def placed_scores(self) -> Iterator[tuple[int, int, Scored]]:
        """As `scores`, each with the places of its line's first byte and of the next line's."""
        path, seen = self.path / SCORES, set[tuple[str, str]]()
        for number, (place, line) in enumerate(jsonl.placed(path), start=1):
            scored = jsonl.decoded(path, number, line, Scored.decode, DAMAGED)
            if (answered := (scored.method, scored.question)) in seen:
                method, question = answered
                raise UserError(f"{path}, line {number}: {method} has answered {question} before; {DAMAGED}")
            seen.add(answered)
            yield place, place + len(line), scored

    def checkpoint(self) -> Checkpoint | None:
        """Reads the learner's state, None before the first training step. Raises UserError when it is damaged."""
        return Checkpoint.read(self.topology) if self.topology.exists() else None


class _Writer:
    """Appends to files of a folder, each opened once. Raises UserError when another process has the folder's lock."""

    lock: ClassVar[str]  # the file whose lock is the folder's

    def __init__(self, run: RunFolder) -> None:
        self.run = run
        self._files: dict[str, FileIO] = {}
        (run.path / "traces").mkdir(parents=True, exist_ok=True)
        try:
            jsonl.lock(self._file(self.lock))
            # Only under the lock: before it another process may be writing these files.
            self._cut()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        self.close()

    def close(self) -> None:
        while self._files:
            self._files.popitem()[1].close()

    def _cut(self) -> None:
        """Cuts off whatever a killed run left incomplete."""

    def _file(self, name: str) -> FileIO:
        if name not in self._files:
            jsonl.make_plain(self.run.path / name)
            # Unbuffered: the system has a line as soon as it is written, so a killed process loses none.
            self._files[name] = (self.run.path / name).open("ab", buffering=0)
        return self._files[name]


class Recorder(_Writer):
    """Writes a run's evaluation, and compresses long traces of a run that ends well.

    Opening it cuts off whatever a killed run left incomplete. Raises UserError when another process is writing the
    folder, or its records are damaged.
    """

    lock = SCORES

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        self.close()
        if kind is not None:
            return
        folders = [run.path / name for run in (self.run, *self.run.all_learned()) for name in ("traces", TIMINGS)]
        for path in (file for folder in folders for file in jsonl.files(folder, "*.jsonl")):
            try:
                jsonl.compress(path)
            except OSError as failure:
                log.warning("%s stays uncompressed: %s", path, failure)

    def done(self, method: str) -> frozenset[str]:
        """Ids of the questions that a resumed run has already evaluated with this method."""
        return frozenset(self._done.get(method, ()))

    def calibrated(self, traces: Sequence[Trace]) -> None:
        """Records all unlabelled discussions at once: the folder holds none of them or all."""
        path = self.run.path / "traces" / "calibrate.jsonl"
        try:
            write_atomically(path, "".join(f"{encode_trace(trace)}\n" for trace in traces).encode())
        except OSError as error:
            raise UserError(f"cannot write {path}: {error}; make room and go on with resume={self.run.path}") from error

    def evaluated(self, trace: Trace, item: Item, score: Score, harm: Harm | None = None) -> Scored:
        """Records one evaluated question: the trace first, because the score vouches for it."""
        scored = Scored.of(trace, item, score, harm)
        jsonl.append(self._file(_evaluation(trace.method)), encode_trace(trace))
        # A crash between the two leaves a trace without a score, which resuming cuts off.
        jsonl.append(self._file(SCORES), scored.encode())
        self._done.setdefault(trace.method, set()).add(trace.question)
        return scored

    def _cut(self) -> None:
        """Notes the questions with a complete trace and score by method. Cuts off others and drops failed ones."""
        for graph in self.run.all_learned():
            graph.checkpoint()  # for its errors alone: a learner that goes on from it is launched much later
        done: dict[str, set[str]] = {}
        kept: dict[str, int] = {}
        traces: dict[str, Iterator[tuple[int, bytes]]] = {}
        # Places of the lines to drop, by file.
        failed: dict[str, set[int]] = {}
        path = self.run.path
        evaluations = jsonl.files(path / "traces", "evaluate-*.jsonl")
        scores = list(self.run.placed_scores())
        # No kill leaves several traces without any score, or scores without any trace of their method.
        traced = [file.name for file in evaluations if len(list(islice(jsonl.lines(file), 2))) > 1]
        if traced and not scores:
            raise UserError(f"{path / SCORES} has no scores for {', '.join(traced)}; {LOST}")
        for begins, ends, scored in scores:
            name = _evaluation(scored.method)
            finished = done.setdefault(scored.method, set())
            # Each method's traces are in the order of its scores.
            for place, trace in traces.setdefault(name, jsonl.placed(path / name)):
                kept[name] = place + len(trace)
                question, answer, again = jsonl.decoded(path / name, len(finished) + 1, trace, _answered, DAMAGED)
                if again:
                    failed.setdefault(name, set()).add(place)
                if (question, answer) == (scored.question, scored.answer):
                    break
                # A kill may have dropped the score of a failed question, and not its trace yet.
                if not again:
                    raise UserError(f"{path / name} and {path / SCORES} list different answers; {DAMAGED}")
            else:
                if name not in kept:
                    raise UserError(f"{path / name} has no discussions for the scores in {path / SCORES}; {LOST}")
                # Its trace did not reach the disk; later ones were written after it and are asked again.
                break
            if again:
                failed.setdefault(SCORES, set()).add(begins)
            else:
                finished.add(scored.question)
            kept[SCORES] = ends
        if failed:
            for judged in (JUDGEMENTS, SCENES):
                (path / judged).unlink(missing_ok=True)
        # Also of methods without any complete question: their half-written files become empty.
        for file in [path / SCORES, *evaluations]:
            name = file.relative_to(path).as_posix()
            jsonl.cut_to(file, kept.get(name, 0), failed.get(name, ()))
            if name in failed and name in self._files:
                # The name is another file's now.
                self._files.pop(name).close()
                jsonl.lock(self._file(name))
        self._done = done


class LearningRecorder(_Writer):
    """Writes the records of a learner, in its own folder (`RunFolder.learned`). `checkpoint` is where it goes on.

    Opening it cuts off whatever a killed run left incomplete. Raises UserError when another process is writing the
    folder, or its checkpoint or records are damaged.
    """

    lock = LEARNING
    checkpoint: Checkpoint | None
    _sizes: dict[str, int]
    _hashes: dict[str, hashlib.blake2b]

    def trained(self, stage: int, trace: Trace) -> None:
        """Records one discussion of a training step, before `learned` records the step that uses it."""
        self._append(f"traces/train-{stage}.jsonl", encode_trace(trace))

    def learned(self, step: LearningStep, state: Mapping[str, np.ndarray]) -> None:
        """Records a training step and makes it the point from which a killed run goes on."""
        self._append(LEARNING, step.encode())
        for file in self._files.values():
            os.fsync(file.fileno())  # before the checkpoint, which vouches for these bytes
        digests = {name: hasher.hexdigest() for name, hasher in self._hashes.items()}
        self.checkpoint = Checkpoint(step.stage, step.step, dict(state), dict(self._sizes), digests)
        self.checkpoint.write(self.run.topology)

    def _append(self, name: str, line: str) -> None:
        added = jsonl.append(self._file(name), line)
        self._sizes[name] = self._sizes.get(name, 0) + added
        self._hashes.setdefault(name, _hash()).update(f"{line}\n".encode())

    def _cut(self) -> None:
        self.checkpoint = self.run.checkpoint()
        # Without a checkpoint learning starts again, so every training record becomes empty.
        sizes = self.checkpoint.sizes if self.checkpoint else {}
        digests = self.checkpoint.digests if self.checkpoint else {}
        names = sorted({LEARNING, *(f"traces/{path.name}" for path in self.run.training_traces()), *sizes})
        self._sizes, self._hashes = {name: sizes.get(name, 0) for name in names}, {}
        # All of them before any is cut: a refused folder stays as it is.
        for name, size in self._sizes.items():
            path, hasher, found = self.run.path / name, _hash(), 0
            for piece in jsonl.pieces(path, size):
                hasher.update(piece)
                found += len(piece)
            if found < size or ((name in digests or size) and hasher.hexdigest() != digests.get(name)):
                what = "shorter than" if found < size else "not what it was"
                raise UserError(
                    f"{path} is {what} when the checkpoint was written; restore it from a copy, "
                    f"or delete {self.run.topology} and resume to learn again from the start"
                )
            self._hashes[name] = hasher
        for name, size in self._sizes.items():
            # Discussions after the checkpoint are held again, with the same seeds.
            jsonl.cut_to(self.run.path / name, size)


def _evaluation(method: str) -> str:
    """Names the file of a method's traces. Raises ValueError when its name cannot be part of a file's name."""
    if not re.fullmatch(r"[\w.-]+", method):
        raise ValueError(f"method {method!r}: letters, digits, '-', '_' and '.' only, for its traces get a file")
    return f"traces/evaluate-{method}.jsonl"


_hash = partial(hashlib.blake2b, digest_size=16)


def _answered(line: str) -> tuple[str, str | None, bool]:
    """Reads a question, its answer, and whether it is to be asked again."""
    # Decoding a whole trace of every question would make resumption slow.
    trace = json.loads(line)
    failed = (turn.get("error", "") for turn in trace["turns"] if turn.get("status") == Status.FAILED)
    return trace["question"], trace.get("answer"), not all(map(of_question, failed))
