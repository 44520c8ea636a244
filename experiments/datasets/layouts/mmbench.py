"""The rows of MMBench's files."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from pydantic import AfterValidator, Field, StringConstraints, TypeAdapter

from experiments.datasets.layouts.fields import Label, Said, Text, like

# Ten digits are more than any row of four rotations needs.
Index = Annotated[str, like(r"^[0-9]{1,10}$", "a number"), AfterValidator(lambda index: str(int(index)))]


@dataclass(frozen=True, slots=True)
class Row:
    """`image` is base64 or the index of another row; columns that a file may lack are empty."""

    index: Index
    question: Said
    A: Said
    B: Text
    answer: Label
    image: Text = field(repr=False)
    C: Text = ""
    D: Text = ""
    hint: Annotated[Text, StringConstraints(strip_whitespace=True)] = ""
    category: Label = ""
    ability: Annotated[Label, Field(alias="l2-category")] = ""

    @property
    def choices(self) -> tuple[str, ...]:
        """Questions with two or three choices leave the other columns empty."""
        return tuple(choice for choice in (self.A, self.B, self.C, self.D) if choice)


ROW = TypeAdapter(Row)
