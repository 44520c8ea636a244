"""ViDoSeek (Wang et al. 2025): questions that are answered on pages of visually rich documents.

One folder holds

- the questions, rag_dataset.json, or vidoseek.json as the download names it,
- the pages as pictures, img/<document>_<page>.jpg with pages counted from 1, which the release's scripts/pdf2images.py
  draws from pdf/,
- where they are there, the results of its OCR scripts: ppocr/<document>_<page>.txt or vlmocr/<document>_<page>.json.
  Other pages are read with RapidOCR where that is installed.

A page is a document (`Source.doc`) of one picture and, where its text is known, one passage with it for those who see
no pictures. There is one split of 1,142 questions (645 single-hop, 497 multi-hop; 80 on text, 175 on tables, 157 on
charts, 730 on layout). The benchmark asks over the whole collection, and so does the default here; a question's pool is
every page of its document, which is easier (`retrieval.scope=question`).
"""

import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import JsonValue, TypeAdapter

from actors.errors import UserError
from actors.messages import Kind, Question, Source
from experiments.datasets.benchmark import Parts, SingleSplit, image_source
from experiments.datasets.fields import Answer, Id, Label, Many, NonBlank, inside
from experiments.datasets.item import Item
from experiments.datasets.kind import DataRequest
from experiments.datasets.reading import once, placed, read_bytes, read_json
from retrieval import ocr

SOURCE_TYPES = {"text": "text", "table": "table", "chart": "chart", "2d_layout": "layout", "layout": "layout"}
HOPS = {"single-hop": "single", "multi-hop": "multi"}
# Only the last underscore separates the page: the document's name may hold others.
_PAGE = re.compile(r"(?P<document>.+)_(?P<page>\d{1,9})")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ViDoSeekExample:
    uid: Id
    query: NonBlank
    reference_answer: Answer
    file_name: Annotated[Id, inside("meta_info", "file_name")]
    reference_page: Annotated[Many[int], inside("meta_info", "reference_page")]
    source_type: Annotated[Label, inside("meta_info", "source_type")]
    query_type: Annotated[Label, inside("meta_info", "query_type")]


@dataclass(frozen=True, slots=True)
class ViDoSeekRelease:
    examples: Many[ViDoSeekExample]


RELEASE = TypeAdapter(ViDoSeekRelease)
# A vision-language model's OCR has its own layout.
OCR_RESULT: TypeAdapter[JsonValue] = TypeAdapter(JsonValue)


class ViDoSeek(SingleSplit):
    """Questions over pages. The paper's figure is a judge's (Acc*); EM and F1 here are of the answer's text."""

    name = "vidoseek"
    release = (
        "huggingface.co/datasets/autumncc/ViDoSeek, laid out as data/ExampleDataset of github.com/Alibaba-NLP/ViDoRAG"
    )
    scope = "corpus"
    parts: ClassVar[Parts] = {"questions": ("rag_dataset.json", "vidoseek.json"), "pages": ("img",)}

    def __init__(self, request: DataRequest) -> None:
        super().__init__(request)
        if not request.whole_corpus:
            self.note("vidoseek asks over all documents; retrieval.scope=question searches a question's own alone")
        self.ocr = ocr.Ocr(request.cache / "ocr") if ocr.available() else None

    @cached_property
    def groups(self) -> dict[str, tuple[Item]]:
        path = self.path("questions")
        groups: dict[str, tuple[Item]] = {}
        ids = set[str]()
        for example in read_json(path, RELEASE).examples:
            with placed(f"{path}, question {example.uid}"):
                once(example.uid, ids, "question")
                groups[example.uid] = (self.item(example),)
        return groups

    def item(self, example: ViDoSeekExample) -> Item:
        document = example.file_name.removesuffix(".pdf")
        pages = self.pages.get(document)
        if not pages:
            raise UserError(
                f"it has no pages img/{document}_<page>.jpg in {self.folder}: run the release's scripts/pdf2images.py, "
                "which draws them from pdf/"
            )

        missing = [page for page in example.reference_page if page not in pages]
        if missing:
            raise UserError(f"it refers to page {missing[0]} of {document}, which is not in img/")

        source_type = SOURCE_TYPES.get(example.source_type.lower())
        if source_type is None:
            raise UserError(f"unknown source_type {example.source_type!r}: one of {', '.join(SOURCE_TYPES)}")

        # The release's example has another query type (`content_extraction`), which stays.
        query_type = example.query_type.lower().replace("_", "-")
        return Item(
            question=Question(example.uid, example.query),
            gold=(example.reference_answer,),
            pool=tuple(f"{document}_{page}" for page in pages),
            supporting=tuple(dict.fromkeys(f"{document}_{page}" for page in example.reference_page)),
            tags={"source": source_type, "hop": HOPS.get(query_type, query_type)},
            cluster=document,
        )

    def sources(self) -> Iterator[Source]:
        """Page by page, its text and then its picture."""
        if self.ocr:
            log.info("vidoseek: pages without text are recognised once, which takes seconds a page, and kept")
        pages_without_text = 0
        for document, pages in self.pages.items():
            for number, file in pages.items():
                doc = f"{document}_{number}"
                title = f"{document.replace('_', ' ')}, page {number}"
                text = self.text(doc, file)
                if text:
                    yield Source(f"{doc}:text", doc, Kind.TEXT, title, text)
                else:
                    pages_without_text += 1

                # The text is the picture's too: encoders without vision find the page by it.
                yield image_source(doc, title, text, file)

        if pages_without_text and self.ocr is None:
            self.note(
                f"vidoseek: {pages_without_text:,} pages of {self.folder} have no recognised text and are described by "
                "their titles: run `pip install '.[ocr]'`, or the release's OCR scripts"
            )

    def reads_with(self) -> tuple[object, ...]:
        return (self.ocr is not None,)

    def text(self, doc: str, page: Path) -> str:
        """Finds the text of a page in the results of the release's OCR scripts, or recognises it."""
        if file := self.folder.file("ppocr", f"{doc}.txt"):
            # OCR output of any tool: a stray byte must not end the run.
            return read_bytes(file).decode(errors="replace").strip()
        if file := self.folder.file("vlmocr", f"{doc}.json"):
            return "\n".join(strings_in(read_json(file, OCR_RESULT)))
        return self.ocr.text(page) if self.ocr else ""

    @cached_property
    def pages(self) -> dict[str, dict[int, Path]]:
        """Picture files by document and page number, both in order."""
        documents: dict[str, dict[int, Path]] = {}
        for file in self.folder.files("img"):
            match = _PAGE.fullmatch(file.stem)
            if match and file.suffix.lower() in (".jpg", ".jpeg", ".png"):
                pages = documents.setdefault(match["document"], {})
                twin = pages.setdefault(int(match["page"]), file)
                if twin is not file:
                    raise UserError(f"{twin} and {file} are one page: remove one of the two")

        # By number, so that page 10 comes after page 9; folders list in any order.
        return {document: dict(sorted(documents[document].items())) for document in sorted(documents)}


def strings_in(value: Any) -> Iterator[str]:
    """Every string of a JSON value, in order."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from strings_in(list(value.values()))
    elif isinstance(value, list):
        for part in value:
            yield from strings_in(part)
