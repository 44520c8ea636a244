"""CrisisMMD: posts of disasters, to be put into classes."""

from pathlib import Path

import pytest
from PIL import Image

from actors.errors import UserError
from actors.messages import Kind
from experiments.datasets.crisismmd import CHOICES, CrisisMmd

HEADER = "event_name\ttweet_id\timage_id\ttweet_text\timage\tlabel\tlabel_text\tlabel_image\tlabel_text_image"


def post(image_id: str, label: str, text: str = "Roof gone", event: str = "hurricane_irma") -> str:
    tweet = image_id.rpartition("_")[0]
    return "\t".join(
        [event, tweet, image_id, text, f"data_image/{event}/{image_id}.jpg", label, label, label, "Positive"]
    )


def write(root: Path, task: str, split: str, *posts: str, agreed: bool = True, header: str = HEADER) -> None:
    folder = "crisismmd_datasplit_agreed_label" if agreed else "crisismmd_datasplit_all"
    file = root / folder / f"task_{task}_text_img{'_agreed_lab' if agreed else ''}_{split}.tsv"
    file.parent.mkdir(exist_ok=True)
    file.write_text("\n".join([header, *posts]) + "\n")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write(
        tmp_path,
        "informative",
        "test",
        post("1_0", "informative", 'He said "run'),
        post("1_1", "informative", 'He said "run'),
        post("2_0", "not_informative"),
    )
    write(tmp_path, "informative", "train", post("1_2", "informative"), post("3_0", "not_informative", "Nice dog"))
    picture = tmp_path / "data_image" / "hurricane_irma" / "1_0.jpg"
    picture.parent.mkdir(parents=True)
    Image.new("RGB", (4, 4)).save(picture)
    return tmp_path


def test_a_posts_text_and_picture_are_part_of_the_question(root: Path) -> None:
    dataset = CrisisMmd.at(root)
    first, second, third = dataset.evaluate()
    assert first.own == first.pool == ("1:text", "1_0")
    assert second.own == ("1:text", "1_1")
    assert first.question.choices == ("informative", "not informative")
    assert (first.gold, third.gold) == (("informative",), ("not informative",))
    assert first.tags == {"task": "informative", "event": "hurricane_irma"}
    sources = {source.id: source for source in dataset.corpus()}
    assert list(sources) == ["1:text", "1_0", "1_1", "2:text", "2_0", "1_2", "3:text", "3_0"]
    assert sources["1:text"].text == 'He said "run'
    assert sources["1:text"].title == "hurricane irma"
    assert (sources["1_0"].kind, sources["1_0"].image is None) == (Kind.IMAGE, False)
    assert sources["1_1"].image is None  # its file is not there


def test_a_post_is_learned_from_or_evaluated_and_never_both(root: Path) -> None:
    assert [item.question.id for item in CrisisMmd.at(root).train()] == ["3_0"]


def test_without_the_training_file_the_test_split_is_evaluated_over_its_own_posts(root: Path) -> None:
    train = root / "crisismmd_datasplit_agreed_label" / "task_informative_text_img_agreed_lab_train.tsv"
    train.unlink()
    dataset = CrisisMmd.at(root)
    dataset.check_files()
    assert list(dataset.train()) == []
    assert [item.question.id for item in dataset.evaluate()] == ["1_0", "1_1", "2_0"]
    assert {source.doc for source in dataset.corpus()} == {"1:text", "1_0", "1_1", "2:text", "2_0"}
    learning = CrisisMmd.at(root, train=1)
    for read in (learning.check_files, lambda: list(learning.train())):
        with pytest.raises(UserError, match=train.name):
            read()


def test_no_label_is_in_the_corpus(root: Path) -> None:
    told = repr([(source.title, source.text, source.image) for source in CrisisMmd.at(root).corpus()])
    assert "informative" not in told


def test_agreed_labels_are_preferred_and_all_posts_are_used_where_there_are_none(root: Path) -> None:
    write(root, "informative", "test", post("9_0", "informative"), agreed=False)
    write(root, "damage", "test", post("9_0", "mild_damage"), agreed=False, header=HEADER)
    assert next(iter(CrisisMmd.at(root).evaluate())).question.id == "1_0"
    (item,) = CrisisMmd.at(root, task="damage").evaluate()
    assert (item.gold, item.question.choices) == (("mild damage",), tuple(CHOICES["damage"].values()))


@pytest.mark.parametrize(
    ("label", "merged"),
    [
        ("injured_or_dead_people", "affected individuals"),
        ("missing_or_found_people", "affected individuals"),
        ("vehicle_damage", "infrastructure and utility damage"),
        ("not_humanitarian", "not humanitarian"),
    ],
)
def test_the_merged_humanitarian_task_has_five_classes(tmp_path: Path, label: str, merged: str) -> None:
    write(tmp_path, "humanitarian", "test", post("1_0", label))
    (eight,) = CrisisMmd.at(tmp_path, task="humanitarian").evaluate()
    (five,) = CrisisMmd.at(tmp_path, task="humanitarian_merged").evaluate()
    assert len(eight.question.choices) == 8
    assert len(five.question.choices) == 5
    assert eight.gold == (CHOICES["humanitarian"][label],)
    assert five.gold == (merged,)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (post("5_0", "great"), "line 2: .*'great'.*informative"),
        ("hurricane_irma\t5\t5_0\tshort", r"line 2: "),
        ("\n".join([post("5_0", "informative")] * 2), "line 3: image_id 5_0 "),
        ("", "is empty"),
    ],
)
def test_a_broken_file_is_named(tmp_path: Path, line: str, message: str) -> None:
    write(tmp_path, "informative", "test", line)
    with pytest.raises(UserError, match=f"task_informative_text_img_agreed_lab_test.tsv.*{message}"):
        list(CrisisMmd.at(tmp_path).evaluate())


def test_a_missing_task_is_named_with_where_it_comes_from(root: Path) -> None:
    with pytest.raises(UserError, match=r"task_damage_text_img_test.tsv.*crisisnlp.qcri.org"):
        list(CrisisMmd.at(root, task="damage").evaluate())
    write(root, "informative", "test", "x\ty", header="event_name\ttweet_id")
    with pytest.raises(UserError, match="image_id: "):
        list(CrisisMmd.at(root).evaluate())
