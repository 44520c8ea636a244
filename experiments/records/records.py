"""The two kinds of record beside traces: a training step of the learner, and a scored answer."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from pydantic import ConfigDict, TypeAdapter

from actors.messages import Status, Trace
from experiments.attacks.metrics import Harm
from experiments.datasets.item import Item, Score
from experiments.metrics.paths import path_metrics
from experiments.records.schema import STRICT, Count, FileName, Share, read_record

Matrix = list[list[Share | None]]

# Fields of a group that are the sum over its questions.
SUMMED = ("prompt_tokens", "completion_tokens", "calls", "edges", "failed_turns", "cut_turns")


@dataclass(frozen=True, slots=True)
class LearningStep:
    """The learner after `step` training steps of a stage; step 0 is where the stage starts.

    `terms` are the terms of the objective by name, `edges` the edges left per matrix, and `probabilities` the
    matrices themselves ([sender, receiver], None where there is no edge), by kind: `spatial`, `temporal`, and where
    rounds have weights of their own also `spatial, round 1` and so on.
    `agents` and `modalities` name rows and columns. `source` is the method whose discussions it learned from; empty
    where they were its own.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    stage: Count
    step: Count
    agents: tuple[str, ...]
    modalities: tuple[str, ...]
    terms: Mapping[str, float]
    edges: Mapping[str, Count]
    probabilities: Mapping[str, Matrix]
    source: str = ""

    def encode(self) -> str:
        fields = asdict(self)
        if not self.source:
            del fields["source"]
        return json.dumps(fields, separators=(",", ":"))

    @staticmethod
    def decode(line: str) -> LearningStep:
        step = read_record(_STEP, line)
        n = len(step.agents)
        if len(step.modalities) != n or any(
            len(rows) != n or any(len(row) != n for row in rows) for rows in step.probabilities.values()
        ):
            raise ValueError(f"expected modalities and matrices of {n} agents")
        return step


def matrix(probabilities: np.ndarray, mask: np.ndarray) -> Matrix:
    """Edge probabilities [N, N] as a record holds them: rounded to four digits, None where `mask` [N, N] is zero."""
    return [
        [round(p, 4) if present else None for p, present in zip(row, present_row, strict=True)]
        for row, present_row in zip(probabilities.tolist(), mask.tolist(), strict=True)
    ]


@dataclass(frozen=True, slots=True)
class Scored:
    """One method's answer to one question, with the label beside it, and what the answer cost.

    `edges` counts the distinct edges, spatial and temporal, that the discussion took in any of its rounds, and
    `failed_turns` the turns that gave others nothing to read: failed or not parsed. `cut_turns` are those that were
    asked without some of their evidence, because their prompt would not have fitted the model's context.
    `attack_success`, `infection` and `carried` are those of `attacks.metrics.Harm`, where the attack had a target,
    and path and edge precision and recall those of `path_metrics`, where the method followed paths; `path_count` is how
    many it found.
    `group` is the item's: the question that this one is a variant of. `strict_em` is the score's, None also in records
    that were written before it was kept.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

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
        )

    def encode(self) -> str:
        # asdict would copy `tags` by its own type, which a loader may have made read-only.
        fields: dict[str, Any] = {name: getattr(self, name) for name in self.__slots__} | {"tags": dict(self.tags)}
        return json.dumps(fields, separators=(",", ":"))

    @staticmethod
    def decode(line: str) -> Scored:
        # Fields that older records lack take their defaults.
        return read_record(_SCORED, line)


# Built once: pydantic compiles a validator for each.
_STEP, _SCORED = TypeAdapter(LearningStep), TypeAdapter(Scored)


def by_question(scores: Iterable[Scored]) -> Iterator[Scored]:
    """One record per method and question, the unit of means and tests; questions of one group become one record.

    It has the group's name, the lowest score and the summed cost of its questions, and all else of the first one.
    Grouped questions come after the others.
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
        yield replace(
            members[0],
            question=group,
            utility=min(member.utility for member in members),
            f1=min(member.f1 for member in members),
            # The least of some of them may not be the least of all.
            strict_em=min(strict) if len(strict) == len(members) else None,
            **{name: sum(getattr(member, name) for member in members) for name in SUMMED},
        )
