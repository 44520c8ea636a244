"""ViDoSeek: pages of visual documents, and questions whose answer stands on them."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from actors.errors import UserError
from actors.messages import Kind
from experiments.config.loading import load
from experiments.datasets.vidoseek import ViDoSeek
from experiments.jobs import plan_of
from experiments.running.inputs import open_dataset, open_evidence
from retrieval import ocr


@pytest.fixture(autouse=True)
def no_ocr(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages are read with RapidOCR where it is installed: slow, and written to the cache."""
    monkeypatch.setattr(ocr, "available", lambda: False)


def example(uid: str, document: str = "Soil_Use", pages: tuple[int, ...] = (2,), **meta: Any) -> dict[str, Any]:
    told = {"file_name": f"{document}.pdf", "reference_page": list(pages), "source_type": "Table"}
    return {
        "uid": uid,
        "query": f"What is {uid}?",
        "reference_answer": "195-205 Centigrade",
        "meta_info": told | {"query_type": "Multi-Hop"} | meta,
    }


def write(root: Path, *examples: dict[str, Any], pages: int = 11) -> Path:
    (root / "img").mkdir(exist_ok=True)
    for document in ("Soil_Use", "a_1"):
        for page in range(1, pages + 1):
            Image.new("RGB", (8, 8), (page, 0, 0)).save(root / "img" / f"{document}_{page}.jpg")
    (root / "rag_dataset.json").write_text(json.dumps({"examples": examples}))
    return root


def test_the_real_piece_parses(shared_data: Path) -> None:
    dataset = ViDoSeek.at(shared_data / "vidorag")
    (item,) = dataset.evaluate()
    corpus = [source for source in dataset.corpus() if source.doc in item.pool[:2]]
    assert len(item.pool) == 23
    assert item.supporting == (item.pool[10],)
    assert item.tags == {"source": "layout", "hop": "content-extraction"}
    assert [source.kind for source in corpus] == [Kind.IMAGE, Kind.IMAGE]
    assert dataset.score(item, "Kent, East Sussex, Normandy, Brittany").utility == 1.0


def test_pages_come_in_the_order_of_their_numbers_and_know_their_document(tmp_path: Path) -> None:
    dataset = ViDoSeek.at(write(tmp_path, example("q")))
    corpus = list(dataset.corpus())
    assert [source.id for source in corpus][:3] == ["Soil_Use_1", "Soil_Use_2", "Soil_Use_3"]
    assert [source.id for source in corpus][-1] == "a_1_11"
    assert corpus[0].title == "Soil Use, page 1"
    (item,) = dataset.evaluate()
    assert item.pool == tuple(f"Soil_Use_{page}" for page in range(1, 12))
    assert item.supporting == ("Soil_Use_2",)
    assert item.tags == {"source": "table", "hop": "multi"}


def test_what_the_releases_own_scripts_recognised_is_a_passage_and_the_pictures_text(tmp_path: Path) -> None:
    root = write(tmp_path, example("q"))
    (root / "ppocr").mkdir()
    (root / "ppocr" / "Soil_Use_1.txt").write_text("Steam explosion\n")
    (root / "vlmocr").mkdir()
    (root / "vlmocr" / "Soil_Use_2.json").write_text(json.dumps([{"text": "Switchgrass", "box": [1, 2]}, "bagasse"]))
    told = {source.id: source for source in ViDoSeek.at(root).corpus()}
    assert (told["Soil_Use_1:text"].kind, told["Soil_Use_1:text"].text) == (Kind.TEXT, "Steam explosion")
    assert told["Soil_Use_1"].text == "Steam explosion"
    assert told["Soil_Use_1"].doc == told["Soil_Use_1:text"].doc == "Soil_Use_1"
    assert told["Soil_Use_2:text"].text == "Switchgrass\nbagasse"
    assert "Soil_Use_3:text" not in told


def test_pages_without_text_are_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        dataset = ViDoSeek.at(write(tmp_path, example("q")))
        caplog.clear()
        list(dataset.corpus())
    assert ["22 pages of" in record.getMessage() for record in caplog.records] == [True]


def test_what_is_learned_from_is_never_evaluated(tmp_path: Path) -> None:
    root = write(tmp_path, *(example(f"q{n}") for n in range(20)))
    dataset = ViDoSeek.at(root, train=6, limit=10)
    learned = {item.question.id for item in dataset.train()}
    evaluated = {item.question.id for item in dataset.evaluate()}
    assert (len(learned), len(evaluated)) == (6, 10)
    assert not learned & evaluated
    assert {item.question.id for item in ViDoSeek.at(root, limit=10).evaluate()} == evaluated
    rest = {item.question.id for item in ViDoSeek.at(root, train=6).evaluate()}
    assert len(rest) == 14
    assert not rest & learned
    assert len(list(ViDoSeek.at(root).evaluate())) == 20
    with pytest.raises(UserError, match=r"\b20\b.*\b11\b.*\b10\b"):
        list(ViDoSeek.at(root, train=11, limit=10).evaluate())


def test_no_label_is_in_the_corpus(tmp_path: Path) -> None:
    root = write(tmp_path, example("q"))
    # Without the folder, whose name may hold any number.
    assert "195" not in repr(list(ViDoSeek.at(root).corpus())).replace(str(tmp_path), "")


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (example("q", document="Other"), "question q: .* img/Other_<page>.jpg"),
        (example("q", pages=(12,)), "question q: .*page 12 of Soil_Use"),
        (example("q", source_type="poem"), "question q: .*'poem'"),
        (example("q") | {"reference_answer": " "}, "examples.1.reference_answer: "),
        ({"uid": "q"}, "examples.1.query: "),
    ],
)
def test_a_question_that_cannot_be_read_is_named(tmp_path: Path, broken: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=f"rag_dataset.json.*{message}"):
        list(ViDoSeek.at(write(tmp_path, example("p"), broken)).evaluate())


def test_a_question_searches_all_documents_unless_it_is_told_to_search_its_own(tmp_path: Path) -> None:
    release, found = write(tmp_path, example("q"), pages=2), []
    for word in ("retrieval.texts=8", "retrieval.scope=question"):
        config = load(["experiment=table2", "methods=[vidorag]", "data=vidoseek", f"data.root={release}", word])
        dataset = open_dataset(plan_of(config), tmp_path / "cache")
        [item] = dataset.evaluate()
        evidence = open_evidence(plan_of(config), dataset, tmp_path / "cache").retrieve(item)
        found.append({source.doc for source in evidence})
    assert found == [{"Soil_Use_1", "Soil_Use_2", "a_1_1", "a_1_2"}, {"Soil_Use_1", "Soil_Use_2"}]
