"""ViDoSeek (Wang et al. 2025): questions whose answer stands on pages of visually rich documents.

One folder holds the questions (rag_dataset.json, or vidoseek.json as the download names it) and the pages as pictures,
img/<document>_<page>.jpg with pages counted from 1, which the release's scripts/pdf2images.py draws from pdf/. What
its OCR scripts write is used where it is there: ppocr/<document>_<page>.txt, or vlmocr/<document>_<page>.json. Other
pages are read with RapidOCR where that is installed.

A page is a document (`Source.doc`) of one picture and, where its words are known, one passage with them for those who
see no pictures. There is one split of 1,142 questions (645 single-hop, 497 multi-hop; 80 on text, 175 on tables, 157
on charts, 730 on layout): training questions are held out of the evaluation. The benchmark asks over the whole
collection, and so does the default here; a question's pool is every page of its own document, which is easier
(`retrieval.scope=question`).
"""

from __future__ import annotations

import logging
import re
from collections.abc import Container, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

from actors.errors import UserError
from actors.messages import Kind, Question, Source
from experiments.datasets.files import check_image, from_record, read_json
from experiments.datasets.folder import Folder
from experiments.datasets.item import Item, Score, text_score
from experiments.datasets.json_members import read_elements
from experiments.datasets.kind import DataRequest, DatasetKind
from experiments.datasets.layouts.limits import MB, WHOLE
from experiments.datasets.layouts.vidoseek import EXAMPLE, RECOGNISED, Example
from experiments.datasets.lines import reading
from experiments.datasets.subset import parted
from retrieval import ocr

RELEASE = "huggingface.co/datasets/autumncc/ViDoSeek, laid out as data/ExampleDataset of github.com/Alibaba-NLP/ViDoRAG"
QUESTIONS = ("rag_dataset.json", "vidoseek.json")
SOURCES = {"text": "text", "table": "table", "chart": "chart", "2d_layout": "layout", "layout": "layout"}
# The document takes all it can: only the last underscore separates the page.
_PAGE = re.compile(r"(?P<document>.+)_(?P<page>\d{1,9})")

log = logging.getLogger(__name__)


