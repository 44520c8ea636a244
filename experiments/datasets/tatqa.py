"""TAT-QA (Zhu et al. 2021): questions over one table and a few paragraphs of a financial report."""

from __future__ import annotations

import math
import re
from collections.abc import Container, Iterator, Sequence
from pathlib import Path

from actors.errors import UserError
from actors.messages import Kind, Question, Source
from experiments.datasets.files import from_record, row_cells
from experiments.datasets.folder import Folder
from experiments.datasets.item import Item, Score, text_score
from experiments.datasets.json_members import read_elements
from experiments.datasets.kind import DataRequest, DatasetKind
from experiments.datasets.layouts.tatqa import REPORT, Report
from experiments.datasets.subset import limited
from experiments.datasets.unique import once

RELEASE = "the dataset_raw/ folder of github.com/NExTplusplus/TAT-QA"
# The whole dev file first.
TRAIN = "tatqa_dataset_train.json"
DEV = ("tatqa_dataset_dev.json", "tatqa_dataset_dev_part.json")
COMPUTED = ("arithmetic", "count")  # types whose answers are compared as numbers


class TatQa:
    """Trains on tatqa_dataset_train.json and evaluates on the dev file or, where only that is there, a part of it.

    `train` and `limit` cap the training and evaluation questions (None: all); `seed` chooses which.
    """

    name = "tatqa"
    metric = "EM"

    def __init__(
        self,
        root: Path,
        *,
        train: int | None = None,
        limit: int | None = None,
        seed: int = 0,
        allow_links: bool = False,
    ) -> None:
        self._folder = Folder(root, RELEASE, allow_links=allow_links)
        self._train = train
        self._limit = limit
        self._seed = seed

    def train(self) -> Iterator[Item]:
        return self._items(self._folder.find(TRAIN), self._train)

    def evaluate(self) -> Iterator[Item]:
        return self._items(self._dev(), self._limit)

    def corpus(self, docs: Container[str] | None = None) -> Iterator[Source]:
        """Paragraphs and table rows of the dev file and, where there is one, of the training file."""
        train = self._folder.file(TRAIN)
        seen: set[str] = set()
        for path in (self._dev(), *([train] if train else [])):
            for number, report in read_elements(path, REPORT, "report"):
                where = f"{path}, report {number}"
                for source in from_record(report, sources, where):
                    from_record(source.id, lambda id: once(id, seen), where)
                    if docs is None or source.doc in docs:
                        yield source

    def score(self, item: Item, answer: str | None) -> Score:
        """EM by containment or, for a computed answer, equality of numbers; F1 of bags of tokens.

        Not the official metric: the scale ("million") is not part of the answer.
        """
        # As text, 12.34 would miss the gold 12.3, and "12 or 13" would contain the gold 12.
        if answer is not None and item.tags["answer_type"] in COMPUTED:
            equal = float(same_number(answer, item.gold[0]))
            return Score(equal, equal, equal)
        return text_score(item, answer)

    def _dev(self) -> Path:
        return next(filter(None, map(self._folder.file, DEV)), None) or self._folder.find(DEV[0])

    def _items(self, path: Path, count: int | None) -> Iterator[Item]:
        items = [
            item
            for number, report in read_elements(path, REPORT, "report")
            for item in from_record(report, report_items, f"{path}, report {number}")
        ]
        return limited(items, lambda item: item.question.id, count, self._seed)


