"""A user's own questions in JSON Lines, JSON, CSV and Parquet, and data sets as they lie on the Hugging Face hub."""

import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from actors.errors import UserError
from experiments.conformance.parts import check_dataset
from experiments.datasets import hub
from experiments.datasets.catalogue import dataset_kind
from experiments.datasets.item import Dataset, Item
from experiments.datasets.kind import DataRequest, DataSettings, FieldSettings
from experiments.datasets.question_file import QuestionFile
from tests.fuzz.layouts import picture, put

Line = dict[str, Any]
ASKED = {"question": "Which town?", "answer": "Oslo"}


def opened(root: Path, learns: int = 0, limit: int | None = None, **settings: Any) -> Dataset:
    fields = FieldSettings(**settings.pop("fields", {}))
    data = DataSettings("file", str(root), limit, fields=fields, **settings)
    return dataset_kind("file").open(DataRequest(data, root.parent / "cache", learns, learns, 0, whole_corpus=False))


def items(root: Path, **settings: Any) -> list[Item]:
    return list(opened(root, **settings).evaluate())


def lines(root: Path, *questions: Line) -> Path:
    put(root / "questions.jsonl", list(questions))
    return root / "questions.jsonl"


def refused(root: Path, **settings: Any) -> str:
    """The line of the error, after everything is read."""
    with pytest.raises(UserError) as caught:
        list(opened(root, **settings).corpus())
    assert str(caught.value).isprintable()
    return str(caught.value)


@pytest.mark.parametrize(
    ("answer", "choices", "gold"),
    [
        ("blue", ["red", "blue"], "blue"),
        (1, ["red", "blue"], "blue"),
        ("B", ["red", "blue"], "blue"),
        ("b", ["red", "blue"], "blue"),
        ("1", ["red", "blue"], "blue"),
        ("2", ["1", "2", "3"], "2"),
        (["blue"], ["red", "blue"], "blue"),
        ("2", {"text": ["red", "blue"], "label": ["1", "2"]}, "blue"),
        (1931, None, "1931"),
        ("[0, 1]", None, "[0, 1]"),
        ({"text": ["Oslo"], "answer_start": [3]}, None, "Oslo"),
    ],
)
def test_an_answer_is_a_text_a_number_a_place_or_a_letter(answer: Any, choices: Any, gold: str, tmp_path: Path) -> None:
    [item] = items(lines(tmp_path, {"question": "Which?", "answer": answer, "choices": choices, "picture": None}))
    assert item.gold == (gold,)


def test_columns_of_no_field_are_named_at_each_start(tmp_path: Path) -> None:
    root = lines(tmp_path, {"id": "q1", "question": "Which?", "answer": "blue", "context": "It is blue."})
    for _ in range(2):  # The second one finds the question in the cache.
        dataset = opened(root)
        assert [item.pool for item in dataset.evaluate()] == [()]
        [note] = dataset.notes
        assert "not read: 'context'" in note
    dataset = opened(root, fields={"passages": "context"})
    [item] = dataset.evaluate()
    assert len(item.pool) == 1
    assert dataset.notes == []


def test_an_answer_that_may_be_two_choices_is_refused_until_the_user_says_which(tmp_path: Path) -> None:
    root = lines(tmp_path, {"question": "Which?", "answer": 2, "choices": ["1", "2", "3"]})
    assert "line 1: answer: 2 is the text of '2', the place of '3'" in refused(root)
    assert items(root, answers="place")[0].gold == ("3",)
    assert items(root, answers="text")[0].gold == ("2",)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ({"question": 3}, "line 2: question: "),
        ({"question": " "}, "line 2: question: "),
        ({"answer": None}, "line 2: answer: "),
        ({"answer": float("nan")}, "line 2: answer: "),
        ({"answer": True}, "line 2: answer: "),
        ({"choices": "red"}, "line 2: choices: "),
        ({"choices": ["red", "blue"], "answer": "C"}, "line 2: answer: "),
        ({"picture": "lost.png"}, "'lost.png'"),
        ({"picture": 3}, "line 2: picture: "),
        ({"passages": [{"title": "T"}]}, "line 2: passages: "),
        ({"tables": [["a", "b"]]}, "line 2: tables: "),
        ({"tables": [[["a", "b"], ["1"]]]}, "line 2: tables: "),
        ({"id": "first"}, "line 2: question first "),
    ],
)
def test_a_wrong_value_is_named_by_file_line_and_field(line: Line, says: str, tmp_path: Path) -> None:
    root = lines(tmp_path, {"id": "first", **ASKED}, {"id": "second", **ASKED, **line})
    assert str(root) in refused(root)
    assert says in refused(root)


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.jsonl", b"", "no questions"),
        ("a.jsonl", b"\n \n", "no questions"),
        ("a.jsonl", b"[1]\n", "line 1"),
        ("a.jsonl", b'{"question": "a"', "line 1"),
        ("a.jsonl", b'{"question": "a", "answer": "\xff"}\n', "line 1"),
        ("a.csv", b"", "empty"),
        ("a.csv", b"question,answer\n", "empty"),
        ("a.csv", b"question,answer\na\n", "line 2"),
        ("a.csv", b"question,answer,answer\na,b,c\n", "column answer"),
        ("a.csv", b"question;answer\na;b\n", "data.fields.question="),
        ("a.parquet", b"PAR1 but none", "no Parquet file"),
        ("a.txt", b"question", ".parquet"),
    ],
)
def test_a_broken_file_is_refused_in_a_line(name: str, content: bytes, says: str, tmp_path: Path) -> None:
    put(tmp_path / name, content)
    assert name in refused(tmp_path / name)
    assert says in refused(tmp_path / name)


