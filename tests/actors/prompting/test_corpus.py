"""The reader on a corpus of replies: it reads what a careful person reads, and nothing wrongly."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cache

from tests.actors.prompting.corpus_report import Case, cases
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


def test_of_what_a_person_reads_at_least_95_in_100_are_read_at_first() -> None:
    readable = [(outcome, case) for outcome, case in outcomes() if case.expected is not None]
    asked_again = [case.place for outcome, case in readable if outcome == "asked again"]
    assert len(asked_again) <= 0.05 * len(readable), asked_again
