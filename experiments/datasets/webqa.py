"""WebQA (Chang et al. 2022): questions over snippets of the web and captioned pictures, as the official release has it.

One folder holds WebQA_train_val.json and, for those who see pictures, imgs.tsv (a picture per line: its id, a tab, and
base64) with imgs.lineidx (where each line starts). Without the two, pictures are described by title and caption. The
test file has no answers and is not read.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from operator import itemgetter
from typing import Annotated, ClassVar

from pydantic import Field, Strict, TypeAdapter

from actors.errors import UserError
from actors.messages import Kind, Question, Source
from experiments.datasets.benchmark import Benchmark, Parts, write_picture
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
    """Its id is a number, from which its place in imgs.tsv and the name of its file are made."""

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


STARTS = TypeAdapter(Many[Place])


class WebQa(Benchmark):
    """Trains on the split `train` and evaluates on `val`. Both are in the one file, which stays in memory.

    Pictures are written to the cache when the corpus is read: those in a chosen question's pool, or every one where
    questions search the whole corpus.
    """

    name = "webqa"
    release = "the downloads that github.com/WebQnA/WebQA links"
    parts: ClassVar[Parts] = {QUESTIONS: (QUESTIONS,)}
    evaluated = "val"
    pictures = "checked"

    def __init__(self, request: DataRequest) -> None:
        super().__init__(request)
        if self.folder.file(PICTURES):
            self.files |= {PICTURES: (PICTURES,), OFFSETS: (OFFSETS,)}
        self._lemmatise = lemmatiser()
        self.metric = "QA-Acc" if self._lemmatise else "QA-Acc (no lemmas)"
        without = "" if self._lemmatise else ", and words are compared without lemmas: en_core_web_sm is missing"
        self.note(f"webqa: the fluency QA-FL, which needs BARTScore's weights, is not computed{without}")

    def split(self, name: str, count: int | None) -> Iterator[Item]:
        records = [(guid, record) for guid, record in self.questions.items() if record.split == name]
        chosen = self.chosen(records, itemgetter(0), count)
        return each(((f"{self.path(QUESTIONS)}, question {guid}", record) for guid, record in chosen), item_of)

    def sources(self) -> Iterator[Source]:
        """Question by question, snippets and pictures."""
        written = set[str]()  # of the documents that agents may be shown
        if self.starts is not None:
            whole = self.request.whole_corpus
            items = map(item_of, self.questions.values()) if whole else chain(self.train(), self.evaluate())
            written = {doc for item in items for doc in item.pool}
        for record in self.questions.values():
            for source in record.facts:
                if source.kind is Kind.IMAGE and self.starts is not None:
                    # A picture that no chosen question can be shown has a path too: one index serves any choice.
                    file = self.request.cache / "webqa" / f"{source.doc}.jpg"
                    if source.doc in written:
                        written.remove(source.doc)
                        with placed(f"{self.folder.root / PICTURES}, picture {source.doc}"):
                            write_picture(file, self.encoded(source.doc, self.starts))
                    source = replace(source, image=str(file))
                yield source

    def score(self, item: Item, answer: str | None) -> Score:
        """QA-Acc by keyword overlap, the best over the gold answers (of which evaluated questions have one), and F1."""
        if answer is None:
            return Score(0.0, 0.0)
        category = item.tags["category"]
        accuracy, f1 = max((overlap(answer, gold, category, self._lemmatise) for gold in item.gold), key=itemgetter(0))
        return Score(accuracy, f1)

    @cached_property
    def questions(self) -> dict[str, WebQaQuestion]:
        members = read_members(self.path(QUESTIONS), WebQaQuestion, "question")
        return {guid: record for _, guid, record in members}

    def encoded(self, id: str, starts: Sequence[int]) -> str:
        """Reads a picture's base64 from its line of imgs.tsv. Raises UserError where another picture is there."""
        line = int(id) % LINES
        path = self.path(PICTURES)
        if line >= len(starts):
            raise UserError(f"{path} has {len(starts)} pictures and none with the id {id}: copy it from {self.release}")
        with reading(path), path.open("rb") as lines:
            lines.seek(starts[line])  # instead of reading tens of gigabytes
            # A wrong offset may lead anywhere: undecodable bytes then fail the comparison of ids below.
            stored, _, encoded = lines.readline(ROW).decode("ascii", errors="replace").partition("\t")
        if stored != id:
            # Cut, because a wrong offset may give a whole picture for an id.
            raise UserError(f"{path} has picture {stored[:40]!r} where {OFFSETS} has {id}: copy both again")
        return encoded

    @cached_property
    def starts(self) -> tuple[int, ...] | None:
        """Start of each line of imgs.tsv, in bytes. None without the file."""
        if PICTURES not in self.files:
            return None
        path = self.path(OFFSETS)
        content = read_bytes(path, 64 * MB)  # 5 MB in the release
        return validated(STARTS, content.decode(errors="replace").split(), str(path))


def item_of(record: WebQaQuestion) -> Item:
    """Makes an item, with keywords as gold where there are some. Raises UserError for one without facts or answers."""
    pool = tuple(dict.fromkeys(source.doc for source in record.facts))
    if not pool:
        raise UserError("the question has no facts: it needs txt_posFacts or img_posFacts")
    category = record.Qcate
    if category not in CATEGORIES:
        raise UserError(f"unknown Qcate {category!r}: one of {', '.join(CATEGORIES)}")
    keywords = unquoted(record.Keywords_A)
    answers = tuple(text for answer in record.A if (text := unquoted(answer)))
    gold = answers if keywords in NO_KEYWORDS else (keywords,)
    if not gold:
        raise UserError("the question has no answer: the test file cannot be evaluated here")
    supporting = tuple(dict.fromkeys(s.doc for s in sources_of(record.txt_posFacts, record.img_posFacts)))
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
    return [
        *(Source(fact.snippet_id, fact.snippet_id, Kind.TEXT, fact.title, fact.fact) for fact in snippets),
        *(Source(str(p.image_id), str(p.image_id), Kind.IMAGE, p.title, p.caption) for p in pictures),
    ]


def unquoted(text: str) -> str:
    """Removes the quotation marks that the release puts around its image questions' text."""
    # Inside, the release doubles quotation marks, as CSV does.
    text = text.strip()
    quoted = len(text) > 1 and text.startswith('"') and text.endswith('"')
    return text[1:-1].replace('""', '"').strip() if quoted else text
