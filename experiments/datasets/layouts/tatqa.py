"""The reports of TAT-QA's files, elements of one list."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import PlainValidator, StrictInt, TypeAdapter
from pydantic_core import PydanticCustomError

from experiments.datasets.layouts.fields import Id, Label, Many, Said, Text, answer_text


def _answers(value: Any) -> tuple[str, ...]:
    """Spans are a list (empty ones are dropped), counts a text, computed answers a number."""
    texts = value if isinstance(value, list) else [answer_text(value)]
    gold = tuple(text for text in texts if isinstance(text, str) and text.strip())
    if not gold or not all(isinstance(text, str) for text in texts):
        raise PydanticCustomError("answers", "an answer (text, a number or a list of texts) that is not empty")
    return gold


@dataclass(frozen=True, slots=True)
class Table:
    uid: Id
    table: Many[Many[Text]]


@dataclass(frozen=True, slots=True)
class Paragraph:
    uid: Id
    order: StrictInt
    text: Text


@dataclass(frozen=True, slots=True)
class AskedQuestion:
    """`answer` has the gold answers, at least one; `rel_paragraphs` the orders of paragraphs, as texts."""

    uid: Id
    question: Said
    answer: Annotated[tuple[str, ...], PlainValidator(_answers)]
    answer_type: Label
    answer_from: Label
    scale: Label
    rel_paragraphs: Many[Label]


@dataclass(frozen=True, slots=True)
class Report:
    table: Table
    paragraphs: Many[Paragraph]
    questions: Many[AskedQuestion]


REPORT = TypeAdapter(Report)