def test_questions_may_be_the_array_of_one_file_in_json(tmp_path: Path) -> None:
    file = tmp_path / "questions.json"
    put(file, [ASKED, {**ASKED, "question": "Which river?"}])
    assert [item.question.text for item in items(file)] == ["Which town?", "Which river?"]


def test_questions_may_be_the_only_array_of_objects_in_an_object(tmp_path: Path) -> None:
    file = tmp_path / "questions.json"
    put(
        file, {"info": {"by": [{"name": "Ada"}]}, "tags": ["a"], "data": [ASKED, {**ASKED, "question": "Which river?"}]}
    )
    assert [item.question.text for item in items(file)] == ["Which town?", "Which river?"]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b'{"data": ["Which?"]}', "expected a JSON array with one object at least"),
        (b'{"question": "Which?", "answer": "Oslo"}', "expected a JSON array with one object at least"),
        (b'{"data": {"item": {"question": "Which?"}}}', "expected a JSON array with one object at least"),
        (
            b'{"train": [{"question": "Which?"}], "test": [{"question": "Who?"}]}',
            "several arrays of objects (test, train)",
        ),
        (b'{"data": [{"question": "Which?", "answer": "Oslo"}, 3]}', "object 2: "),
        (b'{"data": [{"question": "Which?", "answer": "Oslo"}, {"quest', "after 1 times object: broken JSON"),
        (b'[{"question": "Which?", "answer": "Oslo"}, 3]', "object 2: "),
        (b'[{"question": "Which?", "answer": "Oslo"}, {"quest', "after 1 times object: broken JSON"),
    ],
)
def test_any_other_json_is_refused_in_a_line(content: bytes, says: str, tmp_path: Path) -> None:
    file = tmp_path / "questions.json"
    file.write_bytes(content)
    assert says in refused(file)


def test_json_next_to_files_of_questions_holds_none(tmp_path: Path) -> None:
    lines(tmp_path, ASKED)
    put(tmp_path / "dataset_info.json", {"splits": []})
    assert len(items(tmp_path)) == 1


def test_a_table_with_a_header_alone_has_no_rows(tmp_path: Path) -> None:
    file = tmp_path / "questions.csv"
    file.write_text("question,answer\n")
    assert "is empty below the names of its columns" in refused(file)


def test_blank_lines_may_come_before_a_header(tmp_path: Path) -> None:
    file = tmp_path / "questions.csv"
    file.write_text("\n\nquestion,answer\n\nWhich town?,Oslo\n")
    assert [item.gold for item in items(file)] == [("Oslo",)]


def test_a_field_that_maps_to_no_column_is_named_with_the_nearest(tmp_path: Path) -> None:
    root = lines(tmp_path, {"asked": "Which?", "answer": "a"})
    said = refused(root, fields={"question": "askd"})
    assert "'askd'" in said
    assert "'asked'" in said
    assert items(root, fields={"question": "asked"})[0].question.text == "Which?"


