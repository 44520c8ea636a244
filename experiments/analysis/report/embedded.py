"""The discussions of a run as its report carries them: an index to search and filter, and compressed chunks of traces.

Everything is stored as base64 of gzipped ASCII JSON, so no message can be taken for markup. Seeds and the edges
that could have been drawn are left out; the traces on disk have them.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from actors.messages import Trace, derive_seed
from experiments.judging import judgements
from experiments.judging.judge import Judgement
from experiments.records.recorder import RunFolder
from experiments.records.records import Scored
from experiments.records.traces import encode

LIMIT_TURNS = 50_000  # more make a page that a browser opens slowly
CHUNK_TURNS = 1_000  # one chunk is read to open a discussion, all of them to search messages

Entry = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Group:
    """Discussions of one file of traces: a method's, or a training stage's. `shown` of `recorded` are embedded."""

    name: str
    label: str
    file: str
    recorded: int
    shown: int


@dataclass(slots=True)
class Embedded:
    """`entries` is a row per discussion, in the order in which they are listed; `chunks` hold their traces.

    An entry's `chunk` and `place` say where its trace is.
    """

    groups: list[Group] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)
    chunks: list[str] = field(default_factory=list)

    @property
    def turns(self) -> int:
        return sum(entry["turns"] for entry in self.entries)

    def index(self) -> str:
        """Groups and entries for the browser, compressed."""
        groups = [{"name": g.name, "label": g.label, "file": g.file} for g in self.groups]
        return _compressed(json.dumps({"groups": groups, "entries": self.entries}, separators=(",", ":")))

    def add(self, group: Group, discussions: Iterable[tuple[Entry, Trace]]) -> None:
        """Adds a group's discussions in the order given."""
        self.groups.append(group)
        chunk: list[str] = []
        turns = 0
        for entry, trace in discussions:
            # The place is where the trace is about to go: the chunk is written only once it is full.
            self.entries.append({"group": group.name, "chunk": len(self.chunks), "place": len(chunk), **entry})
            chunk.append(encode(_bare(trace)))
            turns += len(trace.turns)
            if turns >= CHUNK_TURNS:
                self.chunks.append(_compressed(f"[{','.join(chunk)}]"))
                chunk, turns = [], 0
        if chunk:
            self.chunks.append(_compressed(f"[{','.join(chunk)}]"))


def embed(run: RunFolder, methods: Sequence[str], limit_turns: int = LIMIT_TURNS) -> Embedded:
    """The evaluated discussions, by question id, then those of training, in their order.

    Where they have more turns than `limit_turns`, the same questions of every method are drawn, by their ids alone, and
    the room that is left goes to training.
    """
    embedded = Embedded()
    lines: dict[str, dict[str, int]] = {method: {} for method in methods}
    turns: dict[str, int] = {}
    # A first pass for ids and sizes alone: texts of all questions need not fit in memory, only the chosen ones.
    for scored in run.scores():
        if scored.method in lines:
            of_method = lines[scored.method]
            of_method[scored.question] = len(of_method)  # a method's scores and traces are recorded in one order
            # A turn took a call, or failed without one.
            most = max(1, scored.calls + scored.failed_turns)
            turns[scored.question] = turns.get(scored.question, 0) + most
    # Grades and scores are read for the chosen questions only.
    chosen = _draw(turns, limit_turns)
    grades = {(j.method, j.question): j.judgement for j in judgements.judged(run) if j.question in chosen}
    scores: dict[str, list[Scored]] = {method: [] for method in methods}
    for scored in run.scores():
        if scored.method in scores and scored.question in chosen:
            scores[scored.method].append(scored)
    for method, numbers in lines.items():
        places = [numbers[scored.question] for scored in scores[method]]
        shown = _evaluated(run, method, scores[method], places, grades)
        embedded.add(Group(method, method, f"traces/evaluate-{method}.jsonl", len(numbers), len(shown)), shown)
    # Evaluation first: training gets the turns that are left.
    for graph in run.all_learned():
        for path in graph.training_traces():
            _add_training(embedded, graph, path.stem, limit_turns - embedded.turns)
    return embedded


