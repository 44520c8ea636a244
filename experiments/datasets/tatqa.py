"""TAT-QA (Zhu et al. 2021): questions over one table and a few paragraphs of a financial report.

A number in an answer has a scale, such as `12.6 million` or `4.1%`: the official metric counts it.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Annotated, Any, ClassVar

from pydantic import PlainValidator, StrictInt, TypeAdapter
from pydantic_core import PydanticCustomError

from actors.errors import UserError
from actors.messages import UNTITLED_PARAGRAPH, UNTITLED_TABLE, Kind, Question, Source
from experiments.datasets.benchmark import Benchmark, Parts, docs_of, text_source
from experiments.datasets.fields import Id, Label, Many, NonBlank, Text, answer_text, inside
from experiments.datasets.item import Item, Score, text_score
from experiments.datasets.kind import OF_FILES, DataRequest
from experiments.datasets.reading import each, once, placed, read_json, row_cells
from experiments.metrics.tatqa_metric import official_score
from topologies.amounts import scaled

COMPUTED = ("arithmetic", "count")  # types whose answers are compared as numbers
# A year, alone or in a date, but not in 2,019 or $2019; FY18, F19, Q4 2018.
_PERIOD = re.compile(r"(?<![\d,.$€£¥])(?:19|20)\d\d(?![\d,.]*\d)|\b(?:FY|F|Q[1-4])\s?[’']?\d\d\b")
_UNIT = re.compile(r"[$€£¥%]|\b(?:thousand|million|billion|percent)s?\b", re.IGNORECASE)
_LEFT_OUT = re.compile(r"\(\w\)|[A-Z]{1,3}(?=[$€£¥])|\W")  # of an amount: footnotes, currencies, punctuation
_NO_AMOUNT = ("", "na", "nm", "nil", "none")  # "" is left of a dash


def _answers(value: Any) -> tuple[str, ...]:
    """Spans are a list (empty ones are dropped), counts a text, computed answers a number."""
    texts = value if isinstance(value, list) else [answer_text(value)]
    if not all(isinstance(text, str) for text in texts) or not any(map(str.strip, texts)):
        raise PydanticCustomError("answers", "expected an answer (text, a number or a list of texts)")
    return tuple(text for text in texts if text.strip())


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
    """Element of a file's list."""

    table: Annotated[Id, inside("table", "uid")]
    rows: Annotated[Many[Many[Text]], inside("table", "table")]
    paragraphs: Many[TatQaParagraph]
    questions: Many[TatQaQuestion]


REPORTS = TypeAdapter(Many[TatQaReport])


class TatQa(Benchmark):
    """Trains on tatqa_dataset_train.json and evaluates on the dev file or, where only that is there, a part of it.

    `data.metric=official` is the script's EM and F1. `data.metric=containment` ignores the scale: EM by containment or,
    for a computed answer, equality of numbers, and F1 of bags of tokens.
    """

    name = "tatqa"
    reads = (*OF_FILES, "data.metric")
    release = "the dataset_raw/ folder of github.com/NExTplusplus/TAT-QA"
    parts: ClassVar[Parts] = {
        "train": ("tatqa_dataset_train.json",),
        "dev": ("tatqa_dataset_dev.json", "tatqa_dataset_dev_part.json"),
    }

    def __init__(self, request: DataRequest) -> None:
        super().__init__(request)
        if self.settings.metric not in ("official", "containment"):
            raise UserError(f"data.metric={self.settings.metric}: TAT-QA has official and containment; choose one")
        self.metric = "EM" if self.settings.metric == "official" else "EM (containment)"

    def check_files(self) -> None:
        super().check_files()
        file = self.path("dev")
        if file.stem.endswith("_part"):
            self.note(f"tatqa: {file} is a part of the dev file")

    def reports(self, split: str) -> Iterator[tuple[str, TatQaReport]]:
        """Yields the reports of a file with their places."""
        path = self.path(split)
        reports = read_json(path, REPORTS)
        if not reports:
            raise UserError(f"{path} has no reports: download it again")
        for number, report in enumerate(reports):
            yield f"{path}, report {number}", report

    def split(self, name: str, count: int | None) -> Iterator[Item]:
        items = chain.from_iterable(each(self.reports(name), report_items))
        return self.chosen(items, lambda item: item.question.id, count)

    def sources(self) -> Iterator[Source]:
        """Paragraphs and table rows of the dev file and, where there is one, of the training file."""
        ids = set[str]()
        splits = ("dev", "train") if self.has("train") else ("dev",)
        for split in splits:
            for where, report in self.reports(split):
                for source in sources_of(report):
                    with placed(where):
                        once(source.id, ids)
                    yield source

    def score(self, item: Item, answer: str | None) -> Score:
        is_computed = item.tags["answer_type"] in COMPUTED
        scale: str = item.tags["scale"]
        gold = tuple(text.removesuffix(f" {scale}") for text in item.gold)
        if scale and not all(text.endswith(f" {scale}") for text in item.gold):
            gold, scale = scaled(item.gold)  # of another item: an attack's target answer
        if self.settings.metric == "official":
            if not answer:
                return Score(0.0, 0.0, 0.0)
            em, f1 = official_score(answer, gold, scale, computed=is_computed)
            return Score(em, f1, em)
        # As text, 12.34 would miss the gold 12.3, and "12 or 13" would contain the gold 12.
        if answer is not None and is_computed and is_number(gold[0]):
            equal = float(same_number(answer, gold[0]))
            return Score(equal, equal, equal)

        return text_score(replace(item, gold=gold), answer)