def test_byte_order_marks_blank_lines_and_windows_line_ends_do_not_count(tmp_path: Path) -> None:
    put(
        tmp_path / "a.jsonl",
        b'\xef\xbb\xbf{"question": "a?", "answer": "b"}\r\n\r\n{"question": "c?", "answer": "d"}\r\n',
    )
    put(tmp_path / "a.csv", b'\xef\xbb\xbfquestion,answer\r\na?,b\r\n\r\n"c\r\n?",d\r\n')
    assert [(item.question.id, item.gold) for item in items(tmp_path / "a.jsonl")] == [("a:1", ("b",)), ("a:3", ("d",))]
    assert [item.question.text for item in items(tmp_path / "a.csv")] == ["a?", "c\r\n?"]


@pytest.mark.parametrize("choices", ['["red","blue"]', "['red', 'blue']"])
def test_a_table_of_text_has_lists_as_json_or_as_python_prints_them(choices: str, tmp_path: Path) -> None:
    cell = choices.replace('"', '""')
    put(tmp_path / "a.csv", f'question,choices,answer,passages\nWhich?,"{cell}",B,A passage.\n'.encode())
    [item] = items(tmp_path / "a.csv")
    assert item.question.choices == ("red", "blue")
    assert item.gold == ("blue",)
    assert len(item.pool) == 1


def test_choices_may_be_a_column_each(tmp_path: Path) -> None:
    put(tmp_path / "a.csv", b"question,A,B,C,answer,first,second\nWhich?,red,blue,,B,x,y\n")
    assert items(tmp_path / "a.csv")[0].question.choices == ("red", "blue")
    [item] = items(tmp_path / "a.csv", fields={"choices": "first,second"})
    assert (item.question.choices, item.gold) == (("x", "y"), ("y",))


def test_sources_with_the_same_content_are_one_and_their_pictures_and_tables_make_clusters(tmp_path: Path) -> None:
    put(tmp_path / "lamp.png", picture())
    table = {"title": "Goals", "header": ["Player", "Goals"], "rows": [["Ida", 7], ["Mia", 4]]}
    seen = {**ASKED, "picture": "lamp.png", "passages": "It is in Oslo."}
    root = lines(tmp_path, seen, seen, {**ASKED, "tables": [table], "hint": "Look."})
    dataset = opened(root)
    check_dataset(dataset)
    assert [source.text for source in dataset.corpus() if not source.image] == [
        *("It is in Oslo.", "Look.", "Player = Ida; Goals = 7", "Player = Mia; Goals = 4")
    ]
    first, second, third = dataset.evaluate()
    assert first.own == ("lamp.png",)
    assert first.cluster == second.cluster == "lamp.png"
    assert third.cluster in third.pool


def test_several_answers_are_alternatives_unless_all_belong_together(tmp_path: Path) -> None:
    root = lines(tmp_path, {"question": "Who?", "answers": ["Ida Berg", "Mia Holt"]})
    for several, score in (("any", 1.0), ("all", 0.0)):
        dataset = opened(root, several=several)
        [item] = dataset.evaluate()
        assert dataset.score(item, "Ida Berg").utility == score


@pytest.mark.parametrize(
    ("metric", "gold", "answer", "score"),
    [
        ("official", "Oslo", "It is Oslo.", 1.0),
        ("exact", "Oslo", "It is Oslo.", 0.0),
        ("exact", "Oslo", "oslo", 1.0),
        ("f1", "Oslo harbour", "Oslo", 2 / 3),
        ("amounts", "4.9 billion", "4,900 million", 1.0),
        ("amounts", "4.9 billion", "4.9", 0.0),
    ],
)
def test_a_metric_scores_answers(metric: str, gold: str, answer: str, score: float, tmp_path: Path) -> None:
    dataset = opened(lines(tmp_path, {"question": "Which?", "answer": gold}), metric=metric)
    [item] = dataset.evaluate()
    assert dataset.score(item, answer).utility == pytest.approx(score)
    assert dataset.score(item, None).utility == 0.0