def _draw(turns: dict[str, int], limit: int) -> set[str]:
    """Questions with `limit` turns of discussion at most, one at least; the choice depends on their ids alone."""
    chosen: set[str] = set()
    # In the order of a hash, so the sample is not the first questions of the data set, and is the same every time.
    for question in sorted(turns, key=lambda question: (derive_seed("report", question), question)):
        limit -= turns[question]
        # Stops at the first that does not fit instead of looking for a shorter one, which would favour short
        # discussions.
        if limit < 0 and chosen:
            break
        chosen.add(question)
    return chosen


def _evaluated(
    run: RunFolder,
    method: str,
    scores: Sequence[Scored],
    numbers: Sequence[int],
    grades: dict[tuple[str, str], Judgement],
) -> list[tuple[Entry, Trace]]:
    """Entries and traces by question id; `numbers` are the scores' places in the method's file, in the same order."""
    recorded = zip(scores, run.traces(f"evaluate-{method}", only=set(numbers)), numbers, strict=True)
    discussions = []
    for scored, trace, number in recorded:
        entry = _score(scored) | _outline(trace, number)
        if judgement := grades.get((method, scored.question)):
            entry |= {"grade": judgement.grade, "judged": judgement.reason or judgement.error}
        discussions.append((entry, trace))
    return sorted(discussions, key=lambda pair: str(pair[0]["question"]))


def _add_training(embedded: Embedded, graph: RunFolder, phase: str, room: int) -> None:
    """Adds as many of a stage's discussions as fit in `room` turns, drawn by their place alone."""
    # All discussions of a stage have about as many turns as the first, so one is enough to estimate from.
    first = next(graph.traces(phase, only={0}), None)
    if first is None:
        return
    recorded = graph.count(phase)
    drawn = sorted(range(recorded), key=lambda number: derive_seed("report", phase, number))
    numbers = sorted(drawn[: max(0, room // max(1, len(first.turns)))])
    label = f"learning {graph.name}, stage {phase.removeprefix('train-')}"
    name, file = f"{graph.name}.{phase}", f"learned/{graph.name}/traces/{phase}.jsonl"
    embedded.add(Group(name, label, file, recorded, len(numbers)), _trained(graph, phase, numbers))


def _trained(run: RunFolder, phase: str, numbers: Sequence[int]) -> Iterator[tuple[Entry, Trace]]:
    traces = run.traces(phase, only=set(numbers))
    for number, trace in zip(numbers, traces, strict=True):
        outline = _outline(trace, number)
        # A question recurs in training, so the key is the discussion's number.
        yield {"key": str(number + 1), "question": trace.question, "answer": trace.answer} | outline, trace


def _score(scored: Scored) -> Entry:
    """The score's part of an entry; `fooled`, where an attack aimed at a wrong answer, says whether it got that."""
    fooled = {} if scored.attack_success is None else {"fooled": scored.attack_success > 0}
    return fooled | {
        "key": scored.question,
        "question": scored.question,
        "text": scored.text,
        "gold": scored.gold,
        "answer": scored.answer,
        "utility": scored.utility,
        "f1": scored.f1,
        "edges": scored.edges,
        "tags": dict(scored.tags),
    }


def _outline(trace: Trace, number: int) -> Entry:
    """Facts to show and filter by beside the score; `line` is the discussion's line in the file of traces, from 1."""
    outline: Entry = {
        "line": number + 1,
        "sample": trace.sample,
        "turns": len(trace.turns),
        "calls": sum(turn.calls for turn in trace.turns),
        "tokens": sum(turn.prompt_tokens + turn.completion_tokens for turn in trace.turns),
        "failed": sum(turn.status != "ok" for turn in trace.turns),
        "cut": sum(bool(turn.cut) for turn in trace.turns),
        "tampered": sum(bool(turn.tampered) for turn in trace.turns),
    }
    if trace.attack or trace.attacked:
        outline["attack"] = trace.attack or "attacked"
    # Zeros are left out to keep the index small; the page takes a missing value as zero.
    return {name: value for name, value in outline.items() if value or name == "turns"}


def _bare(trace: Trace) -> Trace:
    """Without what the report does not show: seeds in particular hardly compress."""
    turns = tuple(replace(turn, seed=0) for turn in trace.turns)
    return replace(trace, seed=0, turns=turns, allowed_spatial=(), allowed_temporal=())


def _compressed(text: str) -> str:
    # Without a time stamp, so that one run gives one report.
    return base64.b64encode(gzip.compress(text.encode("ascii"), compresslevel=6, mtime=0)).decode("ascii")
