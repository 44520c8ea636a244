"""MultimodalQA (Talmor et al. 2021): questions over passages, one table and pictures, as the official release has them.

The release's files lie in one folder, each plain or gzipped: MMQA_train.jsonl, MMQA_dev.jsonl, MMQA_texts.jsonl,
MMQA_tables.jsonl, MMQA_images.jsonl, and the pictures in final_dataset_images/. Nothing is opened before it is needed,
and everything is read line by line: the passages alone are 218,000.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from pathlib import Path
from typing import Literal, TypeVar, get_args

from pydantic import TypeAdapter

from actors.errors import UserError
from actors.messages import Kind, Question, Source
from experiments.datasets.files import check_image, from_record, read_lines, row_cells
from experiments.datasets.folder import Folder
from experiments.datasets.item import Item, Score, text_score
from experiments.datasets.kind import OF_A_RELEASE, DataRequest, DatasetKind
from experiments.datasets.layouts import mmqa as layout
from experiments.datasets.subset import choose
from experiments.datasets.unique import once

T = TypeVar("T", layout.Passage, layout.Table, layout.Picture)

RELEASE = "the dataset/ folder of github.com/allenai/multimodalqa"
PICTURES = "final_dataset_images"
MANY = 5  # supporting documents; questions with more are tagged alike

Selection = Literal["all", "paper"]


class Mmqa:
    """Questions of the release, evaluated on the dev file: the test file has no answers.

    `selection="paper"` keeps the questions that need no table, which in the dev file are the 1,161 of M3Prune's
    tables. `train` and `limit` cap the training and evaluation questions (None: all); `seed` chooses which, and
    they come in file order.
    """

    name = "mmqa"
    metric = "EM"

    def __init__(
        self,
        root: Path,
        *,
        selection: Selection = "all",
        train: int | None = None,
        limit: int | None = None,
        seed: int = 0,
        allow_links: bool = False,
    ) -> None:
        if selection not in get_args(Selection):
            raise UserError(f"unknown selection {selection!r} of mmqa: use one of {', '.join(get_args(Selection))}")
        self._folder = Folder(root, RELEASE, allow_links=allow_links)
        self._selection = selection
        self._train = train
        self._limit = limit
        self._seed = seed

    def train(self) -> Iterator[Item]:
        return self._items("MMQA_train.jsonl", self._train)

    def evaluate(self) -> Iterator[Item]:
        return self._items("MMQA_dev.jsonl", self._limit)

    def corpus(self, docs: Container[str] | None = None) -> Iterator[Source]:
        """Passages, table rows, then pictures; with `docs`, those documents only, and no other picture is decoded.

        Raises UserError for a missing or broken file and for a picture that cannot be decoded. A picture whose file
        is not there has `image=None`: the release keeps the pictures in an archive of its own.
        """
        seen: set[str] = set()
        yield from self._sources("MMQA_texts.jsonl", layout.PASSAGE, passage, docs, seen)
        yield from self._sources("MMQA_tables.jsonl", layout.TABLE, table_rows, docs, seen)
        yield from self._sources("MMQA_images.jsonl", layout.PICTURE, self._picture, docs, seen)

    def score(self, item: Item, answer: str | None) -> Score:
        """M3Prune's EM (containment), and F1 as in the official script."""
        return text_score(item, answer)

    def _items(self, name: str, count: int | None) -> Iterator[Item]:
        """Two passes over the file, so that only the ids of the chosen questions stay in memory."""
        path = self._folder.find(name, packed=True)
        chosen = (
            None if count is None else choose(read_lines(path, layout.QUESTION, self._selected_id), count, self._seed)
        )

        def chosen_item(record: layout.AskedQuestion) -> Item | None:
            qid = self._selected_id(record)
            return item(record) if qid is not None and (chosen is None or qid in chosen) else None

        yield from read_lines(path, layout.QUESTION, chosen_item)

    def _selected_id(self, record: layout.AskedQuestion) -> str | None:
        """A question's id, or None where the selection leaves it out. A question type names every modality it needs."""
        needs_table = "TableQ" in record.metadata.type
        return None if self._selection == "paper" and needs_table else record.qid

    def _sources(
        self,
        name: str,
        schema: TypeAdapter[T],
        parse: Callable[[T], tuple[Source, ...]],
        docs: Container[str] | None,
        seen: set[str],
    ) -> Iterator[Source]:
        path, empty = self._folder.find(name, packed=True), True

        def sources(record: T) -> tuple[Source, ...]:
            nonlocal empty
            empty = False
            # Looked at before `parse`, which decodes a picture.
            if docs is not None and record.id not in docs:
                return ()
            once(record.id, seen)
            return parse(record)

        for found in read_lines(path, schema, sources):
            yield from found
        if empty:
            raise UserError(f"{path} is empty: copy it again from {RELEASE}")

    def _picture(self, record: layout.Picture) -> tuple[Source, ...]:
        """The release says only a picture's title; a `description` (the generated sample has one) is its text."""
        id = record.id
        file = from_record(record.path, lambda path: self._folder.file(PICTURES, path), f"picture {id}")
        if file is not None:
            check_image(file)
        return (Source(id, id, Kind.IMAGE, record.title, record.description, str(file) if file else None),)


