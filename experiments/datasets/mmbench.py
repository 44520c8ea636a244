"""MMBench (Liu et al. 2024): one picture, one question and its choices, asked once for every rotation of them.

The folder holds one development file as the authors release it (MMBench_DEV_EN.tsv, MMBench_DEV_CN_V11.tsv, ...), with
the columns index, question, hint, A, B, ..., answer, category, l2-category and image, the picture in base64. Every
column of one capital letter is a choice. The answer is the letter of a column; blank ones are no choices.

Circular evaluation: a question with n choices is asked n times, its choices moved on by one each time, and is right
only when every answer is. In the release a rotation is a row: its index is one, two or three million higher, and its
image may be the index of the row that holds the picture. A question with a single row is rotated here in the same way.
All items of one question have its index as their `group`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from string import ascii_uppercase
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints, TypeAdapter

from actors.errors import UserError
from actors.messages import UNTITLED_HINT, UNTITLED_PICTURE, Question, Source
from experiments.datasets.benchmark import SingleSplit, image_source, text_source, write_picture
from experiments.datasets.fields import Label, NonBlank, Stripped, Text
from experiments.datasets.item import Item
from experiments.datasets.reading import each, placed, read_table

ROTATION = 1_000_000  # from a row's index to that of its next rotation
REFERENCE = 64  # characters: a shorter image is the index of another row, since base64 is longer

# Ten digits are more than any row of four rotations needs.
Index = Annotated[str, StringConstraints(pattern=r"^[0-9]{1,10}$"), AfterValidator(lambda index: str(int(index)))]


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

    @property
    def is_reference(self) -> bool:
        """True where another row has the picture."""
        return len(self.image) <= REFERENCE

    @property
    def hint_doc(self) -> str:
        return f"{self.group}:hint"

    @property
    def image_doc(self) -> str:
        return f"{self.group}:image"


def with_options(row: dict[str, Any]) -> dict[str, Any]:
    """Adds the choices: the columns of one capital letter, unless they are blank."""
    options: dict[str, str] = {}
    for letter in ascii_uppercase:
        choice = row.get(letter, "")
        if choice.strip():
            options[letter] = choice
    return row | {"options": options}


ROW = TypeAdapter(Annotated[MmBenchRow, BeforeValidator(with_options)])


class MmBench(SingleSplit):
    """Evaluates every question in all its rotations, and trains on first rotations."""

    name = "mmbench"
    metric = "accuracy"
    release = "the MMBench_DEV_*.tsv files that github.com/open-compass/MMBench links (its test files have no answers)"
    packed = True

    @cached_property
    def groups(self) -> dict[str, Sequence[Item]]:
        rows: dict[str, list[Item]] = {}
        for item in each(read_table(self.file, ROW, quoted=True), item_of):
            rows.setdefault(item.group, []).append(item)
        groups: dict[str, Sequence[Item]] = {}

        for group, items in rows.items():
            # As in the authors' script, a rotation without its question's first row is left out.
            if items[0].question.id == group:
                groups[group] = items if len(items) > 1 else rotations(items[0])

        if not groups:
            raise UserError(f"{self.file} has no questions: copy {self.release}")
        return groups

    def sources(self) -> Iterator[Source]:
        """Hint and picture of every question. The picture has a file once it is unpacked."""
        files: dict[str, Path] = {}
        for where, row in read_table(self.file, ROW, quoted=True):
            if row.index not in self.groups:
                continue  # a rotation has the picture and hint of its question's first row

            if row.hint:
                yield text_source(row.hint_doc, UNTITLED_HINT, row.hint)
            # A reference to an earlier row is found by its index.
            file = files.get(row.image)
            if file is None:
                file = self.picture_file(row)
                if row.is_reference:
                    raise UserError(f"{where}: no row before it holds the picture {row.image}")

            files[row.index] = file
            yield image_source(row.image_doc, UNTITLED_PICTURE, "", file)

    def unpack(self, pictures: Iterable[Source]) -> None:
        missing_files = {source.image for source in pictures if source.image and not Path(source.image).is_file()}
        if not missing_files:
            return
        for where, row in read_table(self.file, ROW, quoted=True):
            file = self.picture_file(row)
            if str(file) in missing_files:
                with placed(where):
                    write_picture(file, row.image)

    def picture_file(self, row: MmBenchRow) -> Path:
        return self.request.cache / "mmbench" / f"{self.file.stem}-{row.index}.jpg"

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

    docs = (row.hint_doc, row.image_doc) if row.hint else (row.image_doc,)
    # One row holds a picture, and others refer to that row.
    shares_picture = row.is_reference and row.index == row.group
    return Item(
        question=Question(row.index, row.question, tuple(row.options.values())),
        gold=(row.options[row.answer],),
        pool=docs,
        supporting=docs,
        own=docs,
        tags={"ability": row.ability, "skill": row.category},
        group=row.group,
        cluster=row.image if shares_picture else "",
    )


def rotations(item: Item) -> list[Item]:
    """Makes an item for each rotation of the choices."""
    choices = item.question.choices
    items: list[Item] = []
    for turn in range(len(choices)):
        id = str(int(item.group) + turn * ROTATION)
        rotated = Question(id, item.question.text, choices[turn:] + choices[:turn])
        items.append(replace(item, question=rotated))
    return items
