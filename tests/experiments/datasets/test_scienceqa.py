"""ScienceQA: the official layout, whole or in part; what is retrieved never tells the label."""

import json
import logging
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from actors.errors import UserError
from actors.messages import Kind, Source
from experiments.config.config import Config
from experiments.config.loading import load
from experiments.datasets.catalogue import dataset_kind
from experiments.datasets.kind import DataRequest, DataSettings
from experiments.datasets.scienceqa import ScienceQa
from experiments.jobs import plan_of
from experiments.runner import open_folder, run
from experiments.running.inputs import open_dataset, open_evidence


def problem(split: str, **changes: Any) -> dict[str, Any]:
    return {
        "question": "Which one?",
        "choices": ["this one", "that one"],
        "answer": 1,
        "hint": "",
        "image": None,
        "grade": "grade7",
        "subject": "natural science",
        "topic": "biology",
        "category": "Adaptations",
        "lecture": "",
        "solution": "It is that one, as SOLUTION says.",
        "split": split,
        **changes,
    }


PROBLEMS = {
    "1": problem("train", lecture="Shared lecture.", hint="A hint."),
    "2": problem("train", lecture="Shared  lecture.\n"),
    "3": problem("train", lecture="The picture shows that one.", image="image.png", grade="grade6"),
    "4": problem("test", lecture="Shared lecture.", hint="Look at it.", image="image.png"),
    "5": problem("test", lecture="Another lecture.", subject="language science"),
    "6": problem("val", lecture="Another lecture."),
}
SPLITS = {
    "train": ["1", "2", "3", "70"],
    "val": ["6"],
    "test": ["4", "5", "71", "72"],
    "minitest": ["4"],
    "minival": ["73"],
}
OCR = "[([[0, 0], [9, 0], [9, 9], [0, 9]], 'Sample A', 0.97), ([[0, 20], [9, 20], [9, 29], [0, 29]], '28 u', 0.5)]"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Six problems of nine; the picture of problem 4 is there, that of problem 3 is told by caption and lettering."""
    (tmp_path / "problems.json").write_text(json.dumps(PROBLEMS))
    (tmp_path / "pid_splits.json").write_text(json.dumps(SPLITS))
    (tmp_path / "captions.json").write_text(json.dumps({"captions": {"3": "A jar on a table."}}))
    (tmp_path / "ocrs.json").write_text(json.dumps({"3": OCR, "4": "[]"}))
    folder = tmp_path / "images" / "test" / "4"
    folder.mkdir(parents=True)
    for name in ("image", "choice_0", "choice_1"):
        Image.new("RGB", (8, 8), "red").save(folder / f"{name}.png")
    return tmp_path


def test_the_real_part_parses_with_its_pictures(shared_data: Path) -> None:
    dataset = ScienceQa.at(shared_data / "scienceqa")
    train, test, corpus = list(dataset.train()), list(dataset.evaluate()), list(dataset.corpus())
    assert (len(train), len(test)) == (1041, 278)
    assert len(list(ScienceQa.at(shared_data / "scienceqa", split="val").evaluate())) == 371
    assert len({source.id for source in corpus}) == len(corpus)
    assert sum(source.image is not None for source in corpus) == 105
    lectures = [source for source in corpus if source.id.startswith("lecture:")]
    assert len(lectures) == 81
    assert not any("The image shows" in source.text for source in lectures)
    docs = {source.doc for source in corpus}
    assert all(docs.issuperset(item.pool) and docs.issuperset(item.withheld) for item in train + test)
    assert Counter(item.tags["context"] for item in test) == {"NO": 124, "TXT": 70, "IMG+TXT": 58, "IMG": 26}
    assert Counter(item.tags["subject"] for item in test) == {"NAT": 144, "LAN": 100, "SOC": 34}
    assert Counter(item.tags["grade"] for item in test) == {"G1-6": 177, "G7-12": 101}


def test_on_real_questions_each_choice_is_right_by_text_and_letter_or_wrong_by_both(shared_data: Path) -> None:
    dataset = ScienceQa.at(shared_data / "scienceqa")
    for item in [*dataset.train(), *dataset.evaluate()]:
        for letter, choice in zip("ABCDE", item.question.choices, strict=False):
            right = float(choice == item.gold[0])
            said = (choice, letter, f"({letter})", f"({letter}) {choice}")
            assert [dataset.score(item, answer).utility for answer in said] == [right] * 4


def test_only_lectures_that_training_problems_share_are_in_the_corpus(root: Path) -> None:
    lectures = [source.text for source in ScienceQa.at(root).corpus() if source.id.startswith("lecture:")]
    assert lectures == ["Shared lecture."]


def test_a_questions_own_lecture_is_withheld_from_it(root: Path) -> None:
    dataset = ScienceQa.at(root)
    (lecture,) = (source.id for source in dataset.corpus() if source.id.startswith("lecture:"))
    withheld = {item.question.id: item.withheld for item in [*dataset.train(), *dataset.evaluate()]}
    assert withheld == {"1": (lecture,), "2": (lecture,), "3": (), "4": (lecture,), "5": ()}


def test_train_and_evaluation_come_from_different_splits(root: Path) -> None:
    dataset = ScienceQa.at(root)
    assert [item.question.id for item in dataset.train()] == ["1", "2", "3"]
    assert [item.question.id for item in dataset.evaluate()] == ["4", "5"]
    assert [item.question.id for item in ScienceQa.at(root, split="minitest").evaluate()] == ["4"]
    assert [item.question.id for item in ScienceQa.at(root, split="val").evaluate()] == ["6"]


def test_a_part_of_the_release_is_noted_once(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    dataset = ScienceQa.at(root)
    list(dataset.evaluate())
    list(dataset.evaluate())
    [note] = dataset.notes
    assert "6 of the release's 9 problems" in note
    assert [(record.levelno, record.getMessage()) for record in caplog.records] == [(logging.WARNING, note)]


def test_a_run_on_a_part_of_the_release_says_so_on_the_terminal(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = f"experiment=scienceqa_prune data.root={root} data.limit=2 methods=[single] runtime=inline figures=false"
    config = load([*words.split(), "wandb.mode=disabled", f"output={tmp_path}/runs"])
    run(plan_of(config), open_folder(config))
    assert "6 of the release's 9 problems" in " ".join(capsys.readouterr().out.split())


def test_hint_picture_and_pictures_of_choices_are_the_pool(root: Path) -> None:
    dataset = ScienceQa.at(root)
    item = next(dataset.evaluate())
    assert item.pool == item.supporting == ("4:hint", "4:image", "4:choice_0", "4:choice_1")
    assert item.tags == {"subject": "NAT", "context": "IMG+TXT", "grade": "G7-12", "topic": "biology"}
    sources = {source.id: source for source in dataset.corpus() if source.doc in item.pool}
    assert tuple(sources) == item.pool
    assert sources["4:hint"].kind is Kind.TEXT
    assert sources["4:image"].image == str(root / "images" / "test" / "4" / "image.png")
    assert sources["4:choice_1"].text == "Picture of the choice that one."


def test_caption_and_lettering_stand_in_for_an_absent_picture(root: Path) -> None:
    (picture,) = (source for source in ScienceQa.at(root).corpus() if source.doc == "3:image")
    assert (picture.kind, picture.image) == (Kind.IMAGE, None)
    assert picture.text == "A jar on a table. Lettering: Sample A; 28 u."


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"answer": 2}, "answer 2 of 2 choices"),
        ({"subject": "magic"}, "subject: .*'magic'"),
        ({"hint": None}, "not of the official release's form"),
    ],
)
def test_a_bad_problem_is_named(root: Path, changes: dict[str, Any], said: str) -> None:
    (root / "problems.json").write_text(json.dumps({**PROBLEMS, "2": problem("train", **changes)}))
    with pytest.raises(UserError, match=f"problem 2: .*{said}"):
        list(ScienceQa.at(root).train())


def test_a_picture_of_which_nothing_is_known_is_a_question_without_sources(root: Path) -> None:
    (root / "captions.json").write_text('{"captions": {"4": "A dish."}}')
    (root / "ocrs.json").unlink()
    with pytest.raises(UserError, match=r"question 3 .*image\.png"):
        list(ScienceQa.at(root).train())


def test_a_split_of_which_nothing_is_there_is_an_error(root: Path) -> None:
    settings = DataSettings("scienceqa", str(root), split="minival")
    request = DataRequest(settings, root / "cache", train=0, held_out=0, seed=0, whole_corpus=False)
    with pytest.raises(UserError, match="scienceqa"):
        dataset_kind("scienceqa").open(request)


def test_only_questions_with_a_picture_are_taken_where_that_is_asked_for(root: Path) -> None:
    some = ScienceQa.at(root, pictures=True)
    assert [item.question.id for item in some.evaluate()] == ["4"]
    assert [item.question.id for item in some.train()] == ["3"]
    assert load(["experiment=bdog_table"]).data.pictures
    for pictures, evaluated in ((True, ["4"]), (False, ["4", "5"])):
        settings = DataSettings("scienceqa", str(root), None, pictures=pictures)
        made = dataset_kind("scienceqa").open(
            DataRequest(settings, root, train=1, held_out=0, seed=0, whole_corpus=False)
        )
        assert [item.question.id for item in made.evaluate()] == evaluated


def retrieved(root: Path, cache: Path, *words: str) -> dict[str, tuple[Source, ...]]:
    """The evidence of each evaluated question."""
    config: Config = load(["experiment=scienceqa_prune", "methods=[single]", f"data.root={root}", *words])
    dataset = open_dataset(plan_of(config), cache)
    evidence = open_evidence(plan_of(config), dataset, cache)
    return {item.question.id: evidence.retrieve(item) for item in dataset.evaluate()}


def pictures(sources: tuple[Source, ...]) -> list[str]:
    return [source.doc for source in sources if source.kind is Kind.IMAGE]


def test_a_question_without_a_picture_gets_none_of_another(root: Path, tmp_path: Path) -> None:
    found = retrieved(root, tmp_path / "cache")
    assert pictures(found["4"])[0].startswith("4:")
    assert "3:image" in pictures(found["4"])
    assert pictures(found["5"]) == []


def test_on_real_questions_only_those_with_a_picture_get_pictures(shared_data: Path, tmp_path: Path) -> None:
    root = shared_data / "scienceqa"
    found = retrieved(root, tmp_path, "data.limit=40")
    with_picture = {item.question.id for item in ScienceQa.at(root).evaluate() if "IMG" in item.tags["context"]}
    assert {id for id, sources in found.items() if pictures(sources)} == found.keys() & with_picture


def test_what_is_part_of_a_question_is_shown_however_little_is_retrieved(root: Path, tmp_path: Path) -> None:
    own = {"4:hint", "4:image", "4:choice_0", "4:choice_1"}
    for words in (("retrieval.texts=0", "retrieval.pictures=1"), ("retrieval.scope=corpus", "retrieval.texts=1")):
        found = retrieved(root, tmp_path / "cache", *words)["4"]
        assert own <= {source.doc for source in found}
        assert [source.kind for source in found] == sorted((source.kind for source in found), key=Kind.IMAGE.__eq__)
