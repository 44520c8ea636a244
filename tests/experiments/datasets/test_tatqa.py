"""TAT-QA: paragraphs and table rows of financial reports."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from actors.errors import UserError
from actors.messages import Kind
from experiments.datasets.tatqa import TatQa, row_sources, same_number

ROWS = [
    ["", "2019", "2018"],
    ["", "(in millions)", ""],
    ["Assets:", "", ""],
    ["Inventories", "$ 124", "114"],
    ["", "", ""],
    ["Total", "130", ""],
    ["Debts:", "", ""],
    ["Bonds", "", "7"],
]


def asked(uid: str, **changes: Any) -> dict[str, Any]:
    kind = {
        "answer": ["$ 124"],
        "answer_type": "span",
        "answer_from": "table-text",
        "rel_paragraphs": ["2"],
        "scale": "",
    }
    return {"uid": uid, "question": "How much?", **kind, **changes}


def report(*questions: dict[str, Any]) -> dict[str, Any]:
    paragraphs = [{"uid": "p2", "order": 2, "text": "second"}, {"uid": "p1", "order": 1, "text": "first"}]
    return {"table": {"uid": "t", "table": ROWS}, "paragraphs": paragraphs, "questions": list(questions)}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    computed = asked("q2", answer=-12.6, answer_type="arithmetic", answer_from="table", rel_paragraphs=[])
    (tmp_path / "tatqa_dataset_dev.json").write_text(json.dumps([report(asked("q1"), computed)]))
    return tmp_path


def test_the_real_part_parses(shared_data: Path) -> None:
    dataset = TatQa.at(shared_data / "tatqa")
    items, corpus = list(dataset.evaluate()), list(dataset.corpus())
    assert len(items) == 840
    assert len({source.id for source in corpus}) == len(corpus)
    docs = {source.doc for source in corpus}
    assert all(item.supporting and set(item.supporting) <= set(item.pool) <= docs for item in items)
    assert all(dataset.score(item, "; ".join(item.gold)).utility == 1.0 for item in items)


def test_rows_carry_their_headers_and_section() -> None:
    rows = list(row_sources("t", ROWS))
    assert [(row.id, row.text) for row in rows] == [
        ("t:3", "Assets: Inventories; 2019 (in millions) = $ 124; 2018 = 114"),
        ("t:5", "Assets: Total; 2019 (in millions) = 130"),
        ("t:7", "Debts: Bonds; 2018 = 7"),
    ]


def test_a_label_above_the_years_titles_the_table() -> None:
    (row,) = row_sources("t", [["Expense", ""], ["", "2019"], ["Schemes", "166"]])
    assert (row.title, row.text) == ("Expense", "Schemes; 2019 = 166")


def test_supporting_are_the_named_paragraphs_and_the_table_where_used(root: Path) -> None:
    span, computed = TatQa.at(root).evaluate()
    assert (span.supporting, span.pool) == (("p2", "t"), ("p1", "p2", "t"))
    assert (computed.supporting, computed.gold) == (("t",), ("-12.6",))
    assert [source.id for source in TatQa.at(root).corpus() if source.kind is Kind.TEXT] == ["p1", "p2"]


def test_computed_answers_are_compared_as_numbers(root: Path) -> None:
    dataset = TatQa.at(root)
    _, item = dataset.evaluate()
    answers = ("-12.6 million", "12.6", "(12.60)", "from 44 to 31: -12.6", None)
    scores = [dataset.score(item, answer) for answer in answers]
    assert [score.utility for score in scores] == [1.0, 0.0, 1.0, 0.0, 0.0]
    assert [score.strict_em for score in scores] == [1.0, 0.0, 1.0, 0.0, 0.0]


def test_a_number_matches_to_half_a_unit_of_golds_last_digit() -> None:
    assert same_number("-22.224%", "-22.22")
    assert not same_number("-22.23%", "-22.22")
    assert same_number("$1,452", "1452")
    assert not same_number("none", "1452")


def test_without_a_training_file_training_is_an_error_that_names_it(root: Path) -> None:
    with pytest.raises(UserError, match=r"tatqa_dataset_train\.json.*github\.com/NExTplusplus/TAT-QA"):
        list(TatQa.at(root).train())


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ({**report(asked("q1")), "paragraphs": [], "table": {"uid": "t", "table": [[""]]}}, "no sources: report t"),
        (report(asked("q1", answer=[""])), "that is not empty"),
        (report(asked("q1", rel_paragraphs=["7"])), "no '7'"),
        (3, "not of the official release's form"),
    ],
)
def test_a_bad_report_is_named_by_its_place(root: Path, bad: Any, said: str) -> None:
    (root / "tatqa_dataset_dev.json").write_text(json.dumps([report(asked("q1")), bad]))
    with pytest.raises(UserError, match=rf"tatqa_dataset_dev\.json, report 1: .*{said}"):
        list(TatQa.at(root).evaluate())
