"""MultimodalQA: the official files parse, and each way in which a file can be bad has its own line."""

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from actors.errors import UserError
from actors.messages import Kind
from experiments.datasets.mmqa import Mmqa


def asked(qid: str, type: str = "TextQ", **changes: Any) -> dict[str, Any]:
    meta = {
        "type": type,
        "modalities": ["text"],
        "text_doc_ids": ["t1", "t2"],
        "image_doc_ids": ["i1"],
        "table_id": "b",
    }
    return {
        "qid": qid,
        "question": f"What of {qid}?",
        "answers": [{"answer": "red"}],
        "metadata": {**meta, **changes},
        "supporting_context": [{"doc_id": "t1", "doc_part": "text"}, {"doc_id": "t1", "doc_part": "text"}],
    }


def write(path: Path, records: list[dict[str, Any]]) -> None:
    text = "".join(json.dumps(record) + "\n" for record in records)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A release of four training and ten dev questions, two passages, a table and two pictures, one of them absent."""
    write(tmp_path / "MMQA_train.jsonl", [asked(f"train{n}") for n in range(4)])
    write(tmp_path / "MMQA_dev.jsonl.gz", [asked(f"dev{n}", "TableQ" if n % 2 else "TextQ") for n in range(10)])
    write(
        tmp_path / "MMQA_texts.jsonl",
        [{"id": id, "title": "T", "url": "", "text": f"passage {id}"} for id in ("t1", "t2")],
    )
    cells = [["Ann", "1976"], ["Bea", ""], ["", ""]]
    table = {
        "table_rows": [[{"text": value, "links": []} for value in row] for row in cells],
        "table_name": "Members",
        "header": [{"column_name": "Name"}, {"column_name": "Year"}],
    }
    write(tmp_path / "MMQA_tables.jsonl.gz", [{"id": "b", "title": "Club", "url": "", "table": table}])
    pictures = [
        {"id": "i1", "title": "Flag", "url": "", "path": "i1.png", "description": "a red flag"},
        {"id": "i2", "title": "Gone", "url": "", "path": "i2.jpg"},
    ]
    write(tmp_path / "MMQA_images.jsonl", pictures)
    (tmp_path / "final_dataset_images").mkdir()
    Image.new("RGB", (8, 8), "red").save(tmp_path / "final_dataset_images" / "i1.png")
    return tmp_path


def test_all_dev_questions_parse(shared_data: Path) -> None:
    items = list(Mmqa.at(shared_data / "mmqa").evaluate())
    assert len(items) == 2441
    assert len({item.tags["type"] for item in items}) == 16
    assert all(item.gold and item.pool and item.supporting for item in items)
    assert sum(not set(item.supporting) <= set(item.pool) for item in items) == 1
    assert {"300", "1.144", "yes"} <= {gold for item in items for gold in item.gold}
    assert Counter(item.tags["hop"] for item in items) == {"single": 1461, "multi": 980}


def test_the_papers_selection_is_its_1161_questions(shared_data: Path) -> None:
    items = list(Mmqa.at(shared_data / "mmqa", selection="paper").evaluate())
    assert Counter(item.tags["modalities"] for item in items) == {"text": 721, "image": 371, "image+text": 69}


def test_saying_the_gold_answers_scores_one(shared_data: Path) -> None:
    dataset = Mmqa.at(shared_data / "mmqa")
    assert all(dataset.score(item, "; ".join(item.gold)).utility == 1.0 for item in dataset.evaluate())


def test_the_corpus_has_passages_rows_and_pictures_once(root: Path) -> None:
    sources = list(Mmqa.at(root).corpus())
    assert [source.id for source in sources] == ["t1", "t2", "b:0", "b:1", "i1", "i2"]
    rows = [source for source in sources if source.kind is Kind.TABLE]
    assert [row.text for row in rows] == ["Name = Ann; Year = 1976", "Name = Bea"]
    assert {(row.doc, row.title) for row in rows} == {("b", "Club - Members")}


def test_a_picture_is_its_description_and_its_file_where_there_is_one(root: Path) -> None:
    flag, gone = (source for source in Mmqa.at(root).corpus() if source.kind is Kind.IMAGE)
    assert (flag.text, flag.image) == ("a red flag", str(root / "final_dataset_images" / "i1.png"))
    assert (gone.text, gone.image) == ("", None)


def test_the_paper_selection_drops_table_questions(root: Path) -> None:
    assert [item.question.id for item in Mmqa.at(root, selection="paper").evaluate()] == [
        f"dev{n}" for n in range(0, 10, 2)
    ]


def test_questions_are_read_lazily(root: Path) -> None:
    with (root / "MMQA_train.jsonl").open("a") as lines:
        lines.write("{broken")
    items = Mmqa.at(root).train()
    assert [next(items).question.id for _ in range(4)] == [f"train{n}" for n in range(4)]
    with pytest.raises(UserError, match=r"MMQA_train\.jsonl, line 5: "):
        next(items)
