"""The reader on a corpus of replies: it reads what a careful person reads, and nothing wrongly."""

import json
from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import Any

import pytest

from actors.messages import FieldKind
from actors.prompting.form import Form
from actors.prompting.reply import read
from tests.actors.prompting.corpus_report import CORPUS, Case, cases
from tests.actors.prompting.forms import FORMS


@cache
def outcomes() -> Sequence[tuple[str, Case]]:
    """(outcome, case) for all replies; read once for all tests."""
    return [(case.outcome, case) for case in cases()]


def test_there_are_a_thousand_replies_and_at_least_eight_of_every_form() -> None:
    assert len(outcomes()) >= 1000
    counts = Counter(case.form.fields for _, case in outcomes())
    assert {name: counts[fields] for name, fields in FORMS.items() if counts[fields] < 8} == {}


def test_no_reply_is_read_wrongly() -> None:
    assert [case.place for outcome, case in outcomes() if outcome == "wrong"] == []


@pytest.mark.parametrize(("origin", "most"), [("real", 0.07), ("imitated", 0.19)])
def test_of_what_a_person_reads_few_are_asked_again(origin: str, most: float) -> None:
    readable = [(outcome, c) for outcome, c in outcomes() if c.origin == origin and c.expected is not None]
    asked_again = [case.place for outcome, case in readable if outcome == "asked again"]
    assert len(asked_again) <= most * len(readable), asked_again


VERDICTS = {"verdict": FieldKind.ENOUGH, "grade": FieldKind.GRADE}
NEIGHBOURS = (CORPUS / "neighbours.jsonl").read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("case", [json.loads(line) for line in NEIGHBOURS])
def test_a_value_is_read_only_where_nothing_around_it_can_change_it(case: dict[str, Any]) -> None:
    """Outcomes are an answer, `unknown`, `asked again`, or a confidence (`none`) where the case is about that."""
    reading = read(Form(FORMS[case["form"]], tuple(case.get("choices", ()))), case["reply"], case.get("cut_off", False))
    wanted = case["wants"] if "wants" in case else case["want"].replace(", or ", " or ").split(" or ")
    if case["kind"].startswith("confidence"):
        stated = reading.value(FieldKind.CONFIDENCE) or "none"
        assert stated in [want.removeprefix("confidence ") for want in wanted]
        return
    value = reading.value(VERDICTS.get(case["form"], FieldKind.ANSWER))
    assert ("asked again" if reading.faults else "unknown" if value is None else value) in wanted
