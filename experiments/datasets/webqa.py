"""WebQA (Chang et al. 2022): questions over snippets of the web and captioned pictures, as the official release has it.

One folder holds WebQA_train_val.json and, for those who see pictures, imgs.tsv (a picture per line: its id, a tab, and
base64) with imgs.lineidx (where each line starts). Without the two, pictures are described by title and caption. The
test file has no answers and is not read.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from operator import itemgetter
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import Field, Strict, TypeAdapter

from actors.errors import UserError
from actors.messages import Kind, Question, Source
from experiments.datasets.benchmark import Benchmark, Parts, docs_of, image_source, text_source, write_picture
from experiments.datasets.fields import MB, ROW, Id, Label, Many, NonBlank, Text, validated
from experiments.datasets.item import Item, Score
from experiments.datasets.kind import DataRequest
from experiments.datasets.reading import each, placed, read_bytes, read_members, reading
from experiments.metrics.keyword_overlap import CATEGORIES, lemmatiser, overlap

QUESTIONS, PICTURES, OFFSETS = "WebQA_train_val.json", "imgs.tsv", "imgs.lineidx"
NO_KEYWORDS = ("", "TBD")  # the release's placeholders for keywords that it does not give
LINES = 10_000_000  # a picture's line is the rest of its id by this

Place = Annotated[int, Field(ge=0, lt=2**63)]  # in a file, in bytes


@dataclass(frozen=True, slots=True)
class WebQaSnippet:
    snippet_id: Id
    title: Text
    fact: Text


@dataclass(frozen=True, slots=True)
class WebQaPicture:
    """A picture. Its id is a number, from which its place in imgs.tsv and the name of its file are made."""

    image_id: Annotated[Place, Strict()]
    title: Text
    caption: Text


@dataclass(frozen=True, slots=True)
class WebQaQuestion:
    """Member of the file. `A` has the answers as sentences, `Keywords_A` the words that an answer must have."""

    split: Label
    Guid: Id
    Q: NonBlank
    A: Many[Text]
    Qcate: Label
    txt_posFacts: Many[WebQaSnippet]
    img_posFacts: Many[WebQaPicture]
    txt_negFacts: Many[WebQaSnippet] = ()
    img_negFacts: Many[WebQaPicture] = ()
    Keywords_A: Text = ""

    @property
    def facts(self) -> list[Source]:
        """Snippets, then pictures. Sources with the answer first, as the release has them."""
        return sources_of(self.txt_posFacts + self.txt_negFacts, self.img_posFacts + self.img_negFacts)


QUESTION = TypeAdapter(WebQaQuestion)
STARTS = TypeAdapter(Many[Place])


class WebQa(Benchmark):
    """Trains on the split `train` and evaluates on `val`. Both are in the one file, of which one question is in memory.

    A picture has a file in the cache once it is unpacked.
    """

    name = "webqa"
    release = "the downloads that github.com/WebQnA/WebQA links"
    parts: ClassVar[Parts] = {QUESTIONS: (QUESTIONS,)}
    evaluated = "val"

    def __init__(self, request: DataRequest) -> None:
        super().__init__(request)
        if self.folder.file(PICTURES):
            self.files |= {PICTURES: (PICTURES,), OFFSETS: (OFFSETS,)}
            self.packed = True
        self._lemmatise = lemmatiser()
        fluency = "webqa: the fluency QA-FL, which needs BARTScore's weights, is not computed"
        if self._lemmatise:
            self.metric = "QA-Acc"
            self.note(fluency)
        else:
            self.metric = "QA-Acc (no lemmas)"
            self.note(f"{fluency}, and words are compared without lemmas: en_core_web_sm is missing")

    def split(self, name: str, count: int | None) -> Iterator[Item]:
        records = ((where, record) for where, record in self.questions() if record.split == name)
        return each(self.chosen(records, itemgetter(0), count), item_of)

    def sources(self) -> Iterator[Source]:
        """Question by question, snippets and pictures."""
        for _, record in self.questions():
            for source in record.facts:
                if source.kind is Kind.IMAGE and self.packed:
                    # Also one that is not unpacked: one index serves any choice of questions.
                    source = replace(source, image=str(self.picture_file(source.doc)))
                yield source

    def unpack(self, pictures: Iterable[Source]) -> None:
        for source in pictures:
            file = self.picture_file(source.doc)
            if not file.is_file():
                with placed(f"{self.folder.root / PICTURES}, picture {source.doc}"):
                    write_picture(file, self.encoded(source.doc))

    def picture_file(self, doc: str) -> Path:
        return self.request.cache / "webqa" / f"{doc}.jpg"

    def score(self, item: Item, answer: str | None) -> Score:
        """QA-Acc by keyword overlap, the best over the gold answers (of which evaluated questions have one), and F1."""
        if answer is None:
            return Score(0.0, 0.0)
        category = item.tags["category"]
        scores = [overlap(answer, gold, category, self._lemmatise) for gold in item.gold]
        return Score(*max(scores, key=itemgetter(0)))

    def questions(self) -> Iterator[tuple[str, WebQaQuestion]]:
        """Yields the questions with their places."""
        for where, _, record in read_members(self.path(QUESTIONS), QUESTION, "question"):
            yield where, record

    def encoded(self, id: str) -> str:
        """Reads a picture's base64 from its line of imgs.tsv. Raises UserError where another picture is there."""
        line = int(id) % LINES
        path = self.path(PICTURES)
        starts = self.starts
        if line >= len(starts):
            raise UserError(f"{path} has {len(starts)} pictures and none with the id {id}: copy it from {self.release}")

        with reading(path), path.open("rb") as lines:
            lines.seek(starts[line])  # instead of reading tens of gigabytes
            # A wrong offset may lead anywhere: undecodable bytes then fail the comparison of ids below.
            stored_id, _, encoded = lines.readline(ROW).decode("ascii", errors="replace").partition("\t")

        if stored_id != id:
            # Cut, because a wrong offset may give a whole picture for an id.
            raise UserError(f"{path} has picture {stored_id[:40]!r} where {OFFSETS} has {id}: copy both again")

        return encoded

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """Start of each line of imgs.tsv, in bytes."""
        path = self.path(OFFSETS)
        content = read_bytes(path, 64 * MB)  # 5 MB in the release
        return validated(STARTS, content.decode(errors="replace").split(), str(path))


