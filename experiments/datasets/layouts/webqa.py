"""The questions of WebQA's file, one JSON object by question."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field, Strict, TypeAdapter

from experiments.datasets.layouts.fields import Id, Label, Many, Said, Text


@dataclass(frozen=True, slots=True)
class Snippet:
    snippet_id: Id
    title: Text
    fact: Text


@dataclass(frozen=True, slots=True)
class Picture:
    """Its id is a number: its place in imgs.tsv and the name of its file are made of it."""

    image_id: Annotated[int, Strict(), Field(ge=0, lt=2**63)]
    title: Text
    caption: Text


@dataclass(frozen=True, slots=True)
class AskedQuestion:
    """`A` has the answers as sentences, and `Keywords_A` words that an answer has to have, or a placeholder."""

    split: Label
    Guid: Id
    Q: Said
    A: Many[Text]
    Qcate: Label
    txt_posFacts: Many[Snippet]
    img_posFacts: Many[Picture]
    txt_negFacts: Many[Snippet] = ()
    img_negFacts: Many[Picture] = ()
    Keywords_A: Text = ""


QUESTION = TypeAdapter(AskedQuestion)
