"""Writes and reads run folders: append-only records, from which a killed run is resumed.

docs/runs.md lists its files. Long files of traces are compressed when the run ends (`jsonl.py`).

A checkpoint has the sizes of the training records, so resuming cuts them back to these. Evaluated questions need no
checkpoint: those with a complete trace and score count, and a trace or score alone is cut off. Resuming also drops
questions with a turn that failed for another reason than the question itself: they are asked and judged again. Each
score is computed again from its trace, and refused where it differs. Each file that grows is compared with its digests
(`digests.py`).
"""

import hashlib
import json
import logging
import os
import re
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from io import FileIO
from itertools import chain, islice
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from actors.errors import UserError
from actors.messages import Status, Trace
from actors.secrets import masked
from experiments.attacks.attack_metrics import Harm
from experiments.datasets.item import Dataset, Item, Score
from experiments.records import jsonl
from experiments.records.checkpoint import LEARNING, Checkpoint
from experiments.records.digests import SUFFIX, new_hasher
from experiments.records.failures import of_question
from experiments.records.jsonl import DAMAGED
from experiments.records.records import LearningStep, Scored, decode_trace, encode_trace
from experiments.records.run_files import check_plain, read_json, read_whole, write_atomically

SCORES = "scores.jsonl"
OVERVIEW = "overview.json"  # of a run that has ended well, for the viewer's list
TIMINGS = "timings"  # the folder of `timings.py`'s files
TURNS = "turns"  # of `turn_log.py`'s
TURN_BYTES = 2**16  # a longer file of turns is compressed
JUDGEMENTS, SCENES = "judgements.jsonl", "scenes.jsonl"  # of a judge (`judging/`)
LOST = "restore it from a copy, or start a new run, which finds its model's replies in the completion cache"
LATER_FIELDS = ("strict_em", "path_count", "failed_calls", "certified", "cluster")  # than version 0.2.0
MOST_RUNS = 1000  # that begin in one second
MOST_SHOWN = 80  # characters of a value in an error

log = logging.getLogger(__name__)


