"""WebQA (Chang et al. 2022): questions over snippets of the web and captioned pictures, as the official release has it.

One folder holds WebQA_train_val.json and, for those who see pictures, imgs.tsv (a picture per line: its id, a tab, and
base64) with imgs.lineidx (where each line starts). Without the two, pictures are described by title and caption. The
test file has no answers and is not read.
"""

from __future__ import annotations

import logging
from collections.abc import Container, Iterator, Sequence
from functools import cached_property
from pathlib import Path

from actors.errors import UserError
from actors.messages import Kind, Question, Source
from experiments.datasets.encoded import write_picture
from experiments.datasets.files import from_record
from experiments.datasets.folder import Folder
from experiments.datasets.item import Item, Score
from experiments.datasets.json_members import read_members
from experiments.datasets.kind import DataRequest, DatasetKind
from experiments.datasets.layouts.limits import MB, OFFSETS, ROW
from experiments.datasets.layouts.webqa import QUESTION, AskedQuestion, Picture, Snippet
from experiments.datasets.lines import reading
from experiments.datasets.subset import limited
from experiments.metrics.keyword_overlap import CATEGORIES, lemmatiser, overlap

RELEASE = "the downloads that github.com/WebQnA/WebQA links"
NO_KEYWORDS = ("", "TBD")  # the release's placeholders for keywords that it does not give
PICTURES = "imgs.tsv"
LINES = 10_000_000  # a picture's line is the rest of its id by this

log = logging.getLogger(__name__)


class WebQa:
    """Trains on the split `train` and evaluates on `val`; both are in the one file, which stays in memory.

    `train` and `limit` cap the training and evaluation questions (None: all); `seed` chooses which. Pictures are
    written to `cache` when the corpus is read: those in a chosen question's pool, and with `all_pictures` every one.
    """

    name = "webqa"

    def __init__(
        self,
        root: Path,
        cache: Path,
        *,
        train: int | None = None,
        limit: int | None = None,
        seed: int = 0,
        all_pictures: bool = False,
        allow_links: bool = False,
    ) -> None:
        self._folder = Folder(root, RELEASE, allow_links=allow_links)
        self._cache = cache
        self._train = train
        self._limit = limit
        self._seed = seed
        self._all_pictures = all_pictures
        self._lemmatise = lemmatiser()
        self.metric = "QA-Acc" if self._lemmatise else "QA-Acc (no lemmas)"
        without = "" if self._lemmatise else ", and words are compared without lemmas: en_core_web_sm is missing"
        log.warning("webqa: the fluency QA-FL, which needs BARTScore's weights, is not computed%s", without)

    def train(self) -> Iterator[Item]:
        return self._items("train", self._train)

    def evaluate(self) -> Iterator[Item]:
        return self._items("val", self._limit)

    def corpus(self, docs: Container[str] | None = None) -> Iterator[Source]:
        """Question by question, snippets and pictures, each once; with `docs`, those documents only.

        Raises UserError for a broken file and for a picture that cannot be decoded.
        """
        written = self._written_pictures
        seen: set[str] = set()
        for record in self._questions.values():
            for source in facts(record):
                if source.id in seen or (docs is not None and source.doc not in docs):
                    continue
                seen.add(source.id)
                yield self._with_picture(source, written) if source.kind is Kind.IMAGE else source

    def score(self, item: Item, answer: str | None) -> Score:
        """QA-Acc by keyword overlap, the best over the gold answers (of which evaluated questions have one), and F1."""
        if answer is None:
            return Score(0.0, 0.0)
        category = item.tags["category"]
        best = max((overlap(answer, gold, category, self._lemmatise) for gold in item.gold), key=lambda o: o.accuracy)
        return Score(best.accuracy, best.f1)

    def _items(self, split: str, count: int | None) -> Iterator[Item]:
        ids = [id for id, record in self._questions.items() if record.split == split]
        if not ids:
            raise UserError(f"{self._path} has no question of the split {split}: copy it again from {RELEASE}")
        for id in limited(ids, str, count, self._seed):
            yield from_record(self._questions[id], item, f"{self._path}, question {id}")

    @property
    def _path(self) -> Path:
        return self._folder.root / "WebQA_train_val.json"

    @cached_property
    def _questions(self) -> dict[str, AskedQuestion]:
        return dict(read_members(self._folder.find(self._path.name), QUESTION, "question"))

    @property
    def _written_pictures(self) -> Container[str]:
        """Documents of the pictures to write to files."""
        questions = self._questions.values() if self._all_pictures else ()
        if self._starts is None:
            return ()  # there are no pictures to write
        pools = {doc for record in questions for doc in item(record).pool}
        for split, count in (("train", self._train), ("val", self._limit)):
            if any(record.split == split for record in self._questions.values()):
                pools.update(doc for chosen in self._items(split, count) for doc in chosen.pool)
        return pools

    def _with_picture(self, source: Source, written: Container[str]) -> Source:
        if self._starts is None:
            return source
        file = self._cache / f"{source.doc}.jpg"
        if source.doc in written:
            write_picture(file, self._encoded(source.doc), f"{self._folder.root / PICTURES}, picture {source.doc}")
        # A picture that no chosen question can be shown is named all the same, so that one index serves any choice.
        return Source(source.id, source.doc, source.kind, source.title, source.text, str(file))

    def _encoded(self, id: str) -> str:
        starts, line = self._starts or (), int(id) % LINES
        path = self._folder.find(PICTURES)
        if line >= len(starts):
            raise UserError(f"{path} has {len(starts)} pictures and none with the id {id}: copy it from {RELEASE}")
        with reading(path), path.open("rb") as lines:
            lines.seek(starts[line])  # instead of reading tens of gigabytes
            # A wrong offset may lead anywhere: undecodable bytes then fail the comparison of ids below.
            stored, _, encoded = lines.readline(ROW).decode("ascii", errors="replace").partition("\t")
        if stored != id:
            # Cut, because a wrong offset may give a whole picture for an id.
            raise UserError(f"{path} has picture {stored[:40]!r} where imgs.lineidx has {id}: copy both again")
        return encoded

    @cached_property
    def _starts(self) -> tuple[int, ...] | None:
        """The start of each line of imgs.tsv, in bytes; None without the file."""
        if self._folder.file(PICTURES) is None:
            log.warning("webqa: %s has no imgs.tsv, so that pictures are described by title and caption", self._folder)
            return None
        path = self._folder.find("imgs.lineidx")
        with reading(path), path.open("rb") as file:
            content = file.read(OFFSETS + 1)
        if len(content) > OFFSETS:
            raise UserError(
                f"{path} has more than {OFFSETS // MB} MB: no official release has so much; download it again"
            )
        try:
            starts = tuple(map(int, content.split()))
        except ValueError as error:
            raise UserError(f"{path} is not a list of whole numbers ({error}): copy it again from {RELEASE}") from error
        if any(not 0 <= start < 2**63 for start in starts):
            raise UserError(f"{path} has a number that is no place in a file: copy it again from {RELEASE}")
        return starts


