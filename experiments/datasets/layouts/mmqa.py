"""The records of MultimodalQA's files, a line each."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import TypeAdapter

from experiments.datasets.layouts.fields import Answer, Id, Label, Many, Said, Text


@dataclass(frozen=True, slots=True)
class Metadata:
    type: Label
    modalities: Many[Label]
    text_doc_ids: Many[Id]
    image_doc_ids: Many[Id]
    table_id: Label | None


@dataclass(frozen=True, slots=True)
class Gold:
    answer: Answer


@dataclass(frozen=True, slots=True)
class Support:
    doc_id: Id


@dataclass(frozen=True, slots=True)
class AskedQuestion:
    """A line of MMQA_train.jsonl or MMQA_dev.jsonl."""

    qid: Id
    metadata: Metadata
    question: Said
    answers: Many[Gold]
    supporting_context: Many[Support]


@dataclass(frozen=True, slots=True)
class Passage:
    """A line of MMQA_texts.jsonl."""

    id: Id
    title: Text
    text: Text


@dataclass(frozen=True, slots=True)
class Picture:
    """A line of MMQA_images.jsonl; the generated sample alone has a description."""

    id: Id
    title: Text
    path: Text
    description: Text = ""


@dataclass(frozen=True, slots=True)
class Cell:
    text: Text


@dataclass(frozen=True, slots=True)
class Column:
    column_name: Text


@dataclass(frozen=True, slots=True)
class TableOfRows:
    table_rows: Many[Many[Cell]]
    table_name: Text
    header: Many[Column]


@dataclass(frozen=True, slots=True)
class Table:
    """A line of MMQA_tables.jsonl."""

    id: Id
    title: Text
    table: TableOfRows


QUESTION = TypeAdapter(AskedQuestion)
PASSAGE = TypeAdapter(Passage)
PICTURE = TypeAdapter(Picture)
TABLE = TypeAdapter(Table)
