"""Records of a run as Arrow tables that are read in batches: scores, discussions, turns, edges, learning, usage.

Columns are described in docs/python.md; those of a table of records are the record's fields. A discussion is identified
by `phase`, `method` and `line`, the number of its line in the file of traces, from 1.
"""

from __future__ import annotations

import json
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import islice
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union, get_args, get_origin

import pyarrow as pa

from actors.errors import UserError
from actors.messages import Lookup, Message, Trace, Usage
from experiments.config.config import flat
from experiments.config.saved import read
from experiments.config.values import fields_of
from experiments.records import jsonl
from experiments.records.recorder import RunFolder
from experiments.records.records import LearningStep, Scored
from experiments.records.usage import by_phase

if TYPE_CHECKING:
    import pandas as pd

Row = tuple[Any, ...]
Rows = Iterator[Row]

BATCH_ROWS = 4_096
SUMS = ("calls", "prompt_tokens", "completion_tokens")
METRICS = (
    "utility strict_em f1 acc_star attack_success calls prompt_tokens completion_tokens edges turns failed_turns "
    "training_tokens"
).split()
TESTS = "n difference p_value p_holm wins losses".split()


@dataclass(frozen=True, slots=True)
class RecordTable:
    """A table whose rows are read from records each time it is asked for.

    Libraries that take Arrow streams (polars, DuckDB, pyarrow) read it directly.
    """

    schema: pa.Schema
    rows: Callable[[], Iterable[Row]]

    def batches(self, rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        """Yields the rows in batches of at most `rows`. Raises UserError where a record is damaged."""
        left = iter(self.rows())
        try:
            while batch := list(islice(left, rows)):
                columns = zip(*batch, strict=True)
                arrays = [pa.array(column, kind) for column, kind in zip(columns, self.schema.types, strict=True)]
                yield pa.RecordBatch.from_arrays(arrays, schema=self.schema)
        # Of metrics.json, or of a trace whose edges lead to no agent; Arrow's errors are among these as well.
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise UserError(f"damaged records ({type(error).__name__}: {error}); {jsonl.DAMAGED}") from error

    def reader(self, rows: int = BATCH_ROWS) -> pa.RecordBatchReader:
        """Returns a reader of `batches`, for tables that no memory holds."""
        return pa.RecordBatchReader.from_batches(self.schema, self.batches(rows))

    def to_arrow(self) -> pa.Table:
        """Reads the whole table."""
        return pa.Table.from_batches(self.batches(), self.schema)

    def to_pandas(self) -> pd.DataFrame:
        """Reads the whole table as a pandas frame."""
        return self.to_arrow().to_pandas()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.reader().__arrow_c_stream__(requested_schema)


def run_tables(run: RunFolder) -> dict[str, RecordTable]:
    """The tables of a run folder by name; nothing is read before a table is asked for."""

    def table(rows: Callable[[RunFolder], Iterable[Row]], columns: Mapping[str, Any]) -> RecordTable:
        return RecordTable(pa.schema([(name, _arrow(hint)) for name, hint in columns.items()]), partial(rows, run))

    weight = {"method": str, "stage": int, "step": int, "kind": str, "sender": str, "receiver": str}
    interval = {"low": float, "high": float}
    counts = dict.fromkeys(("turns", "failed_turns", "training_tokens", "n", "wins", "losses"), int)
    measures, tested = ({name: counts.get(name, float) for name in names} for names in (METRICS, TESTS))
    return {
        "settings": table(_settings, {"key": str, "value": str}),
        "metrics": table(_metrics, {"method": str, **interval, **measures}),
        "tests": table(_tests, {"first": str, "second": str, **interval, **tested}),
        "scores": table(lambda run: map(_of_score, run.scores()), _fields(Scored)),
        **{
            f"{prefix}{name}": table(partial(_of_traces, traces, of), columns)
            for prefix, traces in (("", _evaluated), ("training_", _training))
            for name, (of, columns) in _DISCUSSED.items()
        },
        "learning": table(_learning, {"method": str, **_fields(LearningStep, _STEP)}),
        "weights": table(_weights, {**weight, "probability": float}),
        "usage": table(_usage, {"phase": str, "phase_seconds": float, "agent": str, **_fields(Usage, _USED)}),
    }


def together(parts: Sequence[tuple[Mapping[str, Any], RecordTable]]) -> RecordTable:
    """Joins the same table of several runs, with the settings of each run as its first columns.

    A column of settings has truth values, numbers or texts where all its values are such, and else JSON.
    """
    columns = {}
    for name in parts[0][0]:
        values = [settings[name] for settings, _ in parts]
        kinds = {type(value) for value in values if value is not None}
        alike = kinds <= {bool} or kinds <= {str} or kinds <= {int, float}
        columns[name] = pa.array(values if alike else [json.dumps(value) for value in values])

    def rows() -> Rows:
        for n, (_, table) in enumerate(parts):
            own = tuple(column[n].as_py() for column in columns.values())
            yield from (own + row for row in table.rows())

    first = [pa.field(name, column.type) for name, column in columns.items()]
    return RecordTable(pa.schema([*first, *parts[0][1].schema]), rows)


def results(path: Path) -> dict[str, Any]:
    """The content of metrics.json or a study's file like it; empty before the run's end.

    Raises UserError where it is damaged.
    """
    try:
        content = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise UserError(f"{path}: not JSON ({error}); {jsonl.DAMAGED}") from error
    if not isinstance(content, dict):
        raise UserError(f"{path}: expected keys and values; {jsonl.DAMAGED}")
    return content


def _arrow(hint: Any) -> pa.DataType:
    """The Arrow type of a field's type."""
    parts = get_args(hint)
    if get_origin(hint) in (Union, types.UnionType):
        return _arrow(parts[0])  # or None
    if get_origin(hint) is tuple:
        # Pairs are a map, in which a name may occur several times.
        return pa.map_(*map(_arrow, get_args(parts[0]))) if get_args(parts[0]) else pa.list_(_arrow(parts[0]))
    if parts:
        return pa.map_(*map(_arrow, parts))
    return pa.float64() if hint is float else pa.int64() if hint is int else pa.string()


def _fields(kind: type, names: Sequence[str] = ()) -> dict[str, Any]:
    """Types of a record's fields by name; of all of them without `names`."""
    known = fields_of(kind)
    return {name: known[name].kind for name in names or known}


_STEP = ("stage", "step", "source", "terms", "edges")
_TRACE = ("answer", "status", "agents", "decision", "evidence", "attack", "attacked", "target")
_FOUND = ("of", "base", "query", "found")


_USED = ("calls", "prompt_tokens", "cached_tokens", "completion_tokens", "reused", "reused_tokens")
_of_score, _of_turn = (attrgetter(*_fields(kind)) for kind in (Scored, Message))
_of_step, _of_trace, _of_search, _of_usage = (attrgetter(*names) for names in (_STEP, _TRACE, _FOUND, _USED))


def _discussion(trace: Trace) -> Rows:
    sums = (sum(getattr(turn, name) for turn in trace.turns) for name in SUMS)
    yield (*_of_trace(trace), len(trace.turns), *sums)


def _edges(trace: Trace) -> Rows:
    for kind in ("spatial", "temporal"):
        for number, sender, receiver in getattr(trace, kind):
            yield kind, number, trace.agents[sender], trace.agents[receiver]


_KEY = {"phase": str, "method": str, "line": int, "question": str, "sample": int}
_DISCUSSED: dict[str, tuple[Callable[[Trace], Iterable[Row]], dict[str, Any]]] = {
    "discussions": (_discussion, {**_KEY, **_fields(Trace, _TRACE), **dict.fromkeys(("turns", *SUMS), int)}),
    "turns": (lambda trace: map(_of_turn, trace.turns), {**_KEY, **_fields(Message)}),
    "edges": (_edges, {**_KEY, "kind": str, "round": int, "sender": str, "receiver": str}),
    "searches": (lambda trace: map(_of_search, trace.lookups), {**_KEY, **_fields(Lookup, _FOUND)}),
}


def _of_traces(
    traces: Callable[[RunFolder], Iterable[tuple[RunFolder, str, str, str]]],
    of: Callable[[Trace], Iterable[Row]],
    run: RunFolder,
) -> Rows:
    for folder, file, phase, method in traces(run):
        for line, trace in enumerate(folder.traces(file), start=1):
            key = (phase, method, line, trace.question, trace.sample)
            yield from (key + row for row in of(trace))


def _evaluated(run: RunFolder) -> Iterator[tuple[RunFolder, str, str, str]]:
    for path in jsonl.files(run.path / "traces", "evaluate-*.jsonl"):
        yield run, path.stem, "evaluate", path.stem.removeprefix("evaluate-")


def _training(run: RunFolder) -> Iterator[tuple[RunFolder, str, str, str]]:
    yield run, "calibrate", "calibrate", "full"
    for graph in run.all_learned():
        for path in graph.training_traces():
            yield graph, path.stem, path.stem, graph.name


def _settings(run: RunFolder) -> Rows:
    return ((key, json.dumps(value)) for key, value in flat(asdict(read(run.config))))


def _metrics(run: RunFolder) -> Rows:
    found = results(run.metrics)
    judged = found.get("judged", {}).get("methods", {})
    for method, row in found.get("methods", {}).items():
        values = {**row, **judged.get(method, {}), "utility": row["utility"]}
        yield (method, *(row["ci95"] or (None, None)), *(values.get(name) for name in METRICS))


def _tests(run: RunFolder) -> Rows:
    for pair, test in results(run.metrics).get("paired", {}).items():
        yield (*pair.split(" vs "), *test["ci95"], *(test[name] for name in TESTS))


def _learning(run: RunFolder) -> Rows:
    return ((graph.name, *_of_step(step)) for graph in run.all_learned() for step in graph.learning())


def _weights(run: RunFolder) -> Rows:
    for graph in run.all_learned():
        for step in graph.learning():
            for kind, matrix in step.probabilities.items():
                for sender, row in zip(step.agents, matrix, strict=True):
                    for receiver, p in zip(step.agents, row, strict=True):
                        if p is not None:
                            yield graph.name, step.stage, step.step, kind, sender, receiver, p


def _usage(run: RunFolder) -> Rows:
    for phase, used in by_phase(run).items():
        # A phase without any call has its time all the same.
        for agent, usage in used.agents.items() or [(None, Usage())]:
            yield (phase, used.seconds, agent, *_of_usage(usage))
