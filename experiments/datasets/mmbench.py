"""MMBench (Liu et al. 2024): one picture, one question and its choices, asked once for every rotation of them.

The folder holds one development file as the authors release it (MMBench_DEV_EN.tsv, MMBench_DEV_CN_V11.tsv, ...), with
the columns index, question, hint, A, B, ..., answer, category, l2-category and image, the picture in base64. Every
column of one capital letter is a choice. The answer is the letter of a column; blank ones are no choices.

Circular evaluation: a question with n choices is asked n times, its choices moved on by one each time, and is right
only when every answer is. In the release a rotation is a row: its index is one, two or three million higher, and its
image may be the index of the row that holds the picture. A question with a single row is rotated here in the same way.
All items of one question have its index as their `group`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from string import ascii_uppercase
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, TypeAdapter

from actors.errors import UserError
from actors.messages import Kind, Question, Source
from experiments.datasets.benchmark import SingleSplit, write_picture
from experiments.datasets.fields import Label, NonBlank, Stripped, Text, matching
from experiments.datasets.item import Item
from experiments.datasets.reading import each, placed, read_table

ROTATION = 1_000_000  # from a row's index to that of its next rotation
REFERENCE = 64  # characters: a shorter image is the index of another row, since base64 is longer

# Ten digits are more than any row of four rotations needs.
Index = Annotated[str, matching(r"^[0-9]{1,10}$", "a number"), AfterValidator(lambda index: str(int(index)))]


@dataclass(frozen=True, slots=True)
class MmBenchRow:
    """`image` is base64 or the index of another row. Columns that a file may lack are empty."""

    index: Index
    question: NonBlank
    A: Text
    B: Text
    answer: Label
    image: Text = field(repr=False)
    options: Mapping[str, Text] = field(default_factory=dict)
    hint: Stripped = ""
    category: Label = ""
    ability: Annotated[Label, Field(alias="l2-category")] = ""

    @property
    def group(self) -> str:
        """Index of the question's first rotation."""
        return str(int(self.index) % ROTATION)


# Columns of one capital letter are choices, unless they are blank.
ROW = TypeAdapter(
    Annotated[
        MmBenchRow,
        BeforeValidator(lambda row: row | {"options": {c: row[c] for c in ascii_uppercase if row.get(c, "").strip()}}),
    ]
)


class MmBench(SingleSplit):
    """Evaluates every question in all its rotations, and trains on first rotations."""

    name = "mmbench"
    metric = "accuracy"
    release = "the MMBench_DEV_*.tsv files that github.com/open-compass/MMBench links (its test files have no answers)"
    pictures = "checked"

    @cached_property
    def groups(self) -> dict[str, tuple[Item, ...]]:
        groups: dict[str, list[Item]] = {}
        for item in each(read_table(self.file, ROW, quoted=True), item_of):
            groups.setdefault(item.group, []).append(item)
        whole: dict[str, tuple[Item, ...]] = {}
        for group, (first, *others) in groups.items():
            # As in the authors' script, a rotation without its question's first row is left out.
            if first.question.id != group:
                continue
            text, choices = first.question.text, first.question.choices
            rotations = [
                Question(str(int(group) + turn * ROTATION), text, choices[turn:] + choices[:turn])
                for turn in range(len(choices))
            ]
            whole[group] = (first, *others) if others else tuple(replace(first, question=one) for one in rotations)
        if not whole:
            raise UserError(f"{self.file} has no questions: copy {self.release}")
        return whole

    def sources(self) -> Iterator[Source]:
        """Hint and picture of every question. The picture is written to the cache."""
        files: dict[str, Path] = {}
        for where, row in read_table(self.file, ROW, quoted=True):
            if row.index not in self.groups:
                continue  # a rotation has the picture and hint of its question's first row
            hint, picture = own_docs(row.index)
            if row.hint:
                yield Source(hint, hint, Kind.TEXT, "Hint", row.hint)
            file = files.get(row.image, self.request.cache / "mmbench" / f"{self.file.stem}-{row.index}.jpg")
            if row.image not in files:
                with placed(where):
                    # A reference to an earlier row was found in `files`, by its index.
                    if len(row.image) <= REFERENCE:
                        raise UserError(f"no row before it holds the picture {row.image}")
                    write_picture(file, row.image)
            files[row.index] = file
            yield Source(picture, picture, Kind.IMAGE, "Picture", "", str(file))

    @cached_property
    def file(self) -> Path:
        files = [file for file in self.folder.files() if file.suffix == ".tsv"]
        if len(files) != 1:
            names = ", ".join(file.name for file in files) or "none"
            raise UserError(f"{self.folder} must hold one .tsv file, found {names}: copy one of {self.release} there")
        return files[0]


def item_of(row: MmBenchRow) -> Item:
    """Makes the item of one row. Raises UserError for an answer that is not the letter of a choice."""
    if row.answer not in row.options:
        raise UserError(f"answer {row.answer!r} of {len(row.options)} choices: expected the letter of one")
    choices = tuple(row.options.values())
    hint, picture = own_docs(row.group)
    own = (hint, picture) if row.hint else (picture,)
    return Item(
        question=Question(row.index, row.question, choices),
        gold=(row.options[row.answer],),
        pool=own,
        supporting=own,
        own=own,
        tags={"ability": row.ability, "skill": row.category},
        group=row.group,
        # One row holds a picture, and others refer to that row.
        cluster=row.image if len(row.image) <= REFERENCE and row.index == row.group else "",
    )


def own_docs(group: str) -> tuple[str, str]:
    """Documents of a question's hint and of its picture."""
    return f"{group}:hint", f"{group}:image"
