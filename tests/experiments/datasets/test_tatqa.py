"""TAT-QA: paragraphs and table rows of financial reports."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from actors.errors import UserError
from actors.messages import Kind
from experiments.datasets.catalogue import dataset_kind
from experiments.datasets.item import Score
from experiments.datasets.kind import DataRequest, DataSettings
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


@pytest.mark.parametrize(
    ("table", "title", "last"),
    [
        ([["Expense", ""], ["", "2019"], ["Schemes", "166"]], "Expense", "Schemes; 2019 = 166"),
        (
            [["", "June 30,"], ["($ in millions)", "2019"], ["Cost", "$1"]],
            "($ in millions)",
            "Cost; June 30, 2019 = $1",
        ),
        ([["As of:", "2019"], ["Revenue", "£m"], ["UK", "3"]], "As of: Revenue", "UK; 2019 £m = 3"),
        (
            [["", "Due in", ""], ["Duty", "1 year", "Total"], ["Loans", "$-", "7"]],
            "Duty",
            "Loans; Due in 1 year = $-; Total = 7",
        ),
        ([["", "2019"], ["(US$ 000)", "53 weeks"], ["Cash", "(1)"]], "(US$ 000)", "Cash; 2019 53 weeks = (1)"),
        ([["", "2019"], ["Units", "2000"], ["Cost", "n/a"]], "Table", "Cost; 2019 = n/a"),
        ([["", "2019", "2018"], ["Yield", "none", "—"]], "Table", "Yield; 2019 = none; 2018 = —"),
        (
            [["", "2019", "2018"], ["Auditor", "Ann", "Bob"], ["Fee", "$2,019", "5"]],
            "Table",
            "Fee; 2019 = $2,019; 2018 = 5",
        ),
        ([["(in millions)", "2019"], ["", "Sales:"], ["Asia", "8"]], "(in millions)", "Sales: Asia; 2019 = 8"),
    ],
)
def test_rows_of_years_and_units_are_headers_whatever_their_label(
    table: list[list[str]], title: str, last: str
) -> None:
    *_, row = row_sources("t", table)
    assert (row.title, row.text) == (title, last)


def test_supporting_are_the_named_paragraphs_and_the_table_where_used(root: Path) -> None:
    span, computed = TatQa.at(root).evaluate()
    assert (span.supporting, span.pool) == (("p2", "t"), ("p1", "p2", "t"))
    assert (computed.supporting, computed.gold) == (("t",), ("-12.6",))
    assert [source.id for source in TatQa.at(root).corpus() if source.kind is Kind.TEXT] == ["p1", "p2"]


def test_the_official_metric_wants_sign_scale_and_all_of_a_list(root: Path) -> None:
    """As tatqa_metric.py scores a list and a scale, of which each text here is one way to write them."""
    listed = asked("q3", answer=["57,768", "73,260"], answer_type="multi-span", scale="thousand")
    share = asked("q4", answer=22.12, answer_type="arithmetic", scale="percent", rel_paragraphs=[])
    loss = asked("q5", answer=-12.6, answer_type="arithmetic", scale="million", rel_paragraphs=[])
    named = asked("q6", answer=["Aerospace, oil, and gas", "Sensors"], answer_type="multi-span")
    (root / "tatqa_dataset_dev.json").write_text(json.dumps([report(listed, share, loss, named)]))
    dataset = TatQa.at(root)
    expected = {
        "q3": {"57,768; 73,260 thousand": 1, "73,260 thousand and 57,768 thousand": 1, "57,768; 73,260": 0},
        "q4": {"22.12%": 1, "22.12 percent": 1, "0.2212": 1, "22.12": 0, "-22.12%": 0, "22.1%": 0},
        "q5": {
            "-12.6 million": 1,
            "$-12.6 million": 1,
            "\u221212.6 million": 1,
            "-12.6": 0,
            "12.6 million": 0,
            "-0.0126 billion": 0,
        },
        "q6": {"Sensors; the Aerospace, oil, and gas.": 0, "Sensors; Aerospace, oil, and gas.": 1, "Sensors": 0, "": 0},
    }
    for item in dataset.evaluate():
        answers = expected[item.question.id]
        assert {answer: dataset.score(item, answer).utility for answer in answers} == answers
        assert dataset.score(item, None) == Score(0.0, 0.0, 0.0)
        assert dataset.score(replace(item, gold=("4 billion",)), "4 billion").utility == 1, "an attack's target"
    assert dataset.score(item, "Sensors").f1 == 0.33
    assert item.question.compared == "amounts"


def test_containment_is_another_metric_by_name(root: Path) -> None:
    dataset = TatQa.at(root, metric="containment")
    _, item = dataset.evaluate()
    answers = ("-12.6 million", "12.6", "(12.60)", "from 44 to 31: -12.6", None)
    scores = [dataset.score(item, answer) for answer in answers]
    assert [score.utility for score in scores] == [1.0, 0.0, 1.0, 0.0, 0.0]
    assert [score.strict_em for score in scores] == [1.0, 0.0, 1.0, 0.0, 0.0]
    assert dataset.metric != TatQa.at(root).metric


def test_a_number_matches_to_half_a_unit_of_golds_last_digit() -> None:
    assert same_number("-22.224%", "-22.22")
    assert not same_number("-22.23%", "-22.22")
    assert same_number("$1,452", "1452")
    assert not same_number("none", "1452")


def test_only_a_run_that_learns_needs_the_training_file(root: Path) -> None:
    settings = DataSettings("tatqa", str(root), None)
    request = DataRequest(settings, root, train=1, held_out=0, seed=0, whole_corpus=False)
    dataset = dataset_kind("tatqa").open(request)
    assert (list(dataset.train()), len(list(dataset.evaluate()))) == ([], 2)
    with pytest.raises(UserError, match=r"tatqa_dataset_train\.json.*github\.com/NExTplusplus/TAT-QA"):
        dataset_kind("tatqa").open(replace(request, held_out=1))


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ({**report(asked("q1")), "paragraphs": [], "table": {"uid": "t", "table": [[""]]}}, r"report t\b"),
        (report(asked("q1", answer=[""])), "questions.0.answer: "),
        (report(asked("q1", rel_paragraphs=["7"])), "no '7'"),
        (3, "found 3"),
    ],
)
def test_a_bad_report_is_named_by_its_place(root: Path, bad: Any, said: str) -> None:
    (root / "tatqa_dataset_dev.json").write_text(json.dumps([report(asked("q1")), bad]))
    with pytest.raises(UserError, match=rf"tatqa_dataset_dev\.json(, report|:) 1\b.*{said}"):
        list(TatQa.at(root).evaluate())
