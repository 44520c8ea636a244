"""Counts the outcomes of reading a corpus of replies: read, asked again, refused or wrong.

python -m tests.actors.prompting.corpus_report          (`-v wrong`, `-v "asked again"`: shows these replies)
"""

import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from actors.messages import Field, FieldKind, Value
from actors.prompting.form import Form
from actors.prompting.reply import Reading, read
from actors.prompting.safe_text import one_line
from tests.actors.prompting.forms import FORMS

CORPUS = Path(__file__).parent / "corpus"
# Folders: replies that a model gave, and imitations of the habits of others. Names and rare words of the questions that
# the models were asked are replaced by invented ones.
ORIGINS = ("real", "imitated")


@dataclass(frozen=True)
class Case:
    """One reply, and what a careful person reads in it (None: not enough to go by).

    unchecked: of many sampled replies, one that was not read by a person: a reading is wrong where it states anything
    that the reply does not have word for word.
    """

    origin: str
    place: str
    form: Form
    reply: str
    cut_off: bool
    expected: dict[str, Any] | None
    unchecked: bool = False

    @property
    def reading(self) -> Reading:
        return read(self.form, self.reply, self.cut_off)

    @property
    def outcome(self) -> str:
        """`read` as a person would; `refused` where a person would too; `asked again` where a person would read it; or
        `wrong`."""
        reading = self.reading
        if reading.faults:
            return "refused" if self.expected is None else "asked again"
        if self.unchecked:
            values = (word for name, value in reading.values for word in re.findall(r"\w+", value) if _is_text(name))
            return "unchecked" if {*values} <= {*re.findall(r"\w+", self.reply)} else "wrong"
        if self.expected is None:
            return "wrong"
        return "read" if values_of(reading, self.form) == expected_values(self.expected, self.form) else "wrong"


def cases() -> Iterator[Case]:
    """All replies of the corpus."""
    for path in sorted(CORPUS.glob("*/*.jsonl")):
        for number, line in enumerate(path.read_text(encoding="utf-8").rstrip("\n").split("\n"), 1):
            case = json.loads(line)
            form = Form(FORMS[case["form"]], tuple(case.get("choices", ())))
            place, cut_off = f"{path.stem}:{number}", case.get("cut_off", False)
            unchecked = case.get("unchecked", False)
            yield Case(path.parent.name, place, form, case["reply"], cut_off, case["read"], unchecked)


def _is_text(name: str) -> bool:
    """False for fields whose value may be spelt in another way: a choice's letter, a number, a verdict."""
    texts = (FieldKind.THOUGHT, FieldKind.SUB_QUESTION, FieldKind.KEYWORD, FieldKind.CANDIDATE, FieldKind.TRIPLE)
    return name in (*texts, FieldKind.REASONING, FieldKind.SUMMARY, FieldKind.DESCRIPTION, FieldKind.ENTITY)


def values_of(reading: Reading, form: Form) -> dict[str, Any]:
    """The values by field as a person would note them; fields without a value are left out."""
    found: dict[str, Any] = {}
    for field in form.fields:
        values = [value for name, value in reading.values if name == field.name]
        if not values and not reading.faults and field.value is Value.ANSWER and not field.optional:
            found[field.name] = None
        elif values and field.kind is not FieldKind.REASONING:
            found[field.name] = [_noted(field, v) for v in values] if field.many else _noted(field, values[-1])
    return found


def expected_values(expected: dict[str, Any], form: Form) -> dict[str, Any]:
    by_name = {field.name: field for field in form.fields}
    found: dict[str, Any] = {}
    for name, value in expected.items():
        field = by_name[name]
        if field.many:
            if value:
                found[name] = [_plain(item) for item in value]
        elif value is None:
            if not field.optional:
                found[name] = None
        elif value != []:
            found[name] = _plain(value) if isinstance(value, str) else value
    return found


def _noted(field: Field, value: str) -> Any:
    if field.value is Value.SHARE:
        return float(value)
    if field.value is Value.NUMBERS:
        return [int(number) for number in value.split(", ")]
    return _plain(value)


def _plain(text: str) -> str:
    """A full stop at the end, and how blanks are set, are all the same to a person."""
    return one_line(text).rstrip(".")


def main() -> None:
    counts: dict[str, Counter[str]] = {origin: Counter() for origin in ORIGINS}
    for case in cases():
        outcome = case.outcome
        counts[case.origin][outcome] += 1
        if "-v" in sys.argv and outcome in sys.argv:
            print(f"=== {case.place} {outcome}\n{case.reply}\n--- expected {case.expected}")
            faults = [(fault.field.name, fault.reason) for fault in case.reading.faults]
            print(f"--- read {values_of(case.reading, case.form)} {faults}")
    for origin, outcomes in counts.items():
        listed = ", ".join(f"{name} {count}" for name, count in sorted(outcomes.items()))
        print(f"{outcomes.total()} {origin} replies: {listed}")


if __name__ == "__main__":
    main()
