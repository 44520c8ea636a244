"""Answers turns from a recorded run instead of a team, without agents and models.

A turn must be the recorded one: the same seed, the same messages heard and the same evidence. The metric and the judge
may be others, questions and methods fewer. What was learned is copied (`copy_learning`), or learned again from the
recorded discussions, which works as long as they are scored as they were.
"""

from __future__ import annotations

import json
import os
import shutil
import weakref
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, BinaryIO

from actors.errors import UserError
from actors.messages import Message, Source, Trace, Turn, Usage
from experiments.config.config import HOW_IT_RUNS, Config, among
from experiments.config.loading import read as read_config
from experiments.config.references import check_outside, flat
from experiments.config.settings import RoleSettings
from experiments.datasets.benchmark import choose
from experiments.datasets.item import Dataset, Item, Score
from experiments.records import jsonl
from experiments.records.checkpoint import LEARNING, Checkpoint
from experiments.records.recorder import RunFolder
from experiments.records.records import decode_trace
from experiments.running.methods import methods_of
from experiments.running.models import models_named
from experiments.running.opening import open_dataset
from topologies.learning.learned_topology import TRAINING

# Keys that may differ between a run and its replay, with everything below them: none changes what an agent is asked.
# `model` and `reader` are among them because the answers exist already. Of `data.limit` and `methods`, less is allowed.
FREE = (
    *HOW_IT_RUNS,
    *("experiment", "output", "resume", "dry_run"),
    *("model", "reader", "judge", "replay", "agents.retries", "data.root", "data.limit", "methods"),
    *("roles.<role>.model", "roles.<role>.reader"),
)
_ABOUT_ENDS = b',"agents":'  # quotes inside a JSON string are escaped, so this is never part of a question's id


def open_recorded(config: Config) -> tuple[RecordedTeam, Config]:
    """The recorded run that a configuration replays, and its configuration. Raises UserError when it cannot be."""
    if config.replay.run is None:
        raise UserError("model=replay needs replay.run=<folder of the run whose recorded turns are to answer>")
    folder = RunFolder.open(Path(config.replay.run))
    check_outside(folder.path)
    recorded = read_config(folder.config)
    check_same(config, recorded)
    searching = frozenset(method.name for method in methods_of(config) if method.needs_library)
    return RecordedTeam(folder, searching), recorded


def replayed_folder(config: Config) -> Path | None:
    """The folder of the run that a configuration replays; None for a run that asks a model."""
    return Path(config.replay.run) if config.model.kind == "replay" and config.replay.run else None


def answering(recorded: Config) -> str:
    """The name of the model that gave the recorded answers; of a replay, the one behind its recorded run if present."""
    seen: set[str | None] = set()
    while recorded.model.kind == "replay" and recorded.replay.run not in (None, *seen):
        # A folder may say that it replays itself.
        seen.add(recorded.replay.run)
        path = RunFolder(Path(str(recorded.replay.run))).config
        if not os.path.isfile(path):
            break
        recorded = read_config(path)
    return models_named(recorded)


def check_same(config: Config, recorded: Config) -> None:
    """Raises UserError that names every setting in which a replay would ask something else than was recorded."""
    # A role that is not named has the default settings.
    roles = dict.fromkeys((*config.roles, *recorded.roles), RoleSettings())
    present, past = (dict(flat(asdict(replace(one, roles=roles | one.roles)))) for one in (config, recorded))
    differing = [
        f"{key}={_shown(past.get(key))} (not {_shown(present.get(key))})"
        for key in sorted({*present, *past})
        if present.get(key) != past.get(key) and not among(key, FREE)
    ]
    if differing:
        raise UserError(
            f"the run to be replayed was recorded with {', '.join(differing)}: set the same, or ask a model"
        )
    if others := [method for method in config.methods if method not in recorded.methods]:
        raise UserError(
            f"methods: {', '.join(others)} was not part of the run to be replayed: "
            f"choose from {', '.join(recorded.methods)}, or ask a model"
        )
    limit, most = config.data.limit, recorded.data.limit
    if most is not None and (limit is None or limit > most):
        raise UserError(
            f"data.limit={_shown(limit)}: only {most} questions were recorded; ask for at most as many, or ask a model"
        )