def item_of(record: WebQaQuestion) -> Item:
    """Makes an item, with keywords as gold where there are some. Raises UserError for one without facts or answers."""
    pool = docs_of(record.facts)
    if not pool:
        raise UserError("the question has no facts: it needs txt_posFacts or img_posFacts")

    category = record.Qcate
    if category not in CATEGORIES:
        raise UserError(f"unknown Qcate {category!r}: one of {', '.join(CATEGORIES)}")

    keywords = unquoted(record.Keywords_A)
    if keywords in NO_KEYWORDS:
        gold = tuple(filter(None, map(unquoted, record.A)))
    else:
        gold = (keywords,)
    if not gold:
        raise UserError("the question has no answer: the test file cannot be evaluated here")

    supporting = docs_of(sources_of(record.txt_posFacts, record.img_posFacts))
    return Item(
        question=Question(record.Guid, unquoted(record.Q)),
        gold=gold,
        pool=pool,
        supporting=supporting,
        tags={"category": category, "modality": "text" if category == "text" else "image"},
        # Questions were written about a set of pictures or snippets, which several may share.
        cluster=min(supporting, default=""),
    )


def sources_of(snippets: Sequence[WebQaSnippet], pictures: Sequence[WebQaPicture]) -> list[Source]:
    sources = [text_source(snippet.snippet_id, snippet.title, snippet.fact) for snippet in snippets]
    for picture in pictures:
        sources.append(image_source(str(picture.image_id), picture.title, picture.caption))
    return sources


def unquoted(text: str) -> str:
    """Removes the quotation marks that the release puts around its image questions' text."""
    text = text.strip()
    if len(text) > 1 and text.startswith('"') and text.endswith('"'):
        # Inside, the release doubles quotation marks, as CSV does.
        return text[1:-1].replace('""', '"').strip()
    return text