def report_items(report: Report) -> tuple[Item, ...]:
    """The questions of one report. Supporting: the paragraphs named by order and, where used, the whole table."""
    table = report.table.uid
    paragraphs = {str(paragraph.order): paragraph.uid for paragraph in report.paragraphs}
    pool = tuple(dict.fromkeys(source.doc for source in sources(report)))
    if not pool:
        raise UserError(f"its questions have no sources: report {table} needs paragraphs or a table with values")
    items = []
    for question in report.questions:
        if missing := [order for order in question.rel_paragraphs if order not in paragraphs]:
            raise UserError(f"question {question.uid} rests on a paragraph that is not there: no {missing[0]!r}")
        if question.answer_type in COMPUTED and not is_number(question.answer[0]):
            raise UserError(f"question {question.uid} is {question.answer_type}, and {question.answer[0]!r} no number")
        # The release names paragraphs by their `order`, here by id.
        supporting = [paragraphs[order] for order in question.rel_paragraphs]
        if "table" in question.answer_from:
            supporting.append(table)
        items.append(
            Item(
                question=Question(question.uid, question.question),
                gold=question.answer,
                pool=pool,
                supporting=tuple(supporting),
                tags={
                    "answer_type": question.answer_type,
                    "answer_from": question.answer_from,
                    "scale": question.scale,
                },
            )
        )
    return tuple(items)


def sources(report: Report) -> tuple[Source, ...]:
    """Paragraphs in order, then table rows "Label; header = value; header = value"."""
    ordered = sorted(report.paragraphs, key=lambda paragraph: paragraph.order)
    texts = [Source(part.uid, part.uid, Kind.TEXT, "Paragraph", part.text) for part in ordered]
    return (*texts, *row_sources(report.table.uid, report.table.table))


def row_sources(table: str, rows: Sequence[Sequence[str]]) -> Iterator[Source]:
    """Rows below the header. A header is the rows before the first with a label and a value, or else the first row.

    A row with a label alone ("Assets") heads the rows that follow: their label becomes "Assets: Inventories".
    Raises UserError for a row without cells or of another width than its header.
    """
    if not all(rows):
        raise UserError(f"table {table} has a row without cells: expected as many as in its header")
    if not rows:
        return
    # `or 1`: where the very first row has values, it is the header all the same.
    first = next((n for n, row in enumerate(rows) if row[0] and any(row[1:])), len(rows)) or 1
    head, section = list(rows[:first]), ""
    # A header's last row may be the label of the first section.
    if head[-1][0] and not any(head[-1][1:]) and any(any(row[1:]) for row in head):
        section = head.pop()[0].rstrip(":")
    if len({len(row) for row in head}) > 1:
        raise UserError(f"table {table} has a header whose rows are of different widths")
    headers = [" ".join(cell for cell in column if cell) for column in zip(*head, strict=True)]
    # Ids are places in the whole table, header rows included.
    for number, row in enumerate(rows[first:], start=first):
        label, values = row[0].rstrip(":"), row[1:]
        if label and not any(values):
            section = label
            continue
        cells = row_cells(headers[1:], values)
        name = ": ".join(part for part in (section, label) if part)
        if cells:
            title = headers[0] or "Table"
            yield Source(f"{table}:{number}", table, Kind.TABLE, title, "; ".join([name, *cells] if name else cells))


def is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def same_number(answer: str, gold: str) -> bool:
    """True where the only number in the answer is the gold one, to half a unit of the gold's last digit."""
    # With sign, currency, thousands separators and brackets; an answer with several numbers is no answer.
    numbers = re.findall(r"\(?-?\$?\d[\d,]*\.?\d*\)?", answer)
    if len(numbers) != 1:
        return False
    digits = float(re.sub(r"[^\d.]", "", numbers[0]).rstrip(".") or "nan")
    # Financial reports write losses in brackets.
    negative = "-" in numbers[0] or (numbers[0].startswith("(") and numbers[0].endswith(")"))
    decimals = len(gold.partition(".")[2])
    # 1e-9: a difference of just half a unit must count, whatever binary fractions make of it.
    return abs((-digits if negative else digits) - float(gold)) <= 0.5 * 10.0**-decimals + 1e-9


def _make(request: DataRequest) -> TatQa:
    data = request.settings
    return TatQa(request.root, train=request.train, limit=data.limit, seed=request.seed, allow_links=data.allow_links)


TATQA = DatasetKind("tatqa", RELEASE, _make)
