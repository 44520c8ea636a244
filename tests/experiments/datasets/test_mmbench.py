"""MMBench: a picture, a question and its choices, asked once for every rotation of them."""

import base64
import csv
import io
from pathlib import Path

import pandas as pd
import pytest
from PIL import Image

from actors.errors import UserError
from actors.messages import Message, Status, Trace
from experiments.analysis.run_facts import RunFacts
from experiments.analysis.scores import by_tag
from experiments.analysis.summary import summarise
from experiments.datasets.mmbench import MmBench
from experiments.records.recorder import Recorder, RunFolder

COLUMNS = "index question hint A B C D E answer category image source l2-category comment split".split()


def encoded(red: int) -> str:
    content = io.BytesIO()
    Image.new("RGB", (6, 6), (red, 0, 0)).save(content, "JPEG")
    return base64.b64encode(content.getvalue()).decode()


def row(index: int, choices: str, answer: str, image: str | None = None, hint: str = "") -> dict[str, str]:
    told = dict.fromkeys(COLUMNS, "") | dict(zip("ABCDE", choices.split(" "), strict=False))
    told |= {"index": str(index), "question": f"What is {index % 1000000}?", "answer": answer, "hint": hint}
    return told | {
        "image": encoded(index % 250) if image is None else image,
        "category": "image_scene" if index % 2 else "ocr",
        "l2-category": "coarse_perception" if index % 2 else "finegrained_perception (instance-level)",
    }


HINT = 'A "farm",\nseen\tfrom above'
ROTATED = [
    row(1, "cat dog cow", "B", hint=HINT),
    row(1_000_001, "dog cow cat", "A", image="1", hint=HINT),
    row(2_000_001, "cow cat dog", "C", image="1", hint=HINT),
    row(2, "yes no", "A"),
    row(1_000_002, "no yes", "B", image="2"),
]


def write(root: Path, *rows: dict[str, str], name: str = "MMBench_DEV_EN.tsv") -> Path:
    with (root / name).open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys(), delimiter="\t", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return root


def bench(root: Path, **wishes: int) -> MmBench:
    return MmBench.at(root, **wishes)


def test_the_releases_rotations_are_askings_of_one_question(tmp_path: Path) -> None:
    items = list(bench(write(tmp_path, *ROTATED)).evaluate())
    assert [item.question.id for item in items] == ["1", "1000001", "2000001", "2", "1000002"]
    assert [item.group for item in items] == ["1", "1", "1", "2", "2"]
    assert {item.gold for item in items[:3]} == {("dog",)}
    assert items[1].question.choices == ("dog", "cow", "cat")
    assert items[0].own == items[1].own == ("1:hint", "1:image")
    assert items[3].own == ("2:image",)
    assert items[0].tags == {"ability": "coarse_perception", "skill": "image_scene"}


