"""Records of a run as Arrow tables that are read in batches: scores, discussions, turns, edges, learning, usage.

Columns are described in docs/python.md. A discussion is identified by `phase`, `method` and `line`, the number of its
line in the file of traces, from 1; its score by `method` and `question`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from actors.errors import UserError
from actors.messages import Status, Trace, Usage
from experiments.config.config import flat
from experiments.config.saved import read
from experiments.records import jsonl
from experiments.records.recorder import RunFolder
from experiments.records.records import LearningStep
from experiments.records.usage import by_phase

if TYPE_CHECKING:
    import pandas as pd

Row = tuple[Any, ...]
Discussions = Callable[[], Iterator[tuple[Row, Trace]]]  # each with its phase, method, line, question and sample

BATCH_ROWS = 4_096
TEXT, WHOLE, NUMBER, FLAG = pa.string(), pa.int64(), pa.float64(), pa.bool_()
TEXTS, NUMBERS = pa.list_(TEXT), pa.list_(NUMBER)
TAGS = pa.map_(TEXT, TEXT)
DISCUSSION = {"phase": TEXT, "method": TEXT, "line": WHOLE, "question": TEXT, "sample": WHOLE}
TOKENS = {"calls": WHOLE, "prompt_tokens": WHOLE, "completion_tokens": WHOLE}
# Columns of each table, in order, with their types. A column of `SCORES` is the field of `Scored` with its name, one of
# `TURNS` behind `turn` that of `Message`.
SETTINGS = {"key": TEXT, "value": TEXT}
METRICS = {
    **{"method": TEXT, "utility": NUMBER, "utility_low": NUMBER, "utility_high": NUMBER, "strict_em": NUMBER},
    **{"f1": NUMBER, "acc_star": NUMBER, "attack_success": NUMBER, "calls": NUMBER, "prompt_tokens": NUMBER},
    **{"completion_tokens": NUMBER, "edges": NUMBER, "turns": WHOLE, "failed_turns": WHOLE, "training_tokens": WHOLE},
}
TESTS = {
    **{"first": TEXT, "second": TEXT, "questions": WHOLE, "difference": NUMBER, "low": NUMBER, "high": NUMBER},
    **{"p_value": NUMBER, "p_holm": NUMBER, "wins": WHOLE, "losses": WHOLE},
}
SCORES = {
    **{"method": TEXT, "question": TEXT, "group": TEXT, "text": TEXT, "gold": TEXTS, "answer": TEXT},
    **{"utility": NUMBER, "f1": NUMBER, "strict_em": NUMBER, **TOKENS, "edges": WHOLE, "failed_turns": WHOLE},
    **{"failed_calls": WHOLE, "cut_turns": WHOLE, "attack_success": NUMBER, "infection": NUMBERS, "carried": NUMBERS},
    **{"path_precision": NUMBER, "path_recall": NUMBER, "edge_precision": NUMBER, "edge_recall": NUMBER},
    **{"path_count": WHOLE, "tags": TAGS},
}
DISCUSSIONS = {
    **DISCUSSION,
    **{"answer": TEXT, "status": TEXT, "turns": WHOLE, **TOKENS, "failed_turns": WHOLE, "agents": TEXTS},
    **{"decision": TEXTS, "evidence": TEXTS, "attack": TEXT, "attacked": TEXTS, "target": TEXT},
}
TURNS = {
    **{**DISCUSSION, "turn": TEXT, "agent": TEXT, "round": WHOLE, "answer": TEXT, "confidence": NUMBER},
    **{"content": TEXT, "status": TEXT, "error": TEXT, "heard": TEXTS, "tampered": TEXTS, "cut": TEXTS},
    **{"fields": pa.list_(pa.struct({"name": TEXT, "value": TEXT}.items())), "repair_tokens": WHOLE},
    **{**TOKENS, "seed": WHOLE},
}
EDGES = {**DISCUSSION, "kind": TEXT, "round": WHOLE, "sender": TEXT, "receiver": TEXT}
SEARCHES = {**DISCUSSION, "turn": TEXT, "base": TEXT, "query": TEXT, "found": TEXTS}
LEARNING = {
    **{"method": TEXT, "stage": WHOLE, "step": WHOLE, "source": TEXT},
    **{"terms": pa.map_(TEXT, NUMBER), "edges": pa.map_(TEXT, WHOLE)},
}
WEIGHTS = {
    **{"method": TEXT, "stage": WHOLE, "step": WHOLE, "kind": TEXT, "sender": TEXT, "receiver": TEXT},
    **{"probability": NUMBER},
}
USAGE = {
    **{"phase": TEXT, "phase_seconds": NUMBER, "agent": TEXT, **TOKENS},
    **{"cached_tokens": WHOLE, "reused": WHOLE, "reused_tokens": WHOLE},
}


@dataclass(frozen=True, slots=True)
class RecordTable:
    """A table whose rows are read from records each time it is asked for.

    Libraries that take Arrow streams (polars, DuckDB, pandas 3, pyarrow) read it without a copy in pandas.
    """

    schema: pa.Schema
    rows: Callable[[], Iterable[Row]]

    @classmethod
    def of(cls, columns: Mapping[str, Any], rows: Callable[[], Iterable[Row]]) -> RecordTable:
        """Makes a table of rows whose values are in the order of the columns."""
        return cls(pa.schema(columns.items()), rows)

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
    evaluated, training = partial(_evaluated, run), partial(_training, run)
    return {
        "settings": RecordTable.of(SETTINGS, partial(_settings, run)),
        "metrics": RecordTable.of(METRICS, partial(_metrics, run)),
        "tests": RecordTable.of(TESTS, partial(_tests, run)),
        "scores": RecordTable.of(SCORES, partial(_scores, run)),
        **_discussed(evaluated, ""),
        **_discussed(training, "training_"),
        "learning": RecordTable.of(LEARNING, partial(_learning, run)),
        "weights": RecordTable.of(WEIGHTS, partial(_weights, run)),
        "usage": RecordTable.of(USAGE, partial(_usage, run)),
    }


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


def together(parts: Sequence[tuple[Mapping[str, Any], RecordTable]]) -> RecordTable:
    """Joins the same table of several runs, with the settings of each run as its first columns.

    A column of settings has numbers, truth values or texts where all its values are such, and else JSON.
    """
    names = list(dict.fromkeys(name for settings, _ in parts for name in settings))
    columns = [pa.array(_alike([settings.get(name) for settings, _ in parts])) for name in names]
    schema = parts[0][1].schema
    first = [pa.field(name, column.type) for name, column in zip(names, columns, strict=True)]

    def rows() -> Iterator[Row]:
        for n, (_, table) in enumerate(parts):
            own = tuple(column[n].as_py() for column in columns)
            yield from (own + row for row in table.rows())

    return RecordTable(pa.schema([*first, *schema]), rows)


def _alike(values: Sequence[Any]) -> list[Any]:
    kinds = {type(value) for value in values if value is not None}
    if kinds <= {bool} or kinds <= {str} or kinds <= {int, float}:
        return list(values)
    return [value if isinstance(value, str) else json.dumps(value) for value in values]


def _discussed(discussions: Discussions, prefix: str) -> dict[str, RecordTable]:
    tables = {
        "discussions": (DISCUSSIONS, _discussion),
        "turns": (TURNS, _turns),
        "edges": (EDGES, _edges),
        "searches": (SEARCHES, _searches),
    }

    def rows(of: Callable[[Row, Trace], Iterable[Row]]) -> Iterator[Row]:
        for key, trace in discussions():
            yield from of(key, trace)

    return {f"{prefix}{name}": RecordTable.of(columns, partial(rows, of)) for name, (columns, of) in tables.items()}


def _evaluated(run: RunFolder) -> Iterator[tuple[Row, Trace]]:
    for path in jsonl.files(run.path / "traces", "evaluate-*.jsonl"):
        yield from _keyed(run, path.stem, "evaluate", path.stem.removeprefix("evaluate-"))


def _training(run: RunFolder) -> Iterator[tuple[Row, Trace]]:
    yield from _keyed(run, "calibrate", "calibrate", "full")
    for graph in run.all_learned():
        for path in graph.training_traces():
            yield from _keyed(graph, path.stem, path.stem, graph.name)


def _keyed(folder: RunFolder, file: str, phase: str, method: str) -> Iterator[tuple[Row, Trace]]:
    # In training a trace has the name of its phase in place of the method's.
    for line, trace in enumerate(folder.traces(file), start=1):
        yield (phase, method, line, trace.question, trace.sample), trace


def _discussion(key: Row, trace: Trace) -> Iterator[Row]:
    tokens = (sum(getattr(turn, name) for turn in trace.turns) for name in TOKENS)
    failed = sum(turn.status is not Status.OK for turn in trace.turns)
    rest = (trace.agents, trace.decision, trace.evidence, trace.attack, trace.attacked, trace.target)
    yield (*key, trace.answer, trace.status, len(trace.turns), *tokens, failed, *rest)


def _turns(key: Row, trace: Trace) -> Iterator[Row]:
    names = list(TURNS)[len(DISCUSSION) + 1 :]
    for turn in trace.turns:
        values = {name: getattr(turn, name) for name in names}
        values["fields"] = [{"name": name, "value": value} for name, value in turn.fields]
        yield (*key, turn.id, *values.values())


def _edges(key: Row, trace: Trace) -> Iterator[Row]:
    for kind in ("spatial", "temporal"):
        for number, sender, receiver in getattr(trace, kind):
            yield (*key, kind, number, trace.agents[sender], trace.agents[receiver])


def _searches(key: Row, trace: Trace) -> Iterator[Row]:
    for search in trace.lookups:
        yield (*key, search.of or None, search.base, search.query, search.found)


def _settings(run: RunFolder) -> Iterator[Row]:
    for key, value in flat(asdict(read(run.config))):
        yield key, json.dumps(value)


def _metrics(run: RunFolder) -> Iterator[Row]:
    found = results(run.metrics)
    judged = found.get("judged", {}).get("methods", {})
    for method, row in found.get("methods", {}).items():
        low, high = row.get("ci95") or (None, None)
        values = {**row, "method": method, "utility_low": low, "utility_high": high}
        values["acc_star"] = judged.get(method, {}).get("acc_star")
        yield tuple(values.get(name) for name in METRICS)


def _tests(run: RunFolder) -> Iterator[Row]:
    for pair, test in results(run.metrics).get("paired", {}).items():
        first, _, second = pair.partition(" vs ")
        low, high = test["ci95"]
        values = {**test, "first": first, "second": second, "questions": test["n"], "low": low, "high": high}
        yield tuple(values[name] for name in TESTS)


def _scores(run: RunFolder) -> Iterator[Row]:
    for scored in run.scores():
        yield (*(getattr(scored, name) for name in SCORES if name != "tags"), list(scored.tags.items()))


def _steps(run: RunFolder) -> Iterator[tuple[str, LearningStep]]:
    for graph in run.all_learned():
        for step in graph.learning():
            yield graph.name, step


def _learning(run: RunFolder) -> Iterator[Row]:
    for method, step in _steps(run):
        terms, edges = list(step.terms.items()), list(step.edges.items())
        yield method, step.stage, step.step, step.source or None, terms, edges


def _weights(run: RunFolder) -> Iterator[Row]:
    for method, step in _steps(run):
        for kind, matrix in step.probabilities.items():
            for sender, row in zip(step.agents, matrix, strict=True):
                for receiver, probability in zip(step.agents, row, strict=True):
                    if probability is not None:
                        yield method, step.stage, step.step, kind, sender, receiver, probability


def _usage(run: RunFolder) -> Iterator[Row]:
    names = list(USAGE)[3:]
    for phase, used in by_phase(run).items():
        # A phase without any call has its time all the same.
        for agent, usage in used.agents.items() or [(None, Usage())]:
            yield (phase, used.seconds, agent, *(getattr(usage, name) for name in names))
