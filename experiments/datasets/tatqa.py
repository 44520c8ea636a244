"""TAT-QA (Zhu et al. 2021): questions over one table and a few paragraphs of a financial report."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator
from pathlib import Path
from typing import Any

from actors.errors import UserError
from actors.messages import Kind, Question, Source
from experiments.datasets.files import Record, find, from_record, number_text, read_json, row_cells
from experiments.datasets.item import Item, Score, text_score
from experiments.datasets.kind import DatasetKind
from experiments.datasets.subset import limited

RELEASE = "the dataset_raw/ folder of github.com/NExTplusplus/TAT-QA"
# The whole dev file first.
DEV = ("tatqa_dataset_dev.json", "tatqa_dataset_dev_part.json")


class TatQa:
    """Trains on tatqa_dataset_train.json and evaluates on the dev file or, where only that is there, a part of it.

    `train` and `limit` cap the training and evaluation questions (None: all); `seed` chooses which.
    """

    name = "tatqa"
    metric = "EM"

    def __init__(self, root: Path, *, train: int | None = None, limit: int | None = None, seed: int = 0) -> None:
        self._root = root
        self._train = train
        self._limit = limit
        self._seed = seed

    def train(self) -> Iterator[Item]:
        return self._items(find(self._root, "tatqa_dataset_train.json", RELEASE), self._train)

    def evaluate(self) -> Iterator[Item]:
        return self._items(self._dev(), self._limit)

    def corpus(self, docs: Container[str] | None = None) -> Iterator[Source]:
        """Paragraphs and table rows of the dev file and, where there is one, of the training file."""
        train = self._root / "tatqa_dataset_train.json"
        for path in (self._dev(), *([train] if train.is_file() else [])):
            for number, report in enumerate(read_json(path, list)):
                for source in from_record(report, sources, f"{path}, report {number}"):
                    if docs is None or source.doc in docs:
                        yield source

    def score(self, item: Item, answer: str | None) -> Score:
        """EM by containment or, for a computed answer, equality of numbers; F1 of bags of tokens.

        Not the official metric: the scale ("million") is not part of the answer.
        """
        # As text, 12.34 would miss the gold 12.3, and "12 or 13" would contain the gold 12.
        if answer is not None and item.tags["answer_type"] in ("arithmetic", "count"):
            equal = float(same_number(answer, item.gold[0]))
            return Score(equal, equal, equal)
        return text_score(item, answer)

    def _dev(self) -> Path:
        return next((self._root / name for name in DEV if (self._root / name).is_file()), None) or find(
            self._root, DEV[0], RELEASE
        )

    def _items(self, path: Path, count: int | None) -> Iterator[Item]:
        items = [
            item
            for number, report in enumerate(read_json(path, list))
            for item in from_record(report, report_items, f"{path}, report {number}")
        ]
        return limited(items, lambda item: item.question.id, count, self._seed)


def report_items(report: Record) -> tuple[Item, ...]:
    """The questions of one report. Supporting: the paragraphs named by order and, where used, the whole table."""
    table = report["table"]["uid"]
    paragraphs = {str(paragraph["order"]): paragraph["uid"] for paragraph in report["paragraphs"]}
    pool = tuple(dict.fromkeys(source.doc for source in sources(report)))
    if not pool:
        raise UserError(f"its questions have no sources: report {table} needs paragraphs or a table with values")
    items = []
    for question in report["questions"]:
        # The release names paragraphs by their `order`, here by id.
        supporting = [paragraphs[order] for order in question["rel_paragraphs"]]
        if "table" in question["answer_from"]:
            supporting.append(table)
        items.append(
            Item(
                question=Question(question["uid"], question["question"]),
                gold=gold_answers(question["answer"]),
                pool=pool,
                supporting=tuple(supporting),
                tags={key: question[key] for key in ("answer_type", "answer_from", "scale")},
            )
        )
    return tuple(items)


def gold_answers(answer: Any) -> tuple[str, ...]:
    """Spans are a list (empty ones are dropped), counts a string, computed answers a number."""
    spans = answer if isinstance(answer, list) else [answer if isinstance(answer, str) else number_text(answer)]
    gold = tuple(span for span in spans if span.strip())
    if not gold:
        raise ValueError("a question without an answer")
    return gold


def sources(report: Record) -> tuple[Source, ...]:
    """Paragraphs in order, then table rows "Label; header = value; header = value"."""
    ordered = sorted(report["paragraphs"], key=lambda paragraph: int(paragraph["order"]))
    texts = [Source(part["uid"], part["uid"], Kind.TEXT, "Paragraph", part["text"]) for part in ordered]
    return (*texts, *row_sources(report["table"]["uid"], report["table"]["table"]))


def row_sources(table: str, rows: list[list[str]]) -> Iterator[Source]:
    """Rows below the header. A header is the rows before the first with a label and a value, or else the first row.

    A row with a label alone ("Assets") heads the rows that follow: their label becomes "Assets: Inventories".
    """
    # `or 1`: where the very first row has values, it is the header all the same.
    first = next((n for n, row in enumerate(rows) if row[0] and any(row[1:])), len(rows)) or 1
    head, section = rows[:first], ""
    # A header's last row may be the label of the first section.
    if head[-1][0] and not any(head[-1][1:]) and any(any(row[1:]) for row in head):
        section = head.pop()[0].rstrip(":")
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


TATQA = DatasetKind("tatqa", RELEASE, lambda r: TatQa(r.root, train=r.train, limit=r.settings.limit, seed=r.seed))