def report_items(report: TatQaReport) -> list[Item]:
    """Makes the questions of a report. The named paragraphs and, where used, the whole table are supporting."""
    paragraphs = {str(paragraph.order): paragraph.uid for paragraph in report.paragraphs}
    pool = docs_of(sources_of(report))
    if not pool:
        raise UserError(f"its questions have no sources: report {report.table} needs paragraphs or a table with values")
    return [item_of(question, report.table, paragraphs, pool) for question in report.questions]


def item_of(question: TatQaQuestion, table: str, paragraphs: Mapping[str, str], pool: tuple[str, ...]) -> Item:
    """Makes the item of a question. `paragraphs` are ids by order."""
    missing = [order for order in question.rel_paragraphs if order not in paragraphs]
    if missing:
        raise UserError(f"question {question.uid} needs a paragraph that is not there: no {missing[0]!r}")
    if question.answer_type in COMPUTED and not is_number(question.answer[0]):
        raise UserError(f"question {question.uid} is {question.answer_type}, and {question.answer[0]!r} no number")

    supporting = [paragraphs[order] for order in question.rel_paragraphs]
    if "table" in question.answer_from:
        supporting.append(table)
    return Item(
        question=Question(question.uid, question.question, compared="amounts"),
        gold=tuple(f"{text} {question.scale}".strip() for text in question.answer),
        pool=pool,
        supporting=tuple(supporting),
        tags={
            "answer_type": question.answer_type,
            "answer_from": question.answer_from,
            "scale": question.scale,
        },
        cluster=table,
    )


def sources_of(report: TatQaReport) -> list[Source]:
    """Paragraphs in order, then table rows "Label; header = value; header = value"."""
    paragraphs = sorted(report.paragraphs, key=lambda paragraph: paragraph.order)
    sources = [text_source(paragraph.uid, UNTITLED_PARAGRAPH, paragraph.text) for paragraph in paragraphs]
    return [*sources, *row_sources(report.table, report.rows)]


def row_sources(table: str, rows: Sequence[Sequence[str]]) -> Iterator[Source]:
    """Rows below the header, with their headers: "Label; 2019 = $100; 2018 = $82".

    A row with a label alone ("Assets") heads the rows that follow: their label becomes "Assets: Inventories".
    Raises UserError for a row without cells or of another width than its header.
    """
    if not all(rows):
        raise UserError(f"table {table} has a row without cells: expected as many as in its header")

    header_length = header_rows(rows)
    # A header's last row may be the label of the first section.
    names_columns = any(any(row[1:]) for row in rows[: max(0, header_length - 1)])
    if header_length and is_section(rows[header_length - 1]) and names_columns:
        header_length -= 1
    head = rows[:header_length]
    if len({len(row) for row in head}) > 1:
        raise UserError(f"table {table} has a header whose rows are of different widths")

    headers = [" ".join(filter(None, column)) for column in zip(*head, strict=True)]
    section = ""
    # Ids are places in the whole table, header rows included.
    for number, row in enumerate(rows[header_length:], start=header_length):
        if is_section(row):
            section = next(cell for cell in row if cell.strip()).rstrip(":")
            continue
        cells = row_cells(headers[1:], row[1:])
        name = ": ".join(filter(None, (section, row[0].rstrip(":"))))
        if cells:
            text = "; ".join(filter(None, [name, *cells]))
            yield Source(f"{table}:{number}", table, Kind.TABLE, headers[0] or UNTITLED_TABLE, text)


def header_rows(rows: Sequence[Sequence[str]]) -> int:
    """Counts the rows at the top that name columns, all before the first with a label and a value.

    The first row names columns in any case; so does a later row with a label and without an amount that has a unit ("($
    in millions)", "£m"), a value in a column without a name, or the table's first years or other periods.
    """
    named_columns = set[int]()
    has_periods = False
    for number, row in enumerate(rows):
        values = {place: cell for place, cell in enumerate(row) if place and cell.strip()}
        has_new_periods = any(map(_PERIOD.search, values.values()))
        names_columns = (
            any(map(is_unit, row)) or not values.keys() <= named_columns or (has_new_periods and not has_periods)
        )
        has_label_and_value = number and row[0] and any(row[1:])
        if has_label_and_value and (not names_columns or any(map(is_amount, values.values()))):
            return number
        named_columns |= values.keys()
        has_periods = has_periods or has_new_periods

    return len(rows)


def is_amount(cell: str) -> bool:
    """True for a number, with whatever sign and currency, or for a sign that there is none."""
    digits = _LEFT_OUT.sub("", cell).lower()
    is_numeric = digits.removesuffix("x").isdigit() or digits in _NO_AMOUNT
    return is_numeric and not is_unit(cell) and not _PERIOD.search(cell)


def is_unit(cell: str) -> bool:
    """True for the unit of a column or a table, without a number of it."""
    return _UNIT.search(cell) is not None and not re.search(r"[\d–—−-]", cell.replace("000", ""))


def is_section(row: Sequence[str]) -> bool:
    """True for a row with a label alone. In another column than the first the label ends with a colon."""
    filled = [place for place, cell in enumerate(row) if cell.strip()]
    return len(filled) == 1 and (filled == [0] or row[filled[0]].rstrip().endswith(":"))


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
    value = float(re.sub(r"[^\d.]", "", numbers[0]).rstrip(".") or "nan")
    # Financial reports write losses in brackets.
    if "-" in numbers[0] or (numbers[0].startswith("(") and numbers[0].endswith(")")):
        value = -value
    decimals = len(gold.partition(".")[2])
    # 1e-9: a difference of just half a unit counts, whatever binary fractions make of it.
    return abs(value - float(gold)) <= 0.5 * 10.0**-decimals + 1e-9