def test_training_questions_are_a_split_a_second_file_or_a_share(tmp_path: Path) -> None:
    def asked(split: str, number: int) -> Line:
        return {**ASKED, "id": f"{split}{number}", "part": split}

    questions = [asked(split, number) for split in ("train", "dev") for number in range(10)]
    both = lines(tmp_path / "both", *questions)
    for name in ("train", "dev"):
        put(tmp_path / "parts" / f"{name}-0.jsonl", [line for line in questions if line["part"] == name])
    dev = tmp_path / "parts" / "dev-0.jsonl"
    by_split = [
        opened(both, 4, fields={"split": "part"}),
        opened(tmp_path / "parts", 4),
        opened(dev, 4, train=str(tmp_path / "parts" / "train-0.jsonl")),
    ]
    for dataset in by_split:
        assert [item.question.id for item in dataset.evaluate()] == [f"dev{number}" for number in range(10)]
        assert len(ids := [item.question.id for item in dataset.train()]) == 4
        assert all(id.startswith("train") for id in ids)

    shared = opened(both, 4, train_share=0.4)
    assert (len(list(shared.evaluate())), len(list(shared.train()))) == (12, 4)
    taken = opened(both, 4)
    assert (len(list(taken.evaluate())), len(list(taken.train()))) == (16, 4)
    assert "data.train_share" in refused(both, learns=4, train_share=0.1)


def test_of_several_splits_the_user_names_the_evaluated_one(tmp_path: Path) -> None:
    root = lines(tmp_path, *({**ASKED, "split": split} for split in ("train", "validation", "test")))
    assert "data.evaluated=validation" in refused(root)
    assert "there are train, validation, test" in refused(root, evaluated="dev")
    assert len(items(root, evaluated="test")) == 1


def test_an_imagefolder_has_a_file_of_metadata_for_each_split(tmp_path: Path) -> None:
    for split, number in (("train", 4), ("validation", 2)):
        for n in range(number):
            put(tmp_path / split / f"{n}.png", picture())
        put(tmp_path / split / "metadata.jsonl", [{**ASKED, "file_name": f"{n}.png"} for n in range(number)])
    dataset = opened(tmp_path, 2)
    check_dataset(dataset)
    assert [item.own for item in dataset.evaluate()] == [("validation/0.png",), ("validation/1.png",)]
    assert len(list(dataset.train())) == 2


@pytest.mark.parametrize("name", ["a.jsonl", "a.tsv"])
def test_pictures_in_base64_are_written_where_they_are_used(name: str, tmp_path: Path) -> None:
    encoded = base64.b64encode(picture().ljust(1024, b"\0")).decode()
    if name == "a.tsv":
        put(tmp_path / name, f"question\tanswer\timage\nWhich?\tOslo\t{encoded}\nWhere?\tOslo\tnone.png\n".encode())
    else:
        put(tmp_path / name, [{**ASKED, "image": encoded}, {**ASKED, "image": None}])
    put(tmp_path / "none.png", picture())
    dataset = opened(tmp_path / name, limit=1, fields={"pictures": "image"})
    check_dataset(dataset)
    assert isinstance(dataset, QuestionFile)
    assert dataset.packed
    source = next(source for source in dataset.corpus() if source.doc.startswith("a:"))
    dataset.unpack([source])
    assert Path(str(source.image)).read_bytes().startswith(picture())


# Files that `datasets` itself writes.


def shown() -> Image.Image:
    return Image.new("RGB", (20, 20), "red")


@pytest.fixture
def written() -> Callable[[Path, list[Line], Line], None]:
    datasets = pytest.importorskip("datasets")
    named: dict[str, Any] = {
        "image": datasets.Image(),
        "images": datasets.Sequence(datasets.Image()),
        "texts": datasets.Sequence(datasets.Value("string")),
        "label": datasets.ClassLabel(names=["cat", "dog"]),
        "passages": datasets.Sequence({"title": datasets.Value("string"), "text": datasets.Value("string")}),
    }

    def write(path: Path, rows: list[Line], kinds: Line) -> None:
        features = {name: named.get(kind) or datasets.Value(kind) for name, kind in kinds.items()}
        path.parent.mkdir(parents=True, exist_ok=True)
        datasets.Dataset.from_list(rows, features=datasets.Features(features)).to_parquet(str(path))

    return write


def test_parquet_of_datasets_has_labels_lists_and_pictures(written: Any, tmp_path: Path) -> None:
    passages = {"title": ["T", "U"], "text": ["first", "second"]}
    rows = [{"question": f"{n}?", "label": n % 2, "image": shown(), "passages": passages} for n in range(6)]
    rows.append({"question": "none?", "label": 1, "image": None, "passages": {"title": [], "text": []}})
    kinds = {"question": "string", "label": "label", "image": "image", "passages": "passages"}
    written(tmp_path / "a.parquet", rows, kinds)
    dataset = opened(tmp_path / "a.parquet", limit=7, fields={"answers": "label", "pictures": "image"})
    check_dataset(dataset)
    questions = list(dataset.evaluate())
    assert [item.gold for item in questions[:2]] == [("cat",), ("dog",)]
    assert [len(item.pool) for item in questions] == [3] * 6 + [0]
    assert "'labels'" in refused(tmp_path / "a.parquet", fields={"answers": "labels"})


