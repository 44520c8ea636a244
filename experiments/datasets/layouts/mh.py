"""The rows of MH-Benchmark's question list, and of the sheets of its knowledge graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from experiments.datasets.layouts.fields import Id, Label, Said, Text

# The release numbers its kinds of questions.
Task = Literal["0", "1", "2", "3", "4", "5"]


@dataclass(frozen=True, slots=True)
class AskedQuestion:
    """A row of question_list.xlsx, by its columns."""

    file: Annotated[Id, Field(alias="File")]
    image: Annotated[Label, Field(alias="Image")]
    question: Annotated[Said, Field(alias="Question")]
    monster: Annotated[Id, Field(alias="Monster Name")]
    extra: Annotated[Text, Field(alias="Extra Information")]
    perception: Annotated[Text, Field(alias="Perception")]
    route: Annotated[Label, Field(alias="Search Route")]
    answer: Annotated[Said, Field(alias="Answer")]
    task: Annotated[Task, Field(alias="Type")]


@dataclass(frozen=True, slots=True)
class NodeRow:
    """A row of a monster's Node.xlsx: an entity."""

    name: Label
    picture: Label
    video: Text
    caption: Text
    information: Text


@dataclass(frozen=True, slots=True)
class RelationRow:
    """A row of a monster's Relations.xlsx: an edge."""

    head: Label
    relation: Label
    information: Text
    condition: Label
    tail: Label


QUESTION = TypeAdapter(AskedQuestion)
NODE, RELATION = TypeAdapter(NodeRow), TypeAdapter(RelationRow)