def test_a_question_with_one_row_is_rotated_in_the_same_way(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    whole = list(bench(write(tmp_path, *ROTATED)).evaluate())
    once = list(bench(write(tmp_path / "one", ROTATED[0], ROTATED[3])).evaluate())
    assert once == whole


@pytest.mark.parametrize(
    ("choices", "letter", "right", "count"),
    [("2  3 4", "C", "3", 3), (" 2", "B", "2", 1), ("1 2 3 4 5", "E", "5", 5), ("1 2   5", "E", "5", 3)],
)
def test_the_answer_names_a_column_and_blank_ones_are_no_choices(
    tmp_path: Path, choices: str, letter: str, right: str, count: int
) -> None:
    item, *rotations = bench(write(tmp_path, row(1, choices, letter))).evaluate()
    assert (item.gold, len(item.question.choices), len(rotations)) == ((right,), count, count - 1)


def test_a_picture_that_is_used_is_written_once_and_shared_by_the_rotations(tmp_path: Path) -> None:
    dataset = bench(write(tmp_path, *ROTATED))
    corpus = list(dataset.corpus())
    assert [source.id for source in corpus] == ["1:hint", "1:image", "2:image"]
    assert corpus[0].text == HINT
    dataset.unpack(corpus[2:])
    assert [str(file) for file in (tmp_path / "cache" / "mmbench").iterdir()] == [corpus[2].image]
    with Image.open(str(corpus[2].image)) as picture:
        assert picture.getpixel((0, 0)) == pytest.approx((2, 0, 0), abs=2)


def test_an_answer_names_the_choice_by_its_text_or_its_letter_in_this_rotation(tmp_path: Path) -> None:
    dataset = bench(write(tmp_path, *ROTATED))
    first, second, *_ = dataset.evaluate()
    assert [dataset.score(first, answer).utility for answer in ("B", "dog", "A", "bird", None)] == [1, 1, 0, 0, 0]
    assert [dataset.score(second, answer).utility for answer in ("B", "dog", "A")] == [0, 1, 1]


def test_what_is_learned_from_is_never_evaluated_in_any_rotation(tmp_path: Path) -> None:
    root = write(tmp_path, *(row(n, "a b c d", "A") for n in range(12)))
    dataset = bench(root, train=4, limit=5)
    learned, evaluated = list(dataset.train()), list(dataset.evaluate())
    assert (len(learned), len(evaluated)) == (4, 20)
    assert len({item.group for item in evaluated}) == 5
    assert not {item.group for item in learned} & {item.group for item in evaluated}


def record(folder: RunFolder, dataset: MmBench, answers: dict[str, str]) -> None:
    with Recorder(folder) as recorder:
        for item in dataset.evaluate():
            answer = answers[item.question.id]
            turn = Message("1/single", "single", 1, answer, answer, 1.0, calls=1, prompt_tokens=10)
            trace = Trace(item.question.id, "cot", 0, ("single",), (turn,), answer, Status.OK, 0)
            recorder.evaluated(trace, item, dataset.score(item, answer))


def test_a_question_is_right_only_when_every_rotation_is_and_costs_what_all_do(tmp_path: Path) -> None:
    """As `mcq_circular_eval` of VLMEvalKit: one hit or miss for each row whose index is its group's."""
    (tmp_path / "data").mkdir()
    dataset = bench(write(tmp_path / "data", *ROTATED))
    folder = RunFolder.create(tmp_path, "cot")
    always_b = dict.fromkeys(("1", "1000001", "2000001", "2", "1000002"), "B")
    record(folder, dataset, always_b | {"1000001": "A", "2000001": "C"})
    metrics = summarise(folder, RunFacts("cot", "reader", "mmbench", "accuracy", ("cot",)))
    assert metrics["questions"] == 2
    assert metrics["methods"]["cot"]["utility"] == 0.5  # two of five answers say B where the rule would pay B
    assert metrics["methods"]["cot"]["prompt_tokens"] == 25.0
    assert metrics["parts"]["ability"] == {
        "coarse_perception": {"questions": 1, "utility": {"cot": 1.0}},
        "finegrained_perception (instance-level)": {"questions": 1, "utility": {"cot": 0.0}},
    }


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([row(1, "a b", "C")], "line 2: .*'C' of 2 "),
        ([row(1, "a b", "A", image="7")], r"line 2: .*picture 7\b"),
        ([row(1, "a b", "A", image="!" * 80)], "line 2: .*base64"),
        ([row(1, "a b", "A", image=base64.b64encode(b"x" * 80).decode())], "line 2: .*picture"),
        ([row(1_000_001, "a b", "A")], "has no questions"),
        ([{k: v for k, v in row(1, "a b", "A").items() if k != "answer"}], "line 2: answer: "),
        ([row(1, "a b", "A") | {"index": "x"}], "index: .*'x'"),
    ],
)
def test_a_broken_file_is_named(tmp_path: Path, rows: list[dict[str, str]], message: str) -> None:
    dataset = bench(write(tmp_path, *rows))
    with pytest.raises(UserError, match=f"MMBench_DEV_EN.tsv.*{message}"):
        dataset.unpack(list(dataset.corpus()))


def test_the_folder_holds_one_file(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"\.tsv.*MMBench_DEV"):
        list(bench(tmp_path).evaluate())
    write(write(tmp_path, *ROTATED), *ROTATED, name="MMBench_DEV_CN.tsv")
    with pytest.raises(UserError, match=r"found MMBench_DEV_CN.tsv, MMBench_DEV_EN.tsv"):
        list(bench(tmp_path).evaluate())


def test_no_label_is_in_the_corpus(tmp_path: Path) -> None:
    told = [(s.title, s.text) for s in bench(write(tmp_path, *ROTATED)).corpus()]
    assert told[1:] == [("Picture", ""), ("Picture", "")]


def test_parts_are_means_over_the_questions_with_a_value_and_combined_values_count_as_each() -> None:
    utilities = {"a": 1.0, "b": 0.0, "c": 0.5}
    answers = {"sp": pd.DataFrame({"utility": pd.Series(utilities)})}
    tags = {"a": {"context": "IMG+TXT", "same": "x"}, "b": {"context": "IMG", "same": "x"}, "c": {"same": "x"}}
    assert by_tag(answers, tags) == {
        "context": {"IMG": {"questions": 2, "utility": {"sp": 0.5}}, "TXT": {"questions": 1, "utility": {"sp": 1.0}}}
    }