def test_pictures_of_parquet_are_written_where_they_are_used_and_a_damaged_one_is_named(
    written: Any, tmp_path: Path
) -> None:
    rows = [{"question": f"{n}?", "answer": "a", "pictures": [shown(), shown()]} for n in range(6)]
    rows.append({"question": "?", "answer": "a", "pictures": [{"bytes": b"none", "path": None}]})
    written(tmp_path / "a.parquet", rows, {"question": "string", "answer": "string", "pictures": "images"})
    dataset = opened(tmp_path / "a.parquet")
    assert isinstance(dataset, QuestionFile)
    pictures = list(dataset.corpus())
    dataset.unpack(picture for picture in pictures if picture.doc.startswith(("a:2:", "a:5:")))
    assert sum(Path(str(picture.image)).is_file() for picture in pictures) == 4
    with pytest.raises(UserError, match=r"a\.parquet, question a:7: "):
        dataset.unpack(pictures)


SCIENCEQA = {"image": "image", "question": "string", "choices": "texts", "answer": "int8", "hint": "string"}
SCIENCEQA |= dict.fromkeys(("task", "grade", "subject", "topic", "category", "skill", "lecture", "solution"), "string")
MMBENCH = {"index": "int64", "image": "image"}
MMBENCH |= dict.fromkeys("question hint answer A B C D category source L2-category comment split".split(), "string")


def test_scienceqa_is_read_as_it_lies_on_the_hub(written: Any, tmp_path: Path) -> None:
    rows = []
    for n in range(8):
        told = dict.fromkeys(SCIENCEQA, f"about {n}")
        rows.append(told | {"choices": ["this", "that"], "answer": n % 2, "hint": "", "image": shown() if n else None})
    for split in ("train", "validation", "test"):
        written(tmp_path / "data" / f"{split}-00000-of-00001.parquet", rows, SCIENCEQA)
    dataset = opened(tmp_path, 3, layout="scienceqa")
    check_dataset(dataset)
    evaluated = list(dataset.evaluate())
    assert {item.question.id.partition("-")[0] for item in evaluated} == {"test"}
    assert [item.gold for item in evaluated[:2]] == [("this",), ("that",)]
    assert evaluated[1].cluster == "about 1"
    # Lecture and solution lean towards the answer.
    assert all(source.image for source in dataset.corpus())


def test_mmbench_is_read_as_it_lies_on_the_hub_with_its_rotations(written: Any, tmp_path: Path) -> None:
    rows = []
    for n in range(4):
        for turn, answer in enumerate("AB"):
            told = dict.fromkeys(MMBENCH, "nan") | {"question": f"Is it {n}?", "image": shown(), "answer": answer}
            choices = {"A": "no", "B": "yes"} if turn else {"A": "yes", "B": "no"}
            rows.append(told | choices | {"index": n + turn * hub.ROTATION})
    written(tmp_path / "dev-00000-of-00001.parquet", rows, MMBENCH)
    dataset = opened(tmp_path, 1, limit=2, layout="mmbench")
    check_dataset(dataset)
    evaluated = list(dataset.evaluate())
    assert len(evaluated) == 4
    assert {item.gold for item in evaluated} == {("yes",)}
    assert evaluated[0].group == evaluated[1].group != evaluated[2].group
    assert [item.group for item in dataset.train()] == [item.question.id for item in dataset.train()]


def test_a_data_set_of_the_hub_is_loaded_once_and_no_network_is_one_line(
    written: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path / "owner" / "name" / "test.parquet", [ASKED], {"question": "string", "answer": "string"})
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    # `datasets` takes a folder of this name in place of the hub.
    folder = hub.downloaded("owner/name", tmp_path / "cache")
    assert items(folder)[0].gold == ("Oslo",)
    (tmp_path / "owner").rename(tmp_path / "gone")
    assert hub.downloaded("owner/name", tmp_path / "cache") == folder

    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(UserError, match="data\\.root=") as caught:
        hub.downloaded("owner/another", tmp_path / "cache")
    assert str(caught.value).isprintable()
    assert sorted(path.name for path in (tmp_path / "cache" / "hub").iterdir()) == ["owner--name"]
