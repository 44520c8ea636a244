"""MMBench (Liu et al. 2024): one picture, one question, two to four choices, asked once for every rotation of them.

The folder holds one development file as the authors release it (MMBench_DEV_EN.tsv, MMBench_DEV_CN_V11.tsv, ...), with
the columns index, question, hint, A to D, answer, category, l2-category and image, the picture in base64. Circular
evaluation: a question with n choices is asked n times, its choices moved on by one each time, and is right only when
every answer is. In the release a rotation is a row of its own: its index is one, two or three million higher, and its
image may be the index of the row that holds the picture. A question with a single row is rotated here in the same way.
All items of one question have its index as their `group`.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from string import ascii_uppercase

from actors.errors import UserError
from actors.messages import Kind, Question, Source
from experiments.datasets.encoded import write_picture
from experiments.datasets.files import from_record, read_table
from experiments.datasets.folder import Folder
from experiments.datasets.item import Item, Score
from experiments.datasets.kind import DataRequest, DatasetKind
from experiments.datasets.layouts.fields import checked_value
from experiments.datasets.layouts.mmbench import ROW, Row
from experiments.datasets.subset import parted
from experiments.metrics.text import choice_of

RELEASE = "the MMBench_DEV_*.tsv files that github.com/open-compass/MMBench links"
ROTATION = 1_000_000  # from a row's index to that of its next rotation
# An image of at most so many characters is the index of the row that holds the picture: base64 is longer.
REFERENCE = 64


class MmBench:
    """Questions of one development file. `train` of them, in their first rotation only, are held out for learning;
    `limit` caps the evaluated ones (None: all others), each in all its rotations. Pictures are written to `cache` when
    the corpus is read.
    """

    name = "mmbench"
    metric = "accuracy"

    def __init__(
        self,
        root: Path,
        cache: Path,
        *,
        train: int = 0,
        limit: int | None = None,
        seed: int = 0,
        allow_links: bool = False,
    ) -> None:
        self._folder = Folder(root, RELEASE, allow_links=allow_links)
        self._cache = cache
        self._train = train
        self._limit = limit
        self._seed = seed

    def train(self) -> Iterator[Item]:
        return (rotations[0] for group, rotations in self._groups.items() if group in self._split[0])

    def evaluate(self) -> Iterator[Item]:
        return (item for group, items in self._groups.items() if group in self._split[1] for item in items)

    def corpus(self, docs: Container[str] | None = None) -> Iterator[Source]:
        """Of every question its hint and its picture; with `docs`, those documents only.

        Raises UserError for a broken file and for a picture that cannot be decoded.
        """
        files: dict[str, Path] = {}
        for row in self._rows():
            group = row.index
            if group not in self._groups:
                continue  # a rotation has the picture and hint of its question's first row
            hint, picture = own_docs(group)
            if row.hint and (docs is None or hint in docs):
                yield Source(hint, hint, Kind.TEXT, "Hint", row.hint)
            if docs is None or picture in docs:
                where = f"{self._file}, row {group}"
                file = files.get(row.image, self._cache / f"{self._file.stem}-{group}.jpg")
                if row.image not in files:
                    # `files` knows rows by index, so a reference to an earlier row was found there.
                    if len(row.image) <= REFERENCE:
                        raise UserError(f"{where}: no row before it holds the picture {row.image}")
                    write_picture(file, row.image, where)
                files[group] = file
                yield Source(picture, picture, Kind.IMAGE, "Picture", "", str(file))

    def score(self, item: Item, answer: str | None) -> Score:
        """Accuracy of one rotation: the answer must name the right choice by its text or letter, and no other."""
        # By text, not by place: two choices of a question may be the same words.
        named = None if answer is None else choice_of(answer, item.question.choices)
        accuracy = float(named is not None and item.question.choices[named] == item.gold[0])
        return Score(accuracy, accuracy)

    @cached_property
    def _split(self) -> tuple[frozenset[str], frozenset[str]]:
        return parted(self._groups, self._train, self._limit, self._seed)

    @cached_property
    def _groups(self) -> dict[str, tuple[Item, ...]]:
        """Each question's items by its index, in file order: what the file holds, or rotated here."""
        groups: dict[str, list[Item]] = {}
        for row in self._rows():
            group = str(int(row.index) % ROTATION)
            groups.setdefault(group, []).append(from_record(row, item, f"{self._file}, row {row.index}"))
        # As the authors' script does, a rotation without its question's first row is left out.
        whole = {group: items for group, items in groups.items() if items[0].question.id == group}
        if not whole:
            raise UserError(f"{self._file} has no questions: copy {RELEASE}")
        return {group: tuple(items) if len(items) > 1 else rotated(items[0]) for group, items in whole.items()}

    def _rows(self) -> Iterator[Row]:
        rows = read_table(self._file, quoted=True)
        _, header = next(rows, (0, []))
        if missing := {"index", "question", "A", "B", "answer", "image"} - set(header):
            tail = " (a test file has no answers: its authors score it)" if "answer" in missing else ""
            raise UserError(f"{self._file} has no column {', '.join(sorted(missing))}{tail}: copy {RELEASE}")
        for number, (_, values) in enumerate(rows, start=1):
            where = f"{self._file}, row {number}"
            if len(values) != len(header):
                raise UserError(
                    f"{where}: {len(values)} values under {len(header)} columns; the file may be truncated, download "
                    "it again"
                )
            yield checked_value(ROW, dict(zip(header, values, strict=True)), where)

    @cached_property
    def _file(self) -> Path:
        files = [file for file in self._folder.files() if file.suffix == ".tsv"]
        if len(files) != 1:
            names = ", ".join(file.name for file in files) or "none"
            raise UserError(f"{self._folder} must hold one .tsv file and holds {names}: copy one of {RELEASE} there")
        return files[0]


def item(row: Row) -> Item:
    """The item of one row. Raises UserError for an answer that is not the letter of a choice."""
    choices = row.choices
    place = ascii_uppercase.find(row.answer)
    # The length counts too: `find` gives 0 for "" and for "AB".
    if len(row.answer) != 1 or not 0 <= place < len(choices):
        raise UserError(f"answer {row.answer!r} of {len(choices)} choices: expected the letter of one")
    group = str(int(row.index) % ROTATION)
    hint, picture = own_docs(group)
    own = (*((hint,) if row.hint else ()), picture)
    return Item(
        question=Question(row.index, row.question, choices),
        gold=(choices[place],),
        pool=own,
        supporting=own,
        own=own,
        tags={"ability": row.ability, "skill": row.category},
        group=group,
    )


def rotated(first: Item) -> tuple[Item, ...]:
    """The question with its choices moved on by 0, 1, ... places, indexed as the release does."""
    question, index = first.question, int(first.question.id)
    turns = range(len(question.choices))
    questions: Iterable[Question] = (
        Question(str(index + turn * ROTATION), question.text, question.choices[turn:] + question.choices[:turn])
        for turn in turns
    )
    return tuple(replace(first, question=moved) for moved in questions)


def own_docs(group: str) -> tuple[str, str]:
    """Documents of a question's hint and of its picture."""
    return f"{group}:hint", f"{group}:image"


def _make(request: DataRequest) -> MmBench:
    cache, data = request.cache / "mmbench", request.settings
    return MmBench(
        request.root,
        cache,
        train=request.held_out,
        limit=data.limit,
        seed=request.seed,
        allow_links=data.allow_links,
    )


MMBENCH = DatasetKind("mmbench", RELEASE, _make)