class MaskingFormatter(logging.Formatter):
    """Formats a line of a log, and a traceback, without keys."""

    def format(self, record: logging.LogRecord) -> str:
        return masked(super().format(record))


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
        for number in range(1, MOST_RUNS):
            suffix = f"-{number}" if number > 1 else ""
            path = (output / f"{name}{suffix}").absolute()
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
    def open(cls, path: Path, *, checks: bool = True, resumes: bool = False) -> "RunFolder":
        """Opens a run folder. Raises UserError where it is none, has links or pipes, or records of version 0.1.

        checks: also where a file that grows is not what its digests say, of a sweep in all its trials. resumes: such
        files may have lost lines at their ends.
        """
        run = cls(path.absolute())
        if not os.path.isfile(run.config):  # `Path.is_file` raises for a name that is too long
            reason = "has no config.yaml" if os.path.isdir(path) else "is not a folder"
            raise UserError(f"{path} is not a run folder: it {reason}; give a folder that a run printed as `run: ...`")
        check_plain(run.path)
        if part := next(run.path.rglob("*.jsonl.0001*"), None):
            raise UserError(f"{part}: version 0.1 wrote traces in parts; read this folder with that version")
        if checks:
            for file in sorted(run.path.rglob(f"*.jsonl{SUFFIX}")):
                jsonl.check_digests(file.with_suffix(""), resumes)
        return run

    def write(self, name: str, text: str) -> None:
        """Writes a file whole, or not at all. Raises OSError."""
        write_atomically(self.path / name, text.encode())

    def keep_log(self) -> logging.Handler:
        """Sends the log of this process to the run's file. The terminal is for progress and results."""
        handler = logging.FileHandler(self.log)
        handler.setFormatter(MaskingFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
        logging.getLogger().addHandler(handler)
        logging.getLogger().setLevel(logging.INFO)
        # Their INFO lines would bury the run's own.
        for library in ("wandb", "fontTools"):
            logging.getLogger(library).setLevel(logging.WARNING)
        return handler

    def text(self, name: str) -> str:
        """Reads a file whole. Raises UserError where it is missing, no plain file or larger than any run's."""
        return read_whole(self.path / name).decode(errors="replace")

    def json(self, name: str) -> dict[str, Any]:
        """Reads a file with a JSON object. Raises UserError as `text`, and for any other content."""
        return read_json(self.path / name)

    def learned(self, method: str) -> "RunFolder":
        """Returns the folder of a learned graph: training discussions and steps, state and edges."""
        return RunFolder(self.path / "learned" / method)

    def all_learned(self) -> "list[RunFolder]":
        """Lists the folders of all learned graphs, each called after its method, in alphabetical order."""
        # Sorted: the order of a directory depends on the file system.
        return [RunFolder(path.parent) for path in sorted((self.path / "learned").glob(f"*/{LEARNING}"))]

    def trace_file(self, phase: str) -> Path:
        return self.path / "traces" / f"{phase}.jsonl"

    def traces(self, phase: str, only: Container[int] | None = None) -> Iterator[Trace]:
        """Traces of a phase (`calibrate`, `train-<stage>`, `evaluate-<method>`). `only` are positions, from 0."""
        return jsonl.records(self.trace_file(phase), decode_trace, DAMAGED, only)

    def training_traces(self) -> list[Path]:
        """Lists the plain path of each stage's traces; in the folder of a learned graph."""
        return jsonl.files(self.path / "traces", "train-*.jsonl")

    def evaluation_traces(self) -> list[Path]:
        """Lists the plain path of each evaluated method's traces."""
        return jsonl.files(self.path / "traces", "evaluate-*.jsonl")

    def failed(self, phase: str) -> bool:
        """True if a turn of a phase failed. Traces are not decoded for it."""
        # A quotation mark inside a text is escaped, so this is always a field.
        return any(b'"status":"failed"' in line for line in jsonl.lines(self.trace_file(phase)))

    def count(self, phase: str) -> int:
        """Counts the traces of a phase as lines: decoding them would cost far more."""
        return sum(1 for _ in jsonl.lines(self.trace_file(phase)))

    def learning(self) -> Iterator[LearningStep]:
        """Training steps of all stages, in order; in the folder of a learned graph."""
        return LearningStep.read(self.path / LEARNING)

    def scores(self) -> Iterator[Scored]:
        """Scored answers in the order in which they were recorded. Raises UserError where one is there twice."""
        return (scored for _, scored in self.score_lines())

    def score_lines(self) -> Iterator[tuple[bytes, Scored]]:
        """Reads `scores`, each with its line."""
        path = self.path / SCORES
        answered = set[tuple[str, str]]()
        for number, line in enumerate(jsonl.lines(path), start=1):
            scored = jsonl.decoded(path, number, line, Scored.decode, DAMAGED)
            key = scored.method, scored.question
            if key in answered:
                raise UserError(
                    f"{path}, line {number}: {scored.method} has answered {scored.question} before; {DAMAGED}"
                )
            answered.add(key)
            yield line, scored

    def checkpoint(self) -> Checkpoint | None:
        """Reads the learner's state, None before the first training step. Raises UserError when it is damaged."""
        return Checkpoint.read(self.topology) if self.topology.exists() else None


class Scoring:
    """Computes scores from traces. The questions of `dataset` stay in memory from the first trace on.

    with_training: the run also records discussions of training questions.
    """

    def __init__(self, dataset: Dataset, *, with_training: bool = False) -> None:
        self.dataset = dataset
        self._with_training = with_training

    def __call__(self, trace: Trace) -> Scored:
        """Raises UserError for a discussion of a question that the run does not ask."""
        item = self._items.get(trace.question)
        if item is None:
            raise UserError(
                f"{trace.method} has answered {trace.question}, which is none of the {len(self._items):,} questions "
                f"of {self.dataset.name} that this run asks; restore its files, or start a new run"
            )
        return Scored.of(trace, item, self.dataset.score(item, trace.answer), self.harm(trace, item))

    def harm(self, trace: Trace, item: Item) -> Harm | None:
        """Measures the harm of the attack that the trace names."""
        return Harm.of(trace, item, self.dataset)

    @cached_property
    def _items(self) -> dict[str, Item]:
        training = self.dataset.train() if self._with_training else ()
        return {item.question.id: item for item in chain(training, self.dataset.evaluate())}


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
    folder, its records are damaged, or a score is not the one that `rescore` computes from its trace.

    rescore: computes a score again (`Scoring`); None for scores that no data set gives.
    """

    lock = SCORES

    def __init__(self, run: RunFolder, rescore: Callable[[Trace], Scored] | None = None) -> None:
        self._rescore = rescore
        super().__init__(run)

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        self.close()
        if kind is not None:
            return
        for run in (self.run, *self.run.all_learned()):
            for name in ("traces", TIMINGS, TURNS):
                for path in jsonl.files(run.path / name, "*.jsonl"):
                    try:
                        # Turns repeat the messages of traces, and are seldom read.
                        jsonl.compress(path, longer_than=TURN_BYTES if name == TURNS else None)
                    except OSError as failure:
                        log.warning("%s stays uncompressed: %s", path, failure)

    def done(self, method: str) -> frozenset[str]:
        """Ids of the questions that a resumed run has already evaluated with this method."""
        return frozenset(self._done.get(method, ()))

    def calibrated(self, traces: Sequence[Trace]) -> None:
        """Records all unlabelled discussions at once: the folder holds none of them or all."""
        path = self.run.trace_file("calibrate")
        content = "".join(f"{encode_trace(trace)}\n" for trace in traces)
        try:
            jsonl.replace(path, [content.encode()])
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
        evaluations = {path.name: EvaluationFile(path) for path in self.run.evaluation_traces()}
        scores = list(self.run.score_lines())
        if not scores:
            self._check_unscored(evaluations)

        score_lines: list[bytes] = []
        for line, scored in scores:
            path = self.run.path / _evaluation(scored.method)
            evaluation = evaluations.setdefault(path.name, EvaluationFile(path))
            trace = evaluation.find(scored, self.run.path / SCORES)
            if trace is None:
                # It did not reach the disk; later ones were written after it and are asked again.
                break

            if self._rescore:
                line = checked_line(self.run, line, scored, self._rescore(trace))
            if not asks_again(trace):
                evaluation.finished.add(scored.question)
                score_lines.append(line)

        if any(evaluation.failed_places for evaluation in evaluations.values()):
            for name in (JUDGEMENTS, SCENES):
                jsonl.remove(self.run.path / name)

        # Also of methods without any complete question: their half-written files become empty.
        for evaluation in evaluations.values():
            jsonl.cut_to(evaluation.path, evaluation.read_bytes, evaluation.failed_places)
        self._write_scores(b"".join(score_lines))
        self._done = {evaluation.method: evaluation.finished for evaluation in evaluations.values()}

    def _check_unscored(self, evaluations: "Mapping[str, EvaluationFile]") -> None:
        """Raises UserError for several traces without any score, which no kill leaves."""
        unscored = []
        for name, evaluation in evaluations.items():
            if len(list(islice(jsonl.lines(evaluation.path), 2))) > 1:
                unscored.append(name)
        if unscored:
            raise UserError(f"{self.run.path / SCORES} has no scores for {', '.join(unscored)}; {LOST}")

    def _write_scores(self, content: bytes) -> None:
        path = self.run.path / SCORES
        if path.read_bytes().startswith(content):
            jsonl.cut_to(path, len(content))
            return
        jsonl.replace(path, [content])
        # The name is another file's now.
        self._files.pop(SCORES).close()
        jsonl.lock(self._file(SCORES))


class EvaluationFile:
    """Recorded discussions of one method, read side by side with its scores.

    read_bytes: of the discussions read so far. failed_places: of the lines that are asked again. finished: questions.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.method = path.stem.removeprefix("evaluate-")
        self.read_bytes = 0
        self.failed_places = set[int]()
        self.finished = set[str]()
        self._lines = enumerate(jsonl.placed(path), start=1)

    def has_more(self) -> bool:
        """True if discussions follow the last one that was found."""
        return next(self._lines, None) is not None

    def find(self, scored: Scored, scores: Path) -> Trace | None:
        """Reads on to the discussion of a score in the file `scores`. None where the discussions end before it.

        Raises UserError for discussions in another order and for none at all.
        """
        for number, (place, line) in self._lines:
            trace = jsonl.decoded(self.path, number, line, decode_trace, DAMAGED)
            self.read_bytes = place + len(line)
            is_asked_again = asks_again(trace)
            if is_asked_again:
                self.failed_places.add(place)
            if trace.question == scored.question and trace.answer == scored.answer:
                return trace
            # A kill may have dropped the score of a failed question, and not its trace yet.
            if not is_asked_again:
                raise UserError(f"{self.path} and {scores} list different answers; {DAMAGED}")

        if not self.read_bytes:
            raise UserError(f"{self.path} has no discussions for the scores in {scores}; {LOST}")

        return None


def check_scores(run: RunFolder, rescore: Callable[[Trace], Scored]) -> None:
    """Raises UserError where the score of an answer is not the one that its trace and its question's label give."""
    evaluations: dict[Path, EvaluationFile] = {}
    for line, scored in run.score_lines():
        path = run.path / _evaluation(scored.method)
        evaluation = evaluations.setdefault(path, EvaluationFile(path))
        trace = evaluation.find(scored, run.path / SCORES)
        if trace is None:
            raise UserError(f"{path} lacks the discussion of {scored.question}, whose score is recorded; {LOST}")
        checked_line(run, line, scored, rescore(trace))
    for path, evaluation in evaluations.items():
        if evaluation.has_more():
            raise UserError(f"{path} has discussions without a score; resume={run.path} cuts them off")


def checked_line(run: RunFolder, line: bytes, recorded: Scored, computed: Scored) -> bytes:
    """Returns the line of a score. Raises UserError where its trace and its question's label give another one."""
    if recorded == computed:
        return line

    values = json.loads(line)
    # Version 0.2.0 wrote no strict score, and lacks what came later: it is completed.
    later_fields = () if "strict_em" in values else LATER_FIELDS
    for name in Scored.__slots__:
        recorded_value = getattr(recorded, name)
        computed_value = getattr(computed, name)
        is_later = name in later_fields and name not in values
        if recorded_value != computed_value and not is_later:
            raise UserError(
                f"{run.path / SCORES}: {name} of {recorded.method} on {recorded.question} is "
                f"{_shown(recorded_value)}, and its trace and label give {_shown(computed_value)}; {LOST}"
            )

    return f"{computed.encode()}\n".encode()


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
        line = masked(line)  # before it is hashed
        added_bytes = jsonl.append(self._file(name), line)
        self._sizes[name] = self._sizes.get(name, 0) + added_bytes
        self._hashes.setdefault(name, new_hasher()).update(f"{line}\n".encode())

    def _cut(self) -> None:
        self.checkpoint = self.run.checkpoint()
        # Without a checkpoint learning starts again, so every training record becomes empty.
        sizes = self.checkpoint.sizes if self.checkpoint else {}
        digests = self.checkpoint.digests if self.checkpoint else {}
        names = {LEARNING, *sizes, *(f"traces/{path.name}" for path in self.run.training_traces())}
        self._sizes = {name: sizes.get(name, 0) for name in sorted(names)}
        # All of them before any is cut: a refused folder stays as it is.
        self._hashes = {name: self._checked(name, size, digests.get(name)) for name, size in self._sizes.items()}
        for name, size in self._sizes.items():
            # Discussions after the checkpoint are repeated, with the same seeds.
            jsonl.cut_to(self.run.path / name, size)

    def _checked(self, name: str, size: int, digest: str | None) -> hashlib.blake2b:
        """Hashes the first bytes of a file. Raises UserError unless a checkpoint vouches for them."""
        path = self.run.path / name
        hasher = new_hasher()
        hashed_bytes = 0
        for piece in jsonl.pieces(path, size):
            hasher.update(piece)
            hashed_bytes += len(piece)

        is_short = hashed_bytes < size
        is_vouched = digest is not None or size > 0
        if is_short or (is_vouched and hasher.hexdigest() != digest):
            change = "shorter than" if is_short else "not what it was"
            raise UserError(
                f"{path} is {change} when the checkpoint was written; restore it from a copy, "
                f"or delete {self.run.topology} and resume to learn again from the start"
            )

        return hasher


def _evaluation(method: str) -> str:
    """Names the file of a method's traces. Raises ValueError when its name cannot be part of a file's name."""
    if not re.fullmatch(r"[\w.-]+", method):
        raise ValueError(f"method {method!r}: letters, digits, '-', '_' and '.' only, for its traces get a file")
    return f"traces/evaluate-{method}.jsonl"


def asks_again(trace: Trace) -> bool:
    """True for a discussion that a resumed run holds again: a turn failed, and not for its question alone."""
    return any(turn.status is Status.FAILED and not of_question(turn.error) for turn in trace.turns)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}..."