def item(record: AskedQuestion) -> Item:
    """Pool: the question's snippets and pictures, distractors included. Gold: keywords where they are released."""
    pool = tuple(source.doc for source in facts(record))
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
    return Item(
        question=Question(record.Guid, unquoted(record.Q)),
        gold=gold,
        pool=tuple(dict.fromkeys(pool)),
        supporting=tuple(dict.fromkeys(source.doc for source in stated(record.txt_posFacts, record.img_posFacts))),
        tags={"category": category, "modality": "text" if category == "text" else "image"},
    )


def facts(record: AskedQuestion) -> tuple[Source, ...]:
    """Snippets, then pictures; those that hold the answer first, as the release has them."""
    return stated(record.txt_posFacts + record.txt_negFacts, record.img_posFacts + record.img_negFacts)


def stated(snippets: Sequence[Snippet], pictures: Sequence[Picture]) -> tuple[Source, ...]:
    return (
        *(Source(fact.snippet_id, fact.snippet_id, Kind.TEXT, fact.title, fact.fact) for fact in snippets),
        *(Source(str(p.image_id), str(p.image_id), Kind.IMAGE, p.title, p.caption) for p in pictures),
    )


def unquoted(text: str) -> str:
    """Without the quotation marks that the release keeps around its image questions' text."""
    # Inside, the release doubles quotation marks, as CSV does.
    text = text.strip()
    quoted = len(text) > 1 and text.startswith('"') and text.endswith('"')
    return text[1:-1].replace('""', '"').strip() if quoted else text


def _make(request: DataRequest) -> WebQa:
    return WebQa(
        request.root,
        request.cache / "webqa",
        train=request.train,
        limit=request.settings.limit,
        seed=request.seed,
        all_pictures=request.whole_corpus,
        allow_links=request.settings.allow_links,
    )


WEBQA = DatasetKind("webqa", RELEASE, _make)
