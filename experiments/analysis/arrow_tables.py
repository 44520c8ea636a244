"""Tables of a run's records, for users and for summaries. Columns are listed in docs/python.md."""

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
from experiments.records.run_files import read_json
from experiments.records.usage import by_phase

if TYPE_CHECKING:
    import pandas as pd

Row = tuple[Any, ...]
Kinds = Mapping[str, Any]  # types of columns by name

BATCH_ROWS = 4_096


@dataclass(frozen=True, slots=True)
class RecordTable:
    """Table that reads its rows from records, each time it is asked.

    Libraries that take Arrow streams (polars, DuckDB, pyarrow) read it directly.
    """

    schema: pa.Schema
    rows: Callable[[], Iterable[Row]]

    def batches(self, rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        """Yields the rows in batches of at most `rows`. Raises UserError where a record is damaged."""
        remaining = iter(self.rows())
        try:
            while batch := list(islice(remaining, rows)):
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


def _kinds(record: type, names: str = "") -> dict[str, Any]:
    """Types of a record's fields by name, of all without `names`."""
    declared = fields_of(record)
    return {name: declared[name].kind for name in names.split() or declared}


def _arrow_type(kind: Any) -> pa.DataType:
    """Finds the Arrow type of a field's type."""
    origin = get_origin(kind)
    parts = get_args(kind)
    if origin in (Union, types.UnionType):
        return _arrow_type(parts[0])  # or None
    if origin is tuple and not get_args(parts[0]):
        return pa.list_(_arrow_type(parts[0]))
    if origin is tuple:
        # Pairs are a map, in which a name may occur several times.
        parts = get_args(parts[0])
    if parts:
        return pa.map_(*map(_arrow_type, parts))
    return {float: pa.float64(), int: pa.int64()}.get(kind, pa.string())


def _table(kinds: Kinds, rows: Callable[[], Iterable[Row]]) -> RecordTable:
    return RecordTable(pa.schema([(name, _arrow_type(kind)) for name, kind in kinds.items()]), rows)


_SUMS = ("calls", "prompt_tokens", "completion_tokens")
_METRICS = {
    "utility": float,
    "strict_em": float,
    "f1": float,
    "acc_star": float,
    "attack_success": float,
    "calls": float,
    "prompt_tokens": float,
    "completion_tokens": float,
    "edges": float,
    "tpr": float,
    "fpr": float,
    "auroc": float,
    "utility_lost": float,
    "turns": int,
    "failed_turns": int,
    "training_tokens": int,
}
_TESTS = {
    "n": int,
    "difference": float,
    "p_value": float,
    "p_holm": float,
    "wins": int,
    "losses": int,
}
_SCORE = _kinds(Scored)
_STEP = _kinds(LearningStep, "stage step source terms edges")
_USAGE = _kinds(Usage, "calls prompt_tokens cached_tokens completion_tokens reused reused_tokens")
_EDGE = {"kind": str, "sender": str, "receiver": str}
_DISCUSSION = _kinds(Trace, "answer status agents decision evidence attack attacked target")
_TURN = _kinds(Message)
_SEARCH = _kinds(Lookup, "of base query found")
_TRACE_KEY = {"phase": str, "method": str, "line": int, "question": str, "sample": int}


def _discussion_rows(trace: Trace) -> Iterator[Row]:
    sums = [sum(map(attrgetter(name), trace.turns)) for name in _SUMS]
    yield (*attrgetter(*_DISCUSSION)(trace), len(trace.turns), *sums)


def _turn_rows(trace: Trace) -> Iterable[Row]:
    return map(attrgetter(*_TURN), trace.turns)


def _edge_rows(trace: Trace) -> Iterator[Row]:
    for kind in ("spatial", "temporal"):
        for number, sender, receiver in getattr(trace, kind):
            yield number, kind, trace.agents[sender], trace.agents[receiver]


def _search_rows(trace: Trace) -> Iterable[Row]:
    return map(attrgetter(*_SEARCH), trace.lookups)


# Columns of the tables of discussions, and their rows in a discussion.
TRACE_TABLES: dict[str, tuple[Kinds, Callable[[Trace], Iterable[Row]]]] = {
    "discussions": ({**_DISCUSSION, **dict.fromkeys(("turns", *_SUMS), int)}, _discussion_rows),
    "turns": (_TURN, _turn_rows),
    "edges": ({"round": int, **_EDGE}, _edge_rows),
    "searches": (_SEARCH, _search_rows),
}


def trace_table(name: str, files: Callable[[], Iterable[tuple[str, str, Iterable[Trace]]]]) -> RecordTable:
    """Makes a table of `TRACE_TABLES` from the phase, method and discussions of each file."""
    kinds, rows_of = TRACE_TABLES[name]

    def rows() -> Iterator[Row]:
        for phase, method, traces in files():
            for line, trace in enumerate(traces, start=1):
                yield from ((phase, method, line, trace.question, trace.sample, *row) for row in rows_of(trace))

    return _table({**_TRACE_KEY, **kinds}, rows)


def _evaluated(run: RunFolder) -> Iterator[tuple[str, str, Iterable[Trace]]]:
    for path in jsonl.files(run.path / "traces", "evaluate-*.jsonl"):
        yield "evaluate", path.stem.removeprefix("evaluate-"), run.traces(path.stem)


def _trained(run: RunFolder) -> Iterator[tuple[str, str, Iterable[Trace]]]:
    yield "calibrate", "full", run.traces("calibrate")
    for graph in run.all_learned():
        for path in graph.training_traces():
            yield path.stem, graph.name, graph.traces(path.stem)


def _setting_rows(run: RunFolder) -> Iterator[Row]:
    for key, value in read(run.config).by_key.items():
        yield key, json.dumps(value)


def _metric_rows(run: RunFolder) -> Iterator[Row]:
    metrics = results(run.metrics)
    judgements = metrics.get("judged", {}).get("methods", {})
    for method, row in metrics.get("methods", {}).items():
        low, high = row["ci95"] or (None, None)
        values = {"acc_star": judgements.get(method, {}).get("acc_star"), **row}
        yield (method, low, high, *map(values.get, _METRICS))


def _test_rows(run: RunFolder) -> Iterator[Row]:
    for pair, test in results(run.metrics).get("paired", {}).items():
        yield (*pair.split(" vs "), *test["ci95"], *(test[name] for name in _TESTS))


def _score_rows(run: RunFolder) -> Iterator[Row]:
    return map(attrgetter(*_SCORE), run.scores())


def _steps(run: RunFolder) -> Iterator[tuple[str, LearningStep]]:
    for graph in run.all_learned():
        for step in graph.learning():
            yield graph.name, step


def _step_rows(run: RunFolder) -> Iterator[Row]:
    for method, step in _steps(run):
        yield (method, *attrgetter(*_STEP)(step))


def _weight_rows(run: RunFolder) -> Iterator[Row]:
    for method, step in _steps(run):
        for kind, matrix in step.probabilities.items():
            for sender, row in zip(step.agents, matrix, strict=True):
                for receiver, probability in zip(step.agents, row, strict=True):
                    if probability is not None:
                        yield method, step.stage, step.step, kind, sender, receiver, probability


def _usage_rows(run: RunFolder) -> Iterator[Row]:
    for phase, phase_usage in by_phase(run).items():
        # A phase without any call has its time all the same.
        for agent, usage in phase_usage.agents.items() or [(None, Usage())]:
            yield (phase, phase_usage.seconds, agent, *attrgetter(*_USAGE)(usage))


_INTERVAL = {"low": float, "high": float}
# Columns of each table, and its rows in a run folder.
_RUN_TABLES: dict[str, tuple[Kinds, Callable[[RunFolder], Iterable[Row]]]] = {
    "settings": ({"key": str, "value": str}, _setting_rows),
    "metrics": ({"method": str, **_INTERVAL, **_METRICS}, _metric_rows),
    "tests": ({"first": str, "second": str, **_INTERVAL, **_TESTS}, _test_rows),
    "scores": (_SCORE, _score_rows),
    "learning": ({"method": str, **_STEP}, _step_rows),
    "weights": (
        {
            "method": str,
            "stage": int,
            "step": int,
            **_EDGE,
            "probability": float,
        },
        _weight_rows,
    ),
    "usage": ({"phase": str, "phase_seconds": float, "agent": str, **_USAGE}, _usage_rows),
}


def run_tables(run: RunFolder) -> dict[str, RecordTable]:
    """Makes the tables of a run folder, by name. Nothing is read before a table is asked for."""
    tables = {name: _table(kinds, partial(rows, run)) for name, (kinds, rows) in _RUN_TABLES.items()}
    for name in TRACE_TABLES:
        tables[name] = trace_table(name, partial(_evaluated, run))
        tables[f"training_{name}"] = trace_table(name, partial(_trained, run))
    return tables


def together(parts: Sequence[tuple[Mapping[str, Any], RecordTable]]) -> RecordTable:
    """Joins the same table of several runs. Each run's settings are the first columns.

    A column of settings has truth values, numbers or texts where all its values are such, and else JSON.
    """
    columns = {}
    for name in parts[0][0]:
        values = [settings[name] for settings, _ in parts]
        kinds = {type(value) for value in values if value is not None}
        if not (kinds <= {bool} or kinds <= {str} or kinds <= {int, float}):
            values = [json.dumps(value) for value in values]
        columns[name] = pa.array(values)

    def rows() -> Iterator[Row]:
        for number, (_, table) in enumerate(parts):
            settings = tuple(column[number].as_py() for column in columns.values())
            yield from (settings + row for row in table.rows())

    setting_fields = [pa.field(name, column.type) for name, column in columns.items()]
    return RecordTable(pa.schema([*setting_fields, *parts[0][1].schema]), rows)


def results(path: Path) -> dict[str, Any]:
    """Reads metrics.json or a file like it. Empty before the run's end. Raises UserError for a damaged one."""
    if not path.exists():
        return {}
    return read_json(path)