def item(record: layout.AskedQuestion) -> Item:
    """One line of a question file. Raises UserError for a question without sources or without answers.

    Pool: the ten or so passages, the pictures and the table that the release lists for the question. One dev question
    is supported by a picture outside its pool; it is left as the release has it.
    """
    meta = record.metadata
    pool = (*meta.text_doc_ids, *meta.image_doc_ids, *([meta.table_id] if meta.table_id else []))
    if not pool:
        raise UserError(f"question {record.qid} has no sources: it needs text_doc_ids, image_doc_ids or table_id")
    gold = tuple(answer.answer for answer in record.answers)
    if not gold:
        raise UserError(f"question {record.qid} has no answers: it needs at least one")
    supporting = tuple(dict.fromkeys(context.doc_id for context in record.supporting_context))
    return Item(
        question=Question(record.qid, record.question),
        gold=gold,
        pool=tuple(dict.fromkeys(pool)),
        supporting=supporting,
        tags={
            "type": meta.type,
            "modalities": "+".join(sorted(set(meta.modalities))),
            # Types of several hops are written as operations: Compose(TextQ,TableQ).
            "hop": "multi" if "(" in meta.type else "single",
            # MMAPG's Fig. 4; few questions rest on more.
            "supporting": str(len(supporting)) if len(supporting) < MANY else f"{MANY} or more",
        },
    )


def passage(record: layout.Passage) -> tuple[Source, ...]:
    """The one source of a line of MMQA_texts.jsonl."""
    return (Source(record.id, record.id, Kind.TEXT, record.title, record.text),)


def table_rows(record: layout.Table) -> tuple[Source, ...]:
    """One source per row, "Header = value; Header = value", without empty cells; a row of empty cells is left out."""
    table = record.table
    headers = [column.column_name for column in table.header]
    title = " - ".join(part for part in (record.title, table.table_name) if part)
    sources = []
    # Ids count empty rows too, so that they stay the row's place in the table.
    for number, row in enumerate(table.table_rows):
        if cells := row_cells(headers, (cell.text for cell in row)):
            sources.append(Source(f"{record.id}:{number}", record.id, Kind.TABLE, title, "; ".join(cells)))
    return tuple(sources)


def _make(request: DataRequest) -> Mmqa:
    data = request.settings
    return Mmqa(
        request.root,
        selection=data.selection,
        train=request.train,
        limit=data.limit,
        seed=request.seed,
        allow_links=data.allow_links,
    )


MMQA = DatasetKind("mmqa", RELEASE, _make, reads=(*OF_A_RELEASE, "selection"))