def _shown(value: Any) -> str:
    return "null" if value is None else str(value).replace(" ", "")


class RecordedTeam:
    """The team of a run folder. Keeps the byte offset of every discussion, and the discussions that are open.

    Of the methods in `searching`, turns may read parts of the evidence that the trace lists.

    Raises UserError, when a discussion of a method is first asked for, where its traces cannot be read.
    """

    recorded = True

    def __init__(self, folder: RunFolder, searching: Collection[str] = ()) -> None:
        self.usage: dict[str, Usage] = {}  # nothing is spent
        self.folder = folder
        self._searching = searching
        self._places: dict[str, dict[str, tuple[Path, int]]] = {}
        self._files: dict[Path, BinaryIO] = {}
        self._open: dict[str, _Discussion] = {}

    async def ask(self, turn: Turn) -> Message:
        """The message that was recorded for this turn.

        Raises:
            UserError: the turn was never recorded, or it was asked with another seed, evidence or messages.
        """
        return self._discussion(turn).message(turn)

    def metered(self) -> RecordedTeam:
        """Itself, as nothing is spent."""
        return self

    def close(self, discussion: str) -> None:
        """No more turns of this discussion will come."""
        self._open.pop(discussion, None)

    def _discussion(self, turn: Turn) -> _Discussion:
        # Read from disk at the first turn and dropped at `close`: a whole run's traces would fill the memory.
        if turn.discussion not in self._open:
            method = turn.discussion.partition("/")[0]
            if method not in self._places:
                self._places[method] = _places(self.folder, method)
            place = self._places[method].get(turn.discussion)
            if place is None:
                count = f"{len(self._places[method]):,} discussions of {method}" if self._places[method] else "none"
                raise UserError(
                    f"{_named(turn)} was never recorded: {self.folder.path} holds {count} and not this one; replay "
                    "with the recorded methods, questions and training.samples, or ask a model"
                )
            self._open[turn.discussion] = _Discussion(self.folder, self._read(*place), method in self._searching)
        return self._open[turn.discussion]

    def _read(self, path: Path, offset: int) -> Trace:
        if path not in self._files:
            file = self._files[path] = jsonl.seekable(path)
            weakref.finalize(self, file.close)
        self._files[path].seek(offset)
        try:
            return decode_trace(self._files[path].readline(jsonl.LINE_BYTES).decode())
        except ValueError as error:
            raise UserError(f"{path}: {error}; replay an intact run") from error


class _Discussion:
    def __init__(self, folder: RunFolder, trace: Trace, parts: bool) -> None:
        self._folder = folder
        self._trace = trace
        self._parts = parts
        self._turns = {message.id: message for message in trace.turns}

    def message(self, turn: Turn) -> Message:
        """The recorded message of a turn. Raises UserError unless the turn is the recorded one."""
        message = self._turns.get(f"{turn.round}/{turn.agent}")
        if message is None:
            raise UserError(
                f"{_named(turn)} was never recorded: in {self._folder.path} {turn.agent} did not speak then; "
                "replay the roles, rounds and wiring of that run, or ask a model"
            )
        # Sorted: who is heard matters, and not in which order the trace has listed them.
        heard = sorted(heard.message.id for heard in turn.heard)
        for aspect, present, past in (
            ("its seed is", [turn.seed], [message.seed]),
            ("it hears", heard, sorted(message.heard)),
            ("its evidence is", self._evidence(turn), list(self._trace.evidence)),
        ):
            if present != past:
                raise UserError(
                    f"{_named(turn)}: {aspect} {_listed(present)}, and in {self._folder.path} {_listed(past)}; replay "
                    "with that run's settings, data and scores, or ask a model"
                )
        return message

    def _evidence(self, turn: Turn) -> list[str]:
        """The ids of the turn's evidence; with `parts`, a subset of the trace's evidence counts as all of it."""
        read, listed = _ids(turn.question.evidence), list(self._trace.evidence)
        return listed if self._parts and set(read) <= set(listed) else read


