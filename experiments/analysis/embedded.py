"""Discussions and learned graphs in a run's report: an index to search and filter, and compressed chunks of traces.

Everything is base64 of gzipped ASCII JSON, so no message can be taken for markup. Seeds and candidate edges are left
out; the traces on disk have them. The index also has the titles of sources and how methods agree.
"""

import base64
import gzip
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from typing import Any

from actors.messages import Trace, derive_seed
from experiments.judging import judgements
from experiments.records import attribution
from experiments.records.recorder import RunFolder
from experiments.records.records import Scored, encode_trace
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

    An entry's `chunk` and `place` locate its trace. `named` are ids of sources that the traces name, `sources` their
    titles by id, and `pairs` the `agreement` of methods.
    """

    groups: list[DiscussionGroup] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)
    chunks: list[str] = field(default_factory=list)
    named: set[str] = field(default_factory=set)
    sources: dict[str, str] = field(default_factory=dict)
    pairs: list[dict[str, Any]] = field(default_factory=list)

    def index(self) -> str:
        """Everything but the traces for the browser, compressed."""
        groups = [asdict(group) for group in self.groups]
        return packed({"groups": groups, "entries": self.entries, "sources": self.sources, "pairs": self.pairs})

    def add(self, group: DiscussionGroup, discussions: Iterable[tuple[Entry, Trace]], times: Times) -> None:
        """Adds a group's discussions in their order, with the times of their turns."""
        self.groups.append(group)
        chunk: list[str] = []
        turns = 0
        for entry, trace in discussions:
            # The chunk is written only once it is full.
            self.entries.append({"group": group.name, "chunk": len(self.chunks), "place": len(chunk), **entry})
            # Without what the report does not show: seeds in particular hardly compress.
            unseeded = tuple(replace(turn, seed=0) for turn in trace.turns)
            bare = replace(trace, seed=0, turns=unseeded, allowed_spatial=(), allowed_temporal=())
            chunk.append(timed(encode_trace(bare), times.get((trace.question, trace.sample))))
            found = (lookup.found for lookup in trace.lookups)
            ids = chain(trace.evidence, *found, *(turn.cut for turn in trace.turns))
            # The id of a triple begins with its source's.
            self.named.update(id.partition("#")[0] for id in ids)
            turns += len(trace.turns)
            if turns >= CHUNK_TURNS:
                self.chunks.append(_compressed(f"[{','.join(chunk)}]"))
                chunk, turns = [], 0
        if chunk:
            self.chunks.append(_compressed(f"[{','.join(chunk)}]"))


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
    scores: dict[str, list[Scored]] = {method: [] for method in methods}
    turns: Counter[str] = Counter()
    for scored in run.scores():
        if scored.method in scores:
            scores[scored.method].append(scored)
            # A turn took a call, or failed without one.
            turns[scored.question] += max(1, scored.calls + scored.failed_turns)
    chosen, room = set[str](), limit_turns
    # In the order of a hash, so the sample is not the first questions of the data set, and is the same every time.
    for question in sorted(turns, key=lambda question: (derive_seed("report", question), question)):
        room -= turns[question]
        # Stops at the first that does not fit: looking for a shorter one would favour short discussions.
        if room < 0 and chosen:
            break
        chosen.add(question)
    explained = {(each.method, each.question): each for each in attribution.explained(run)}
    grades = {(j.method, j.question): j.judgement for j in judgements.judged(run) if j.question in chosen}
    for method, recorded in scores.items():
        # A method's scores and traces are recorded in one order.
        places = [number for number, scored in enumerate(recorded) if scored.question in chosen]
        shown = []
        for number, trace in zip(places, run.traces(f"evaluate-{method}", only=set(places)), strict=True):
            entry = scored_entry(recorded[number]) | _outline(trace, number)
            if judgement := grades.get((method, recorded[number].question)):
                entry |= {"grade": judgement.grade, "judged": judgement.reason or judgement.error}
            if why := explained.get((method, recorded[number].question)):
                changed = [(each.of, each.answer, each.utility, each.phi) for each in why.effects if each.changed]
                entry["explained"] = {name: getattr(why, name) for name in ("by", "agent", "turn", "suspects")}
                entry["explained"]["turns"] = changed
            shown.append((entry, trace))
        shown.sort(key=lambda pair: str(pair[0]["question"]))
        file = f"traces/evaluate-{method}.jsonl"
        group = DiscussionGroup(method, method, file, len(recorded), len(shown))
        embedded.add(group, shown, times_of_turns(run, f"evaluate-{method}"))
    stages = ((graph, path.stem) for graph in run.all_learned() for path in graph.training_traces())
    for folder, phase in stages:
        # All discussions of a stage have about as many turns as the first, so one is enough to estimate from.
        if not (first := next(folder.traces(phase, only={0}), None)):
            continue
        held, room = folder.count(phase), limit_turns - sum(entry["turns"] for entry in embedded.entries)
        # Drawn by their place alone.
        drawn = sorted(range(held), key=lambda number: derive_seed("report", phase, number))
        numbers = sorted(drawn[: max(0, room // max(1, len(first.turns)))])
        # A question recurs in training, so the key is the discussion's number.
        discussions = (
            ({"key": str(n + 1), "question": trace.question, "answer": trace.answer} | _outline(trace, n), trace)
            for n, trace in zip(numbers, folder.traces(phase, only=set(numbers)), strict=True)
        )
        label = f"learning {folder.name}, stage {phase.removeprefix('train-')}"
        file = f"learned/{folder.name}/traces/{phase}.jsonl"
        group = DiscussionGroup(f"{folder.name}.{phase}", label, file, held, len(numbers))
        embedded.add(group, discussions, times_of_turns(folder, phase))
    return embedded


def scored_entry(scored: Scored) -> Entry:
    """Makes the score's part of an entry. It has `fooled` where an attack had a target answer."""
    fooled = {} if scored.attack_success is None else {"fooled": scored.attack_success > 0}
    fields = {name: getattr(scored, name) for name in ("question", "text", "gold", "answer", "utility", "f1", "edges")}
    # A question in whose discussion a call failed is in no mean and no comparison.
    lost = {"lost": True} if scored.failed_calls else {}
    return {**fooled, **lost, "key": scored.question, **fields, "tags": dict(scored.tags)}


def _outline(trace: Trace, number: int) -> Entry:
    """Makes the trace's part of an entry. `line` is its line in the file of traces, from 1."""
    outline: Entry = {
        "line": number + 1,
        "sample": trace.sample,
        "turns": len(trace.turns),
        "calls": sum(turn.calls for turn in trace.turns),
        "tokens": sum(turn.tokens for turn in trace.turns),
        "failed": sum(turn.status != "ok" for turn in trace.turns),
        "cut": sum(bool(turn.cut) for turn in trace.turns),
        "tampered": sum(bool(turn.tampered) for turn in trace.turns),
    }
    if trace.attack or trace.attacked:
        outline["attack"] = trace.attack or "attacked"
    # Zeros are left out to keep the index small; the page takes a missing value as zero.
    return {name: value for name, value in outline.items() if value or name == "turns"}


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
        if not (steps := list(folder.learning())):
            continue
        values = len(steps) * len(steps[0].agents) ** 2 * len(steps[0].probabilities)
        every = -(-values * len(folders) // MOST_VALUES)
        last = {one.stage: one for one in steps}
        kept = []
        for step in (one for one in steps if one.step % every == 0 or one is last[one.stage]):
            matrices = {
                kind: [[None if p is None else round(100 * p) for p in row] for row in rows]
                for kind, rows in step.probabilities.items()
            }
            edges = sum(step.edges.values())
            kept.append({"stage": step.stage, "step": step.step, "edges": edges, "probabilities": matrices})
        name, agents = folder.path.name, steps[0].agents
        graphs.append({"name": name, "agents": agents, "attacked": attacked_agents(run, name), "steps": kept})
    return graphs


def attacked_agents(run: RunFolder, method: str) -> tuple[str, ...]:
    """Names the compromised agents of the first attacked discussion, of training (maybe shared) or evaluation."""
    phases = [(folder, path.stem) for folder in run.all_learned() for path in folder.training_traces()]
    first = (next(folder.traces(phase, only={0}), None) for folder, phase in [*phases, (run, f"evaluate-{method}")])
    return next((trace.attacked for trace in first if trace and trace.attacked), ())
