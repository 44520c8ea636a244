"""TAT-QA (Zhu et al. 2021): questions over one table and a few paragraphs of a financial report."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import PlainValidator, StrictInt, TypeAdapter
from pydantic_core import PydanticCustomError

from actors.errors import UserError
from actors.messages import Kind, Question, Source
from experiments.datasets.benchmark import Benchmark
from experiments.datasets.fields import Id, Label, Many, NonBlank, Text, answer_text, inside
from experiments.datasets.item import Item, Score, text_score
from experiments.datasets.kind import DatasetKind
from experiments.datasets.reading import once, placed, read_elements, row_cells

FILES = {
    "train": ("tatqa_dataset_train.json",),
    "dev": ("tatqa_dataset_dev.json", "tatqa_dataset_dev_part.json"),
}
COMPUTED = ("arithmetic", "count")  # types whose answers are compared as numbers


def _answers(value: Any) -> tuple[str, ...]:
    """Spans are a list (empty ones are dropped), counts a text, computed answers a number."""
    texts = value if isinstance(value, list) else [answer_text(value)]
    gold = tuple(text for text in texts if isinstance(text, str) and text.strip())
    if not gold or not all(isinstance(text, str) for text in texts):
        raise PydanticCustomError("answers", "an answer (text, a number or a list of texts) that is not empty")
    return gold


@dataclass(frozen=True, slots=True)
class TatQaParagraph:
    uid: Id
    order: StrictInt
    text: Text


@dataclass(frozen=True, slots=True)
class TatQaQuestion:
    """`rel_paragraphs` are the orders of paragraphs, as texts."""

    uid: Id
    question: NonBlank
    answer: Annotated[tuple[str, ...], PlainValidator(_answers)]
    answer_type: Label
    answer_from: Label
    scale: Label
    rel_paragraphs: Many[Label]


@dataclass(frozen=True, slots=True)
class TatQaReport:
    """An element of a file's list."""

    table: Annotated[Id, inside("table", "uid")]
    rows: Annotated[Many[Many[Text]], inside("table", "table")]
    paragraphs: Many[TatQaParagraph]
    questions: Many[TatQaQuestion]


REPORT = TypeAdapter(TatQaReport)


class TatQa(Benchmark):
    """Trains on tatqa_dataset_train.json and evaluates on the dev file or, where only that is there, a part of it."""

    name = "tatqa"
    release = "the dataset_raw/ folder of github.com/NExTplusplus/TAT-QA"

    def split(self, name: str, count: int | None) -> Iterator[Item]:
        items: list[Item] = []
        for where, report in read_elements(self.folder.find(*FILES[name]), REPORT, "report"):
            with placed(where):
                items += report_items(report)
        return self.limited(items, lambda item: item.question.id, count)

    def sources(self) -> Iterator[Source]:
        """Paragraphs and table rows of the dev file and, where there is one, of the training file."""
        seen: set[str] = set()
        for name in ("dev", "train") if self.folder.file(*FILES["train"]) else ("dev",):
            for where, report in read_elements(self.folder.find(*FILES[name]), REPORT, "report"):
                with placed(where):
                    found = sources_of(report)
                    for source in found:
                        once(source.id, seen)
                yield from found

    def score(self, item: Item, answer: str | None) -> Score:
        """EM by containment or, for a computed answer, equality of numbers; F1 of bags of tokens.

        Not the official metric: the scale ("million") is not part of the answer.
        """
        # As text, 12.34 would miss the gold 12.3, and "12 or 13" would contain the gold 12.
        if answer is not None and item.tags["answer_type"] in COMPUTED:
            equal = float(same_number(answer, item.gold[0]))
            return Score(equal, equal, equal)
        return text_score(item, answer)


def report_items(report: TatQaReport) -> Iterator[Item]:
    """The questions of a report. The named paragraphs and, where used, the whole table are supporting."""
    paragraphs = {str(paragraph.order): paragraph.uid for paragraph in report.paragraphs}
    pool = tuple(dict.fromkeys(source.doc for source in sources_of(report)))
    if not pool:
        raise UserError(f"its questions have no sources: report {report.table} needs paragraphs or a table with values")
    for question in report.questions:
        if missing := [order for order in question.rel_paragraphs if order not in paragraphs]:
            raise UserError(f"question {question.uid} needs a paragraph that is not there: no {missing[0]!r}")
        if question.answer_type in COMPUTED and not is_number(question.answer[0]):
            raise UserError(f"question {question.uid} is {question.answer_type}, and {question.answer[0]!r} no number")
        supporting = [paragraphs[order] for order in question.rel_paragraphs]
        if "table" in question.answer_from:
            supporting.append(report.table)
        yield Item(
            question=Question(question.uid, question.question),
            gold=question.answer,
            pool=pool,
            supporting=tuple(supporting),
            tags={name: getattr(question, name) for name in ("answer_type", "answer_from", "scale")},
        )


def sources_of(report: TatQaReport) -> list[Source]:
    """Paragraphs in order, then table rows "Label; header = value; header = value"."""
    ordered = sorted(report.paragraphs, key=lambda paragraph: paragraph.order)
    texts = [Source(part.uid, part.uid, Kind.TEXT, "Paragraph", part.text) for part in ordered]
    return [*texts, *row_sources(report.table, report.rows)]


def row_sources(table: str, rows: Sequence[Sequence[str]]) -> Iterator[Source]:
    """Rows below the header. A header is the rows before the first with a label and a value, or else the first row.

    A row with a label alone ("Assets") heads the rows that follow: their label becomes "Assets: Inventories".
    Raises UserError for a row without cells or of another width than its header.
    """
    if not all(rows):
        raise UserError(f"table {table} has a row without cells: expected as many as in its header")
    if not rows:
        return
    # `or 1`: a first row with values is the header all the same.
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
    # 1e-9: a difference of just half a unit counts, whatever binary fractions make of it.
    return abs((-digits if negative else digits) - float(gold)) <= 0.5 * 10.0**-decimals + 1e-9


TATQA = DatasetKind("tatqa", TatQa.release, TatQa)