def _ids(evidence: Sequence[Source]) -> list[str]:
    return [source.id for source in evidence]


def _listed(values: Sequence[Any]) -> str:
    return ", ".join(map(str, values)) if values else "nothing"


def _named(turn: Turn) -> str:
    method, _, rest = turn.discussion.partition("/")
    sample = rest.rpartition("/")[2]
    return f"turn {turn.round}/{turn.agent} of question {turn.question.id} (method {method}, sample {sample})"


def _places(folder: RunFolder, method: str) -> dict[str, tuple[Path, int]]:
    """File and first byte of each discussion of a method, by its id; only the head of a line is parsed."""
    if method.startswith(TRAINING):
        found = folder.learned(method.removeprefix(TRAINING)).training_traces()
    else:
        found = [folder.path / "traces" / ("calibrate.jsonl" if method == "calibrate" else f"evaluate-{method}.jsonl")]
    places = {}
    for path in found:
        for number, (place, line) in enumerate(jsonl.placed(path), start=1):
            head, ends, _ = line.partition(_ABOUT_ENDS)
            # The head lacks only its closing brace to be an object.
            discussion = jsonl.decoded(path, number, head + b"}" if ends else line, _discussion, "replay an intact run")
            places[discussion] = path, place
    return places


def _discussion(head: str) -> str:
    record = json.loads(head)
    return f"{record['method']}/{record['question']}/{record['sample']}"


def copy_learning(recorded: RunFolder, folder: RunFolder) -> None:
    """Copies what a run learned to its replay, before a recorder is opened, which then finds learning done.

    Scores of another metric would teach another wiring, and its discussions were never recorded.
    """
    for graph in recorded.all_learned():
        _copy_graph(graph, folder.learned(graph.name))


def _copy_graph(recorded: RunFolder, folder: RunFolder) -> None:
    """The checkpoint comes last: it vouches for the rest, so a copy that was interrupted starts again.

    Raises UserError where the checkpoint is damaged, or there is no room.
    """
    # Already copied (a resumed replay), or it had not begun to learn.
    if folder.topology.exists() or not recorded.topology.exists():
        return
    (folder.path / "traces").mkdir(parents=True, exist_ok=True)
    vouched = Checkpoint.read(recorded.topology).sizes
    names = [LEARNING, *(f"traces/{path.name}" for path in recorded.training_traces())]
    beside = folder.topology.with_name(f".{folder.topology.name}.partial")
    try:
        for name in names:
            # What follows would be cut off, and may be gigabytes of nothing.
            with (folder.path / name).open("wb") as written:
                written.writelines(jsonl.pieces(recorded.path / name, vouched.get(name, 0)))
        shutil.copyfile(recorded.topology, beside)
        # A rename replaces the file whole, so no reader sees half a checkpoint.
        beside.rename(folder.topology)
    except OSError as error:
        raise UserError(f"cannot copy what {recorded.path} learned to {folder.path}: {error}; make room") from error


def replayed_dataset(config: Config, recorded: Config, cache: Path) -> Dataset:
    """The data set of the recorded run, with at most `data.limit` evaluated questions.

    It is made with the recorded limit, because the generated sample draws others for another one.
    """
    whole = open_dataset(replace(config, data=replace(config.data, limit=recorded.data.limit)), cache)
    return whole if config.data.limit == recorded.data.limit else _Fewer(whole, config.data.limit, config.seed)


class _Fewer:
    """A data set with fewer evaluated questions, chosen as every data set chooses them."""

    def __init__(self, whole: Dataset, limit: int | None, seed: int) -> None:
        self.name, self.metric = whole.name, whole.metric
        self.train, self.corpus = whole.train, whole.corpus
        self._whole, self._limit, self._seed = whole, limit, seed

    def evaluate(self) -> Iterator[Item]:
        chosen = choose((item.question.id for item in self._whole.evaluate()), self._limit, self._seed)
        return (item for item in self._whole.evaluate() if chosen is None or item.question.id in chosen)

    def score(self, item: Item, answer: str | None) -> Score:
        return self._whole.score(item, answer)
