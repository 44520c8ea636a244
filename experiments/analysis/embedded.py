"""Discussions and learned graphs in a run's report: an index to search and filter, and compressed chunks of traces.

Everything is base64 of gzipped ASCII JSON, so no message can be taken for markup. Seeds and candidate edges are left
out; the traces on disk have them. The index also has the titles of sources and how methods agree.
"""

import base64
import gzip
import json
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from typing import Any

from actors.messages import Trace, derive_seed
from experiments.analysis.grouping import grouped
from experiments.judging.judgements import judgement_records
from experiments.records import attribution
from experiments.records.recorder import RunFolder
from experiments.records.records import LearningStep, Matrix, Scored, encode_trace
from experiments.records.timings import DiscussionTimes, Times, times_of_turns

LIMIT_TURNS = 50_000  # more make a page that a browser opens slowly
MOST_VALUES = 60_000  # probabilities of learned graphs in one page, which compress to some 150 kB
CHUNK_TURNS = 1_000  # one chunk is read to open a discussion, all of them to search messages

Entry = dict[str, Any]


@dataclass(frozen=True, slots=True)
class DiscussionGroup:
    """Discussions of one file of traces: a method's, or a training stage's. `shown` of `recorded` are embedded."""

    name: str
    label: str
    file: str
    recorded: int
    shown: int


@dataclass(slots=True)
class Embedded:
    """Discussions of a report: an entry for each, in the list's order, and chunks of traces.

    An entry's `chunk` and `place` locate its trace. `source_ids` are ids of sources that the traces name, `sources`
    their titles by id, and `pairs` the `agreement` of methods.
    """

    groups: list[DiscussionGroup] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)
    chunks: list[str] = field(default_factory=list)
    source_ids: set[str] = field(default_factory=set)
    sources: dict[str, str] = field(default_factory=dict)
    pairs: list[dict[str, Any]] = field(default_factory=list)

    def index(self) -> str:
        """Everything but the traces for the browser, compressed."""
        groups = [asdict(group) for group in self.groups]
        return packed(
            {
                "groups": groups,
                "entries": self.entries,
                "sources": self.sources,
                "pairs": self.pairs,
            }
        )

    def add(self, group: DiscussionGroup, discussions: Iterable[tuple[Entry, Trace]], times: Times) -> None:
        """Adds a group's discussions in their order, with the times of their turns."""
        self.groups.append(group)
        chunk: list[str] = []
        turns = 0
        for entry, trace in discussions:
            # The chunk is written only once it is full.
            self.entries.append(
                {
                    "group": group.name,
                    "chunk": len(self.chunks),
                    "place": len(chunk),
                    **entry,
                }
            )
            self._note_sources(trace)
            # Without what the report does not show: seeds in particular hardly compress.
            unseeded = tuple(replace(turn, seed=0) for turn in trace.turns)
            shortened = replace(
                trace,
                seed=0,
                turns=unseeded,
                allowed_spatial=(),
                allowed_temporal=(),
            )
            chunk.append(timed(encode_trace(shortened), times.get((trace.question, trace.sample))))
            turns += len(trace.turns)
            if turns >= CHUNK_TURNS:
                self._close(chunk)
                turns = 0
        self._close(chunk)

    def _note_sources(self, trace: Trace) -> None:
        """Notes the sources of a trace: shown, found by a search, or left out of a prompt."""
        ids = set(trace.evidence)
        for lookup in trace.lookups:
            ids.update(lookup.found)
        for turn in trace.turns:
            ids.update(turn.cut)
        # The id of a triple begins with its source's.
        self.source_ids.update(id.partition("#")[0] for id in ids)

    def _close(self, chunk: list[str]) -> None:
        """Compresses a chunk of traces, unless it is empty, and empties it."""
        if chunk:
            self.chunks.append(_compressed(f"[{','.join(chunk)}]"))
            chunk.clear()


def timed(line: str, times: DiscussionTimes | None) -> str:
    """Adds to the turns of an encoded trace the `seconds` that they took, where they were recorded."""
    if times is None:
        return line
    trace = json.loads(line)
    for turn in trace["turns"]:
        if turn["id"] in times.turns:
            turn["seconds"] = times.turns[turn["id"]].seconds
    return json.dumps(trace, separators=(",", ":"))