class ViDoSeek:
    """Questions over pages. `train` are held out for learning; `limit` caps the evaluated ones (None: all others).

    `read` recognises the text of pages that come without (None: such a page has its title only).
    """

    name = "vidoseek"
    metric = "EM"

    def __init__(
        self,
        root: Path,
        *,
        train: int = 0,
        limit: int | None = None,
        seed: int = 0,
        read: ocr.Ocr | None = None,
        allow_links: bool = False,
    ) -> None:
        self._folder = Folder(root, RELEASE, allow_links=allow_links)
        self._train = train
        self._limit = limit
        self._seed = seed
        self._read = read

    def train(self) -> Iterator[Item]:
        return (item for item in self._items if item.question.id in self._split[0])

    def evaluate(self) -> Iterator[Item]:
        return (item for item in self._items if item.question.id in self._split[1])

    def corpus(self, docs: Container[str] | None = None) -> Iterator[Source]:
        """Page by page, its words and then its picture; with `docs`, those pages only.

        Raises UserError for a broken file and for a picture that cannot be decoded.
        """
        if self._read and docs is None:
            log.info("vidoseek: pages without text are recognised once, which takes seconds a page, and kept")
        without_text = 0
        for document, pages in self._pages.items():
            for number, file in pages.items():
                id = f"{document}_{number}"
                if docs is not None and id not in docs:
                    continue
                check_image(file)
                title = f"{document.replace('_', ' ')}, page {number}"
                words = self._words(id, file)
                if words:
                    yield Source(f"{id}:text", id, Kind.TEXT, title, words)
                without_text += not words
                # The words are the picture's text too: encoders without vision find the page by them.
                yield Source(id, id, Kind.IMAGE, title, words, str(file))
        if without_text and self._read is None and docs is None:
            log.warning(
                "%d pages of %s have no recognised text and are described by their titles: run "
                "`pip install '.[ocr]'`, or the release's OCR scripts",
                without_text,
                self._folder,
            )

    def score(self, item: Item, answer: str | None) -> Score:
        """M3Prune's EM (containment) and F1 of tokens. The paper's own figure is a judge's (Acc*)."""
        return text_score(item, answer)

    @cached_property
    def _split(self) -> tuple[frozenset[str], frozenset[str]]:
        return parted((item.question.id for item in self._items), self._train, self._limit, self._seed)

    @cached_property
    def _items(self) -> list[Item]:
        # Where neither is there, `find` reports the first.
        name = next(filter(self._folder.file, QUESTIONS), QUESTIONS[0])
        path = self._folder.find(name)
        examples = read_elements(path, EXAMPLE, "example", inside="examples")
        items = [from_record(record, self._item, f"{path}, example {number}") for number, record in examples]
        if not items:
            raise UserError(f"{path} has no examples: copy it again from {RELEASE}")
        return items

    def _item(self, record: Example) -> Item:
        meta = record.meta_info
        document = meta.file_name.removesuffix(".pdf")
        pages = self._pages.get(document)
        if not pages:
            raise UserError(
                f"question {record.uid} has no pages img/{document}_<page>.jpg in {self._folder}: run the release's "
                "scripts/pdf2images.py, which draws them from pdf/"
            )
        if missing := [page for page in meta.reference_page if page not in pages]:
            raise UserError(f"question {record.uid} refers to page {missing[0]} of {document}, which is not in img/")
        return Item(
            question=Question(record.uid, record.query),
            gold=(record.reference_answer,),
            pool=tuple(f"{document}_{page}" for page in pages),
            supporting=tuple(dict.fromkeys(f"{document}_{page}" for page in meta.reference_page)),
            tags={"source": source_type(meta.source_type), "hop": hop(meta.query_type)},
        )

    @cached_property
    def _pages(self) -> dict[str, dict[int, Path]]:
        """Picture files by document and page number, both in order."""
        if self._folder.folder("img") is None:
            raise UserError(
                f"missing folder {self._folder.root / 'img'}: pages as <document>_<page>.jpg, from {RELEASE}"
            )
        pages: dict[str, dict[int, Path]] = {}
        for file in self._folder.files("img"):
            if file.suffix.lower() in (".jpg", ".jpeg", ".png") and (page := _PAGE.fullmatch(file.stem)):
                found = pages.setdefault(page["document"], {})
                if other := found.get(int(page["page"])):
                    raise UserError(f"{other} and {file} are one page: remove one of the two")
                found[int(page["page"])] = file
        # By number, so that page 10 comes after page 9; folders list in any order.
        return {document: dict(sorted(pages[document].items())) for document in sorted(pages)}

    def _words(self, id: str, picture: Path) -> str:
        """The text that the release's scripts recognised, or else the OCR of this run."""
        if plain := self._folder.file("ppocr", f"{id}.txt"):
            with reading(plain), plain.open(encoding="utf-8", errors="replace") as file:
                # OCR output of any tool: a stray byte must not end the run.
                words = file.read(WHOLE + 1)
            if len(words) > WHOLE:
                raise UserError(f"{plain} has more than {WHOLE // MB} MB: no page has so many words")
            return words.strip()
        if structured := self._folder.file("vlmocr", f"{id}.json"):
            return "\n".join(_strings(read_json(structured, RECOGNISED)))
        return self._read.text(picture) if self._read else ""


def source_type(name: str) -> str:
    """text, table, chart or layout, as ViDoRAG's tables group questions; UserError for another."""
    try:
        return SOURCES[name.lower()]
    except KeyError:
        raise UserError(f"unknown source_type {name!r}: one of {', '.join(SOURCES)}") from None


def hop(query_type: str) -> str:
    """single or multi; a query type that says neither (the example's `content_extraction`) stays as it is."""
    plain = query_type.lower().replace("_", "-")
    return {"single-hop": "single", "multi-hop": "multi"}.get(plain, plain)


def _strings(value: Any) -> Iterator[str]:
    """Every string of a JSON value, in order: the vision-language OCR's layout is its model's own."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (list, dict)):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _strings(part)


def _make(request: DataRequest) -> ViDoSeek:
    root = request.root  # first, because a missing folder matters more than the warning
    if not request.whole_corpus:
        log.warning("vidoseek asks over all documents; retrieval.scope=question searches a question's own alone")
    recogniser = ocr.Ocr(request.cache / "ocr") if ocr.available() else None
    data = request.settings
    return ViDoSeek(
        root,
        train=request.held_out,
        limit=data.limit,
        seed=request.seed,
        read=recogniser,
        allow_links=data.allow_links,
    )


VIDOSEEK = DatasetKind("vidoseek", RELEASE, _make, scope="corpus")
