"""Records of a run, each a typed line of JSON: traces, training steps, scored answers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from functools import cache
from typing import Annotated, Any, ClassVar, Self, TypeVar

import numpy as np
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from actors.messages import Status, Trace
from experiments.attacks.attack_metrics import Harm
from experiments.datasets.item import Item, Score
from experiments.metrics.answer_metrics import path_metrics

T = TypeVar("T")

# Numbers only as numbers, no NaN, no other fields.
STRICT = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

Share = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=0, lt=2**63)]
FileName = Annotated[str, Field(pattern=r"^\w[\w.,=+-]*$", max_length=250)]
"""A name that is part of a file's or a folder's, and leads nowhere else."""


def read_record(kind: TypeAdapter[T], line: str) -> T:
    """Reads a line of JSON as a dataclass. Raises ValueError, of one line, with the first wrong field."""
    try:
        if "\\ud" not in line.lower():
            return kind.validate_json(line)
        # Halves of surrogate pairs are JSON but no text for pydantic: they become question marks.
        return kind.validate_json(json.dumps(json.loads(line), ensure_ascii=False).encode(errors="replace"))
    except ValidationError as error:
        first: Any = error.errors(include_url=False, include_input=False)[0]
        field = ".".join(map(str, first["loc"]))
        raise ValueError(f"{field + ': ' if field else ''}{first['msg']}") from None


class Record:
    """Record whose form is one line of JSON. A subclass is a frozen dataclass with slots.

    SPARSE: fields that a line lacks where they have these values.
    """

    __slots__ = ()
    __pydantic_config__: ClassVar[ConfigDict] = STRICT
    SPARSE: ClassVar[Mapping[str, Any]] = {}

    def encode(self) -> str:
        """One line of ASCII JSON without its newline. Parts of it without their fields at the default."""
        names: Iterable[str] = self.__slots__
        line = {name: value for name in names if (value := getattr(self, name)) != self.SPARSE.get(name, MISSING)}
        return json.dumps(line, separators=(",", ":"), default=_plain)

    @classmethod
    def decode(cls, line: str) -> Self:
        """Reads an encoded line. Fields that it lacks take their defaults. Raises ValueError for any other line."""
        if cls not in _ADAPTERS:
            _ADAPTERS[cls] = TypeAdapter(cls)
        record: Self = read_record(_ADAPTERS[cls], line)
        record.check()
        return record

    def check(self) -> None:
        """Raises ValueError for values that the types of fields do not exclude."""


_ADAPTERS: dict[type[Record], TypeAdapter[Any]] = {}  # pydantic compiles a validator for each


_fields = cache(fields)  # slow, and every message of a run passes here


def _plain(value: Any) -> dict[str, Any]:
    """Returns a mapping as JSON has it, or a dataclass without fields at their default."""
    if isinstance(value, Mapping):
        return dict(value)
    return {f.name: own for f in _fields(value.__class__) if (own := getattr(value, f.name)) != f.default}


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
        if not [len(trace.agents)] * len(trace.weights) == [*map(len, trace.weights)] == [*map(len, trace.suspicion)]:
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
        n = len(self.agents)
        if len(self.modalities) != n or any(
            len(rows) != n or any(len(row) != n for row in rows) for rows in self.probabilities.values()
        ):
            raise ValueError(f"expected modalities and matrices of {n} agents")


def matrix(probabilities: np.ndarray, mask: np.ndarray) -> Matrix:
    """Rounds edge probabilities [N, N] to four digits for a record. They are None where `mask` [N, N] is zero."""
    return [
        [round(p, 4) if present else None for p, present in zip(row, present_row, strict=True)]
        for row, present_row in zip(probabilities.tolist(), mask.tolist(), strict=True)
    ]


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
            # Without the round (an edge is round, sender, receiver), so an edge of several rounds counts once.
            edges=sum(len({edge[1:] for edge in taken}) for taken in (trace.spatial, trace.temporal)),
            failed_turns=sum(turn.status is not Status.OK for turn in trace.turns),
            cut_turns=sum(bool(turn.cut) for turn in trace.turns),
            tags=item.tags,
            attack_success=harm.success if harm else None,
            infection=harm.infection if harm else (),
            carried=harm.carried if harm else (),
            **path_metrics(trace.paths, item.paths),
            group=item.group,
            strict_em=score.strict_em,
            path_count=None if trace.paths is None else len(trace.paths),
            failed_calls=sum(turn.status is Status.FAILED for turn in trace.turns),
            certified=trace.certified,
            cluster=item.cluster,
        )


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
        strict = [member.strict_em for member in members if member.strict_em is not None]
        certified = [member.certified for member in members if member.certified is not None]
        yield replace(
            members[0],
            question=group,
            utility=min(member.utility for member in members),
            f1=min(member.f1 for member in members),
            # The least of some of them may not be the least of all.
            strict_em=min(strict) if len(strict) == len(members) else None,
            certified=min(certified) if len(certified) == len(members) else None,
            **{name: sum(getattr(member, name) for member in members) for name in SUMMED},
        )