def embed(run: RunFolder, methods: Sequence[str], limit_turns: int = LIMIT_TURNS) -> Embedded:
    """Embeds the evaluated discussions, by question id. Those of training follow, in their order.

    Where they have more turns than `limit_turns`, the same questions of every method are drawn, by their ids alone, and
    training gets the turns that are left.
    """
    embedded = Embedded()
    all_scores = grouped(run.scores(), key=lambda scored: scored.method)
    scores = {method: all_scores.get(method, []) for method in methods}
    questions = _drawn(scores.values(), limit_turns)
    remarks = _remarks(run)
    for method, method_scores in scores.items():
        phase = f"evaluate-{method}"
        # A method's scores and traces are recorded in one order.
        places = [place for place, scored in enumerate(method_scores) if scored.question in questions]
        discussions = []
        for place, trace in zip(places, run.traces(phase, only=set(places)), strict=True):
            scored = method_scores[place]
            remark = remarks.get((method, scored.question), {})
            discussions.append(({**scored_entry(scored), **_outline(trace, place), **remark}, trace))
        discussions.sort(key=lambda discussion: str(discussion[0]["question"]))
        group = DiscussionGroup(
            name=method,
            label=method,
            file=f"traces/{phase}.jsonl",
            recorded=len(method_scores),
            shown=len(discussions),
        )
        embedded.add(group, discussions, times_of_turns(run, phase))

    for graph in run.all_learned():
        for path in graph.training_traces():
            turns = sum(entry["turns"] for entry in embedded.entries)
            _embed_stage(embedded, graph, path.stem, limit_turns=limit_turns - turns)
    return embedded


def _drawn(scores: Iterable[Iterable[Scored]], limit_turns: int) -> set[str]:
    """Draws questions whose discussions have some `limit_turns` turns in all, one question at least."""
    turns: Counter[str] = Counter()
    for scored in chain.from_iterable(scores):
        # A turn took a call, or failed without one.
        turns[scored.question] += max(1, scored.calls + scored.failed_turns)
    questions: set[str] = set()
    # In the order of a hash, so the sample is not the first questions of the data set, and is the same every time.
    for question in sorted(turns, key=lambda question: (derive_seed("report", question), question)):
        limit_turns -= turns[question]
        # Stops at the first that does not fit: looking for a shorter one would favour short discussions.
        if limit_turns < 0 and questions:
            break
        questions.add(question)
    return questions


def _remarks(run: RunFolder) -> dict[tuple[str, str], Entry]:
    """Reads the parts of entries that judgements and explanations make, by method and question."""
    remarks: dict[tuple[str, str], Entry] = {}
    for line in judgement_records(run):
        grade = line.judgement
        remarks[line.method, line.question] = {"grade": grade.grade, "judged": grade.reason or grade.error}
    for explained in attribution.explained(run):
        effects = [effect for effect in explained.effects if effect.changed]
        explanation = {
            "by": explained.by,
            "cause": explained.cause,
            "turn": explained.turn,
            "suspects": explained.suspects,
            "turns": [(effect.of, effect.answer, effect.utility, effect.phi) for effect in effects],
        }
        remarks.setdefault((explained.method, explained.question), {})["explained"] = explanation
    return remarks


