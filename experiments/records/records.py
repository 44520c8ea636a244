"""Records of a run, each a typed line of JSON: traces, training steps, scored answers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self, TypeVar

import numpy as np
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from actors.messages import Status, Trace
from experiments.attacks.attack_metrics import Harm
from experiments.datasets.item import Item, Score
from experiments.metrics.answer_metrics import path_metrics
from experiments.records import jsonl

T = TypeVar("T")

# Numbers only as numbers, no NaN, no other fields.
STRICT = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

Share = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=0, lt=2**63)]
FileName = Annotated[str, Field(pattern=r"^\w[\w.,=+-]*$", max_length=250)]
"""A name that is part of a file's or a folder's, and leads nowhere else."""


def read_record(adapter: TypeAdapter[T], line: str) -> T:
    """Reads a line of JSON as a dataclass. Raises ValueError, of one line, with the first wrong field."""
    try:
        if "\\ud" not in line.lower():
            return adapter.validate_json(line)
        # Halves of surrogate pairs are JSON but no text for pydantic: they become question marks.
        return adapter.validate_json(json.dumps(json.loads(line), ensure_ascii=False).encode(errors="replace"))
    except ValidationError as error:
        raise ValueError(first_problem(error)) from None


def first_problem(error: ValidationError) -> str:
    """Describes the first wrong field in one line."""
    problem: Any = error.errors(include_url=False, include_input=False)[0]
    return ": ".join(filter(None, [".".join(map(str, problem["loc"])), problem["msg"]]))


class Record:
    """Record whose form is one line of JSON. A subclass is a frozen dataclass with slots.

    SPARSE: fields that a line lacks where they have these values.
    REMEDY: ends the error about a line that cannot be read.
    """

    __slots__ = ()
    __pydantic_config__: ClassVar[ConfigDict] = STRICT
    SPARSE: ClassVar[Mapping[str, Any]] = {}
    REMEDY: ClassVar[str] = jsonl.DAMAGED

    def encode(self) -> str:
        """One line of ASCII JSON without its newline. Parts of it without their fields at the default."""
        values: dict[str, Any] = {}
        names: Iterable[str] = self.__slots__
        for name in names:
            value = getattr(self, name)
            if value != self.SPARSE.get(name, MISSING):
                values[name] = value
        return json.dumps(values, separators=(",", ":"), default=_plain, check_circular=False)

    @classmethod
    def decode(cls, line: str) -> Self:
        """Reads an encoded line. Fields that it lacks take their defaults. Raises ValueError for any other line."""
        adapter: TypeAdapter[Self] = _adapter(cls)  # type: ignore[arg-type]  # mypy takes no class for hashable
        record = read_record(adapter, line)
        record.check()
        return record

    @classmethod
    def read(cls, path: Path) -> Iterator[Self]:
        """Reads the complete lines of a file, none where it is missing. Raises UserError for any other line."""
        return jsonl.records(path, cls.decode, cls.REMEDY)

    def check(self) -> None:
        """Raises ValueError for values that the types of fields do not exclude."""


@cache
def _adapter(kind: type[Record]) -> TypeAdapter[Any]:
    return TypeAdapter(kind)  # pydantic compiles a validator for each


_fields = cache(fields)  # slow, and every message of a run passes here


def _plain(value: Any) -> dict[str, Any]:
    """Returns a mapping as JSON has it, or a dataclass without fields at their default."""
    if isinstance(value, Mapping):
        return dict(value)
    plain: dict[str, Any] = {}
    for each in _fields(value.__class__):
        part = getattr(value, each.name)
        if part != each.default:
            plain[each.name] = part
    return plain


def encode_trace(trace: Trace) -> str:
    """Encodes a trace as a line of JSON, without fields at their default. Raises ValueError for NaN and infinity."""
    # Without `allow_nan=False` Python writes NaN, which other readers of JSON refuse.
    return json.dumps(_plain(trace), separators=(",", ":"), default=_plain, allow_nan=False)


def decode_trace(line: str) -> Trace:
    """Reads the trace that `encode_trace` wrote. Raises ValueError when the line is anything else."""
    try:
        (trace,) = read_record(_TRACE, f"[{line}]")
        for kind in ("spatial", "temporal", "allowed_spatial", "allowed_temporal"):
            if any(min(edge) < 0 for edge in getattr(trace, kind)):
                raise ValueError(f"{kind}: expected numbers of rounds and agents")
        rows = [*trace.weights, *trace.suspicion]
        if len(trace.weights) != len(trace.suspicion) or any(len(row) != len(trace.agents) for row in rows):
            raise ValueError("suspicion, weights: expected a number for each agent and round")
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not a trace: {error} in {line[:80]!r}") from error
    return trace


# In a tuple: a trace's class knows nothing of pydantic, and takes the configuration of what it is part of.
_TRACE = TypeAdapter(tuple[Trace], config=STRICT)


Matrix = list[list[Share | None]]

# Fields of a group that are the sum over its questions.
SUMMED = ("prompt_tokens", "completion_tokens", "calls", "edges", "failed_turns", "cut_turns", "failed_calls")


@dataclass(frozen=True, slots=True)
class LearningStep(Record):
    """Learner after `step` training steps of a stage. Step 0 is the stage's start.

    agents, modalities: names of rows and columns.
    terms: terms of the objective by name.
    edges: edges left per matrix.
    probabilities: matrices [sender, receiver] by kind (`spatial`, `temporal`; `spatial, round 1` and so on where
        each round has weights), with None where there is no edge.
    source: the method with whose discussions it learned, if they were not its own.
    confirmed: what a confirmation that ended with this step chose, in words; doubts: reasons to doubt the graph.
    """

    stage: Count
    step: Count
    agents: tuple[str, ...]
    modalities: tuple[str, ...]
    terms: Mapping[str, float]
    edges: Mapping[str, Count]
    probabilities: Mapping[str, Matrix]
    source: str = ""
    confirmed: str = ""
    doubts: tuple[str, ...] = ()
    SPARSE: ClassVar[Mapping[str, Any]] = {"source": "", "confirmed": "", "doubts": ()}

    def check(self) -> None:
        size = len(self.agents)
        is_square = all(
            len(matrix) == size and set(map(len, matrix)) <= {size} for matrix in self.probabilities.values()
        )
        if len(self.modalities) != size or not is_square:
            raise ValueError(f"expected modalities and matrices of {size} agents")


def matrix(probabilities: np.ndarray, mask: np.ndarray) -> Matrix:
    """Rounds edge probabilities [N, N] to four digits for a record. They are None where `mask` [N, N] is zero."""
    rows: Matrix = []
    for values, present in zip(probabilities.tolist(), mask.tolist(), strict=True):
        rows.append([round(value, 4) if exists else None for value, exists in zip(values, present, strict=True)])
    return rows


@dataclass(frozen=True, slots=True)
class Scored(Record):
    """One method's answer to one question, with its label, scores and cost.

    edges: distinct edges, spatial and temporal, that the discussion used in any round.
    failed_turns: turns that failed or could not be parsed.
    failed_calls: those of them whose model or agent failed. With one, the question is in no mean and no comparison.
    cut_turns: turns without some of their evidence, because the prompt would not have fitted the model's context.
    attack_success, infection, carried: see `attacks.metrics.Harm`; only for an attack with a target.
    path_precision, path_recall, edge_precision, edge_recall: see `path_metrics`; only for a method that follows
        paths, of which it found `path_count`.
    group: the question of which this one is a variant.
    cluster: the item's; empty where it is the question itself, and in old records.
    strict_em: the score's; None in old records.
    certified: the trace's; None without a certificate.
    """

    method: FileName
    question: str
    text: str
    gold: tuple[str, ...]
    answer: str | None
    utility: Share
    f1: Share
    prompt_tokens: Count
    completion_tokens: Count
    calls: Count
    edges: Count
    failed_turns: Count
    cut_turns: Count = 0
    tags: Mapping[str, str] = field(default_factory=dict)
    attack_success: Share | None = None
    infection: tuple[Share, ...] = ()
    carried: tuple[Share, ...] = ()
    path_precision: Share | None = None
    path_recall: Share | None = None
    edge_precision: Share | None = None
    edge_recall: Share | None = None
    group: str = ""
    strict_em: Share | None = None
    path_count: Count | None = None
    failed_calls: Count = 0
    certified: Count | None = None
    cluster: str = ""
    SPARSE: ClassVar[Mapping[str, Any]] = {"failed_calls": 0, "certified": None, "cluster": ""}

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens

    @staticmethod
    def of(trace: Trace, item: Item, score: Score, harm: Harm | None = None) -> Scored:
        """Raises ValueError when trace and item are not of the same question."""
        if trace.question != item.question.id:
            raise ValueError(f"a trace of question {trace.question!r} was scored as {item.question.id!r}")

        statuses = [turn.status for turn in trace.turns]
        attack_success: float | None = None
        infection: tuple[float, ...] = ()
        carried: tuple[float, ...] = ()
        if harm:
            attack_success = harm.success
            infection = harm.infection
            carried = harm.carried

        return Scored(
            method=trace.method,
            question=trace.question,
            text=item.question.text,
            gold=item.gold,
            answer=trace.answer,
            utility=score.utility,
            f1=score.f1,
            prompt_tokens=sum(turn.prompt_tokens for turn in trace.turns),
            completion_tokens=sum(turn.completion_tokens for turn in trace.turns),
            calls=sum(turn.calls for turn in trace.turns),
            edges=len(_ends(trace.spatial)) + len(_ends(trace.temporal)),
            failed_turns=len(statuses) - statuses.count(Status.OK),
            cut_turns=len([turn for turn in trace.turns if turn.cut]),
            tags=item.tags,
            attack_success=attack_success,
            infection=infection,
            carried=carried,
            **path_metrics(trace.paths, item.paths),
            group=item.group,
            strict_em=score.strict_em,
            path_count=None if trace.paths is None else len(trace.paths),
            failed_calls=statuses.count(Status.FAILED),
            certified=trace.certified,
            cluster=item.cluster,
        )


def _ends(edges: Iterable[tuple[int, int, int]]) -> set[tuple[int, int]]:
    """Sender and receiver of each edge, without its round: an edge of several rounds counts once."""
    return {(sender, receiver) for _, sender, receiver in edges}


def by_question(scores: Iterable[Scored]) -> Iterator[Scored]:
    """Yields one record per method and question, the unit of means and tests. A group becomes one record.

    Its question is the group's name, with the lowest score and the summed cost of its questions and the first one's
    other fields. Groups come last.
    """
    groups: dict[tuple[str, str], list[Scored]] = {}
    for scored in scores:
        if scored.group:
            groups.setdefault((scored.method, scored.group), []).append(scored)
        else:
            yield scored

    # Only after the last record is a group known to be complete.
    for (_, group), members in groups.items():
        sums = {name: sum(getattr(member, name) for member in members) for name in SUMMED}
        yield replace(
            members[0],
            question=group,
            utility=min(member.utility for member in members),
            f1=min(member.f1 for member in members),
            strict_em=_least([member.strict_em for member in members]),
            certified=_least([member.certified for member in members]),
            **sums,
        )


def _least(values: Sequence[Any]) -> Any:
    """Returns the least value. None where one is missing: the least of some may not be the least of all."""
    return None if None in values else min(values)
