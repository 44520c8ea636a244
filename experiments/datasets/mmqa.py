"""MultimodalQA (Talmor et al. 2021): questions over passages, one table and pictures, as the official release has them.

The release's files lie in one folder, each plain or gzipped: MMQA_train.jsonl, MMQA_dev.jsonl, MMQA_texts.jsonl,
MMQA_tables.jsonl, MMQA_images.jsonl, and the pictures in final_dataset_images/. Files are read line by line: there are
218,000 passages.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from actors.errors import UserError
from actors.messages import Kind, Question, Source
from experiments.datasets.benchmark import Benchmark, Parts, image_source, text_source
from experiments.datasets.fields import Answer, Id, Label, Many, NonBlank, Text, inside, member
from experiments.datasets.item import Item
from experiments.datasets.kind import OF_FILES
from experiments.datasets.reading import each, once, placed, read_lines, row_cells

MANY = 5  # supporting documents; questions with more have one tag


@dataclass(frozen=True, slots=True)
class MmqaQuestion:
    """Line of MMQA_train.jsonl or MMQA_dev.jsonl."""

    qid: Id
    type: Annotated[Label, inside("metadata", "type")]
    modalities: Annotated[Many[Label], inside("metadata", "modalities")]
    text_doc_ids: Annotated[Many[Id], inside("metadata", "text_doc_ids")]
    image_doc_ids: Annotated[Many[Id], inside("metadata", "image_doc_ids")]
    table_id: Annotated[Label | None, inside("metadata", "table_id")]
    question: NonBlank
    answers: Many[Annotated[Answer, member("answer")]]
    supporting_context: Many[Annotated[Id, member("doc_id")]]


@dataclass(frozen=True, slots=True)
class MmqaPassage:
    """Line of MMQA_texts.jsonl."""

    id: Id
    title: Text
    text: Text


@dataclass(frozen=True, slots=True)
class MmqaPicture:
    """Line of MMQA_images.jsonl; only the generated sample has descriptions."""

    id: Id
    title: Text
    path: Text
    description: Text = ""


@dataclass(frozen=True, slots=True)
class MmqaTable:
    """Line of MMQA_tables.jsonl."""

    id: Id
    title: Text
    rows: Annotated[Many[Many[Annotated[Text, member("text")]]], inside("table", "table_rows")]
    name: Annotated[Text, inside("table", "table_name")]
    header: Annotated[Many[Annotated[Text, member("column_name")]], inside("table", "header")]


DOCUMENTS: dict[str, type[Any]] = {"texts": MmqaPassage, "tables": MmqaTable, "images": MmqaPicture}


class Mmqa(Benchmark):
    """Evaluates on the dev file: the test file has no answers.

    `data.selection=paper` keeps the questions that need no table: the 1,161 dev questions of M³Prune's tables.
    """

    name = "mmqa"
    reads = (*OF_FILES, "data.selection")
    release = "the dataset/ folder of github.com/allenai/multimodalqa"
    parts: ClassVar[Parts] = {
        part: (f"MMQA_{part}.jsonl", f"MMQA_{part}.jsonl.gz") for part in ("train", "dev", "texts", "tables", "images")
    }

    def split(self, name: str, count: int | None) -> Iterator[Item]:
        lines = read_lines(self.path(name), MmqaQuestion)
        if self.settings.selection == "paper":
            # A question's type names every modality that it needs.
            lines = (line for line in lines if "TableQ" not in line[1].type)
        return each(self.chosen(lines, lambda line: line[1].qid, count), item_of)

    def sources(self) -> Iterator[Source]:
        ids = set[str]()
        for part, layout in DOCUMENTS.items():
            ids_before = len(ids)
            for where, document in read_lines(self.path(part), layout):
                with placed(where):
                    once(document.id, ids)
                    sources = self.sources_of(document)
                yield from sources
            if len(ids) == ids_before:
                raise UserError(f"{self.path(part)} is empty: download it again")

    def sources_of(self, document: MmqaPassage | MmqaTable | MmqaPicture) -> list[Source]:
        if isinstance(document, MmqaTable):
            return table_rows(document)
        if isinstance(document, MmqaPassage):
            return [text_source(document.id, document.title, document.text)]
        with placed(f"picture {document.id}"):
            file = self.picture("final_dataset_images", document.path)
        return [image_source(document.id, document.title, document.description, file)]


def item_of(record: MmqaQuestion) -> Item:
    """Makes the item of a question. Raises UserError for a question without sources.

    The pool is what the release lists; one dev question is supported by a picture outside of it, and stays so.
    """
    pool = [*record.text_doc_ids, *record.image_doc_ids]
    if record.table_id:
        pool.append(record.table_id)
    if not pool:
        raise UserError(f"question {record.qid} has no sources: it needs text_doc_ids, image_doc_ids or table_id")

    supporting = tuple(dict.fromkeys(record.supporting_context))
    return Item(
        question=Question(record.qid, record.question),
        gold=record.answers,
        pool=tuple(dict.fromkeys(pool)),
        supporting=supporting,
        tags={
            "type": record.type,
            "modalities": "+".join(sorted(set(record.modalities))),
            # Types of several hops are written as operations: Compose(TextQ,TableQ).
            "hop": "multi" if "(" in record.type else "single",
            # For MMAPG's Fig. 4.
            "supporting": str(len(supporting)) if len(supporting) < MANY else f"{MANY} or more",
        },
        cluster=record.table_id or "",
    )


def table_rows(table: MmqaTable) -> list[Source]:
    """Makes a source for each row that is not empty, "Header = value; Header = value"."""
    title = " - ".join(filter(None, (table.title, table.name)))
    sources: list[Source] = []
    # Ids count empty rows too, so that they stay the row's place in the table.
    for number, row in enumerate(table.rows):
        cells = row_cells(table.header, row)
        if cells:
            sources.append(Source(f"{table.id}:{number}", table.id, Kind.TABLE, title, "; ".join(cells)))
    return sources