def _embed_stage(embedded: Embedded, graph: RunFolder, phase: str, limit_turns: int) -> None:
    """Embeds discussions of a stage of learning. They are drawn where they have more turns than the limit."""
    # All discussions of a stage have about as many turns as the first, so one is enough to estimate from.
    example = next(graph.traces(phase, only={0}), None)
    if example is None:
        return
    total = graph.count(phase)
    order = sorted(range(total), key=lambda place: derive_seed("report", phase, place))
    places = sorted(order[: max(0, limit_turns // max(1, len(example.turns)))])
    discussions = []
    for place, trace in zip(places, graph.traces(phase, only=set(places)), strict=True):
        # A question recurs in training, so the key is the discussion's number.
        entry = {"key": str(place + 1), "question": trace.question, "answer": trace.answer}
        discussions.append((entry | _outline(trace, place), trace))
    group = DiscussionGroup(
        name=f"{graph.name}.{phase}",
        label=f"learning {graph.name}, stage {phase.removeprefix('train-')}",
        file=f"learned/{graph.name}/traces/{phase}.jsonl",
        recorded=total,
        shown=len(places),
    )
    embedded.add(group, discussions, times_of_turns(graph, phase))


def scored_entry(scored: Scored) -> Entry:
    """Makes the score's part of an entry. It has `fooled` where an attack had a target answer."""
    entry: Entry = {}
    if scored.attack_success is not None:
        entry["fooled"] = scored.attack_success > 0
    # A question in whose discussion a call failed is in no mean and no comparison.
    if scored.failed_calls:
        entry["lost"] = True
    entry["key"] = scored.question
    for name in ("question", "text", "gold", "answer", "utility", "f1", "edges"):
        entry[name] = getattr(scored, name)
    return {**entry, "tags": dict(scored.tags)}


def _outline(trace: Trace, place: int) -> Entry:
    """Makes the trace's part of an entry. `line` is its line in the file of traces, from 1."""
    outline: Entry = {
        "line": place + 1,
        "sample": trace.sample,
        "turns": len(trace.turns),
        "calls": sum(turn.calls for turn in trace.turns),
        "tokens": sum(turn.tokens for turn in trace.turns),
        "failed": len([turn for turn in trace.turns if turn.status != "ok"]),
        "cut": len([turn for turn in trace.turns if turn.cut]),
        "tampered": len([turn for turn in trace.turns if turn.tampered]),
    }
    if is_attacked(trace):
        outline["attack"] = trace.attack or "attacked"
    # Zeros are left out to keep the index small; the page takes a missing value as zero.
    return {name: value for name, value in outline.items() if value or name == "turns"}


def is_attacked(trace: Trace) -> bool:
    """True for a discussion with a compromised agent, or with messages or sources of an attacker.

    An attack on a team's agents leaves a method that asks none of them as it is.
    """
    return bool(trace.attacked) or trace.planted > 0 or any(turn.tampered for turn in trace.turns)


def packed(value: Any) -> str:
    """Data for the browser, compressed."""
    return _compressed(json.dumps(value, separators=(",", ":")))


def _compressed(text: str) -> str:
    # Without a time stamp, so that one run gives one report.
    return base64.b64encode(gzip.compress(text.encode("ascii"), compresslevel=6, mtime=0)).decode("ascii")


def learned_graphs(run: RunFolder) -> list[dict[str, Any]]:
    """Returns each learned graph of a run: `name`, `agents`, `attacked` agents, and `steps`.

    A step has its `stage` and `step`, the number of `edges` left, and `probabilities` in per cent by kind, as matrices
    [sender, receiver] with None where there is no edge. Where a run has too many steps, each n-th one is kept, and the
    last of each stage.
    """
    folders = run.all_learned()
    graphs = []
    for folder in folders:
        steps = list(folder.learning())
        if steps:
            agents = steps[0].agents
            values = len(steps) * len(agents) ** 2 * len(steps[0].probabilities)
            interval = math.ceil(values * len(folders) / MOST_VALUES)
            graph = {
                "name": folder.name,
                "agents": agents,
                "attacked": attacked_agents(run, folder.name),
                "steps": _thinned(steps, interval),
            }
            graphs.append(graph)
    return graphs


def _thinned(steps: Sequence[LearningStep], interval: int) -> list[Entry]:
    last_steps = {step.stage: step for step in steps}
    thinned = []
    for step in steps:
        if step.step % interval == 0 or step is last_steps[step.stage]:
            entry = {
                "stage": step.stage,
                "step": step.step,
                "edges": sum(step.edges.values()),
                "probabilities": {kind: _per_cent(rows) for kind, rows in step.probabilities.items()},
            }
            thinned.append(entry)
    return thinned


def _per_cent(rows: Matrix) -> list[list[int | None]]:
    matrix = []
    for row in rows:
        matrix.append([None if share is None else round(100 * share) for share in row])
    return matrix


def attacked_agents(run: RunFolder, method: str) -> tuple[str, ...]:
    """Names the compromised agents of the first attacked discussion, of training (maybe shared) or evaluation."""
    phases = []
    for graph in run.all_learned():
        phases += [(graph, path.stem) for path in graph.training_traces()]
    phases.append((run, f"evaluate-{method}"))
    for folder, phase in phases:
        trace = next(folder.traces(phase, only={0}), None)
        if trace is not None and trace.attacked:
            return trace.attacked
    return ()
