"""Records of a run as Arrow tables that are read in batches. docs/python.md describes their columns.

Columns are fields of records. `phase`, `method` and `line`, the number of its line of traces, identify a discussion.
"""

from __future__ import annotations

import json
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union, get_args, get_origin

import pyarrow as pa

from actors.errors import UserError
from actors.messages import Lookup, Message, Trace, Usage
from experiments.config.keys import fields_of
from experiments.config.saved import read
from experiments.records import jsonl
from experiments.records.recorder import RunFolder
from experiments.records.records import LearningStep, Scored
from experiments.records.usage import by_phase

if TYPE_CHECKING:
    import pandas as pd

Rows = Iterator[tuple[Any, ...]]
RowsOf = Callable[[Any], Iterable[Any]]

BATCH_ROWS = 4_096


def _records(kind: type, names: str = "") -> tuple[RowsOf, dict[str, Any]]:
    """Returns a function that reads a record's fields, and their types by name. Without `names` it reads all."""
    known = fields_of(kind)
    columns = {name: known[name].kind for name in names.split() or known}
    return attrgetter(*columns), columns


_of_score, _SCORE = _records(Scored)
_of_turn, _TURN = _records(Message)
_of_search, _SEARCH = _records(Lookup, "of base query found")
_of_trace, _TRACE = _records(Trace, "answer status agents decision evidence attack attacked target")
_of_step, _STEP = _records(LearningStep, "stage step source terms edges")
_of_usage, _USAGE = _records(Usage, "calls prompt_tokens cached_tokens completion_tokens reused reused_tokens")
_SUMS = ("calls", "prompt_tokens", "completion_tokens")
_METRICS = {
    **dict.fromkeys(("utility", "strict_em", "f1", "acc_star", "attack_success", *_SUMS, "edges"), float),
    **dict.fromkeys(("tpr", "fpr", "auroc", "utility_lost"), float),
    **dict.fromkeys(("turns", "failed_turns", "training_tokens"), int),
}
_TESTS = {"n": int, "difference": float, "p_value": float, "p_holm": float, "wins": int, "losses": int}


@dataclass(frozen=True, slots=True)
class RecordTable:
    """Table that reads its rows from records, each time it is asked.

    Libraries that take Arrow streams (polars, DuckDB, pyarrow) read it directly.
    """

    schema: pa.Schema
    rows: Callable[[], Iterable[tuple[Any, ...]]]

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
    """Makes the tables of a run folder, by name. Nothing is read before a table is asked for."""
    ends = {"kind": str, "sender": str, "receiver": str}
    discussed: dict[str, tuple[RowsOf, Mapping[str, Any]]] = {
        "discussions": (
            lambda trace: [
                (*_of_trace(trace), len(trace.turns), *(sum(getattr(t, name) for t in trace.turns) for name in _SUMS))
            ],
            {**_TRACE, **dict.fromkeys(("turns", *_SUMS), int)},
        ),
        "turns": (lambda trace: map(_of_turn, trace.turns), _TURN),
        "edges": (
            lambda trace: (
                (number, kind, trace.agents[sender], trace.agents[receiver])
                for kind in ("spatial", "temporal")
                for number, sender, receiver in getattr(trace, kind)
            ),
            {"round": int, **ends},
        ),
        "searches": (lambda trace: map(_of_search, trace.lookups), _SEARCH),
    }
    key = {"phase": str, "method": str, "line": int, "question": str, "sample": int}
    tables: dict[str, tuple[RowsOf, Mapping[str, Any]]] = {
        "settings": (
            lambda run: ((key, json.dumps(value)) for key, value in read(run.config).by_key.items()),
            {"key": str, "value": str},
        ),
        "metrics": (_metrics, {"method": str, "low": float, "high": float, **_METRICS}),
        "tests": (
            lambda run: (
                (*pair.split(" vs "), *test["ci95"], *(test[name] for name in _TESTS))
                for pair, test in results(run.metrics).get("paired", {}).items()
            ),
            {"first": str, "second": str, "low": float, "high": float, **_TESTS},
        ),
        "scores": (lambda run: map(_of_score, run.scores()), _SCORE),
        **{
            f"{prefix}{name}": (partial(_of_traces, of, bool(prefix)), {**key, **own})
            for prefix in ("", "training_")
            for name, (of, own) in discussed.items()
        },
        "learning": (
            lambda run: ((graph.name, *_of_step(step)) for graph in run.all_learned() for step in graph.learning()),
            {"method": str, **_STEP},
        ),
        "weights": (
            lambda run: (
                (graph.name, step.stage, step.step, kind, sender, receiver, probability)
                for graph in run.all_learned()
                for step in graph.learning()
                for kind, matrix in step.probabilities.items()
                for sender, row in zip(step.agents, matrix, strict=True)
                for receiver, probability in zip(step.agents, row, strict=True)
                if probability is not None
            ),
            {"method": str, "stage": int, "step": int, **ends, "probability": float},
        ),
        "usage": (
            lambda run: (
                (phase, used.seconds, agent, *_of_usage(usage))
                for phase, used in by_phase(run).items()
                # A phase without any call has its time all the same.
                for agent, usage in used.agents.items() or [(None, Usage())]
            ),
            {"phase": str, "phase_seconds": float, "agent": str, **_USAGE},
        ),
    }
    return {
        name: RecordTable(pa.schema([(column, _arrow(kind)) for column, kind in columns.items()]), partial(rows, run))
        for name, (rows, columns) in tables.items()
    }


def together(parts: Sequence[tuple[Mapping[str, Any], RecordTable]]) -> RecordTable:
    """Joins the same table of several runs. Each run's settings are the first columns.

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
    """Reads metrics.json or a file like it. Empty before the run's end. Raises UserError for a damaged one."""
    if not path.exists():
        return {}
    return jsonl.decoded(path, 1, path.read_bytes(), lambda text: {**json.loads(text)}, jsonl.DAMAGED)


def _arrow(kind: Any) -> pa.DataType:
    """Finds the Arrow type of a field's type."""
    parts = get_args(kind)
    if get_origin(kind) in (Union, types.UnionType):
        return _arrow(parts[0])  # or None
    if get_origin(kind) is tuple:
        # Pairs are a map, in which a name may occur several times.
        return pa.map_(*map(_arrow, get_args(parts[0]))) if get_args(parts[0]) else pa.list_(_arrow(parts[0]))
    if parts:
        return pa.map_(*map(_arrow, parts))
    return pa.float64() if kind is float else pa.int64() if kind is int else pa.string()


def _of_traces(of: RowsOf, training: bool, run: RunFolder) -> Rows:
    if training:
        learned = [(graph, path.stem) for graph in run.all_learned() for path in graph.training_traces()]
        files = [(run, "calibrate", "calibrate", "full"), *((graph, name, name, graph.name) for graph, name in learned)]
    else:
        names = [path.stem for path in jsonl.files(run.path / "traces", "evaluate-*.jsonl")]
        files = [(run, name, "evaluate", name.removeprefix("evaluate-")) for name in names]
    for folder, file, phase, method in files:
        for line, trace in enumerate(folder.traces(file), start=1):
            yield from ((phase, method, line, trace.question, trace.sample, *row) for row in of(trace))


def _metrics(run: RunFolder) -> Rows:
    found = results(run.metrics)
    for method, row in found.get("methods", {}).items():
        judged = found.get("judged", {}).get("methods", {}).get(method, {})
        values = {"acc_star": judged.get("acc_star"), **row}
        yield (method, *(row["ci95"] or (None, None)), *map(values.get, _METRICS))
