"""TAT-QA (Zhu et al. 2021): questions over one table and a few paragraphs of a financial report.

A number in an answer has a scale, such as `12.6 million` or `4.1%`: the official metric counts it.
"""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import Annotated, Any, ClassVar

from pydantic import PlainValidator, StrictInt
from pydantic_core import PydanticCustomError

from actors.errors import UserError
from actors.messages import Kind, Question, Source
from experiments.datasets.benchmark import Benchmark, Parts
from experiments.datasets.fields import Id, Label, Many, NonBlank, Text, answer_text, inside
from experiments.datasets.item import Item, Score, text_score
from experiments.datasets.kind import DataRequest, DatasetKind
from experiments.datasets.reading import each, once, placed, read_elements
from experiments.datasets.report_tables import row_sources
from experiments.metrics.tatqa_metric import official_score
from topologies.amounts import Reading, scaled

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


class TatQa(Benchmark):
    """Trains on tatqa_dataset_train.json and evaluates on the dev file or, where only that is there, a part of it.

    `data.metric=official` is the script's EM and F1. `data.metric=containment` ignores the scale: EM by containment or,
    for a computed answer, equality of numbers, and F1 of bags of tokens.
    """

    name = "tatqa"
    release = "the dataset_raw/ folder of github.com/NExTplusplus/TAT-QA"
    parts: ClassVar[Parts] = {
        "train": ("tatqa_dataset_train.json",),
        "dev": ("tatqa_dataset_dev.json", "tatqa_dataset_dev_part.json"),
    }

    def __init__(self, request: DataRequest) -> None:
        super().__init__(request)
        self.metric = "EM" if self.settings.metric == "official" else "EM (containment)"

    def check_files(self) -> None:
        super().check_files()
        if (file := self.path("dev")).stem.endswith("_part"):
            self.note(f"tatqa: {file} is a part of the dev file")

    def split(self, name: str, count: int | None) -> Iterator[Item]:
        reports = each(read_elements(self.path(name), TatQaReport, "report"), report_items)
        return self.limited(chain.from_iterable(reports), lambda item: item.question.id, count)

    def sources(self) -> Iterator[Source]:
        """Paragraphs and table rows of the dev file and, where there is one, of the training file."""
        seen: set[str] = set()
        for name in ("dev", "train") if self.has("train") else ("dev",):
            for where, report in read_elements(self.path(name), TatQaReport, "report"):
                for source in sources_of(report):
                    with placed(where):
                        once(source.id, seen)
                    yield source

    def score(self, item: Item, answer: str | None) -> Score:
        computed = item.tags["answer_type"] in COMPUTED
        gold, scale = without_scale(item.gold, item.tags["scale"])
        if self.settings.metric == "official":
            em, f1 = official_score(answer, gold, scale, computed=computed) if answer else (0.0, 0.0)
            return Score(em, f1, em)
        # As text, 12.34 would miss the gold 12.3, and "12 or 13" would contain the gold 12.
        if answer is not None and computed and is_number(gold[0]):
            equal = float(same_number(answer, gold[0]))
            return Score(equal, equal, equal)
        return text_score(replace(item, gold=gold), answer)


def report_items(report: TatQaReport) -> list[Item]:
    """The questions of a report. The named paragraphs and, where used, the whole table are supporting."""
    paragraphs = {str(paragraph.order): paragraph.uid for paragraph in report.paragraphs}
    pool = tuple(dict.fromkeys(source.doc for source in sources_of(report)))
    if not pool:
        raise UserError(f"its questions have no sources: report {report.table} needs paragraphs or a table with values")
    items = []
    for question in report.questions:
        if missing := [order for order in question.rel_paragraphs if order not in paragraphs]:
            raise UserError(f"question {question.uid} needs a paragraph that is not there: no {missing[0]!r}")
        if question.answer_type in COMPUTED and not is_number(question.answer[0]):
            raise UserError(f"question {question.uid} is {question.answer_type}, and {question.answer[0]!r} no number")
        supporting = [paragraphs[order] for order in question.rel_paragraphs]
        if "table" in question.answer_from:
            supporting.append(report.table)
        tags = {name: getattr(question, name) for name in ("answer_type", "answer_from", "scale")}
        asked = Question(question.uid, question.question, compared="amounts")
        gold = tuple(f"{text} {question.scale}".strip() for text in question.answer)
        items.append(Item(asked, gold, pool, tuple(supporting), tags=tags, cluster=report.table))
    return items


def sources_of(report: TatQaReport) -> list[Source]:
    """Paragraphs in order, then table rows "Label; header = value; header = value"."""
    ordered = sorted(report.paragraphs, key=lambda paragraph: paragraph.order)
    texts = [Source(part.uid, part.uid, Kind.TEXT, "Paragraph", part.text) for part in ordered]
    return [*texts, *row_sources(report.table, report.rows)]


def without_scale(gold: tuple[str, ...], scale: str) -> Reading:
    """The answers of an item as the release has them, and their scale."""
    if scale and not all(text.endswith(f" {scale}") for text in gold):
        return scaled(gold)  # of another item: an attack's target answer
    return tuple(text.removesuffix(f" {scale}") for text in gold), scale


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
