"""Claims that hold for every benchmark, on a small valid instance of its layout."""

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from actors.errors import UserError
from actors.messages import Source
from experiments.conformance.parts import check_dataset
from experiments.datasets.catalogue import DATASETS, dataset_kind
from experiments.datasets.item import Dataset, Subset
from experiments.datasets.kind import DataRequest, DataSettings
from experiments.running.inputs import manifest_of
from tests.fuzz.layouts import LAYOUTS

# The file of the evaluated questions, and one picture of the corpus.
FILES = {
    "mmqa": ("MMQA_dev.jsonl", "final_dataset_images/i1.png"),
    "scienceqa": ("problems.json", "images/test/4/image.png"),
    "tatqa": ("tatqa_dataset_dev.json", ""),
    "vidoseek": ("rag_dataset.json", "img/d_1.jpg"),
    "webqa": ("WebQA_train_val.json", ""),
    "mmbench": ("MMBench_DEV_EN.tsv", ""),
    "crisismmd": (
        "crisismmd_datasplit_agreed_label/task_informative_text_img_agreed_lab_test.tsv",
        "data_image/1_0.png",
    ),
    "file": ("questions.jsonl", "shown.png"),
    "mh": ("questions_mh/question_list.xlsx", "mmkg/Roarer/Knowledge_Images/Bite/1.png"),
}
FRAGMENTS = "; , and \n a the red yes 12 -3.5 (4) $1,200 7% million percent .5 1e308 ² １２ Q4 unknown".split(" ")
# What a model may write: separators, numbers and units in any order, or anything else.
answers = st.one_of(
    st.lists(st.sampled_from([*FRAGMENTS, " "]), max_size=6).map(" ".join),
    st.lists(st.sampled_from(FRAGMENTS), max_size=6).map("".join),
    st.text(max_size=40),
)
every = pytest.mark.parametrize("kind", FILES)


@pytest.fixture
def root(kind: str, tmp_path: Path) -> Path:
    LAYOUTS[kind](tmp_path / "data")
    return tmp_path / "data"


def opened(kind: str, root: Path, limit: int | None = 2, train: int = 1, seed: int = 0) -> Dataset:
    settings = DataSettings(kind, str(root), limit)
    return dataset_kind(kind).open(DataRequest(settings, root / "cache", train, train, seed, whole_corpus=True))


@pytest.fixture
def dataset_by_metric(kind: str, tmp_path: Path) -> Dataset:
    """A data set by its name, with another metric than its own after a colon."""
    name, _, metric = kind.partition(":")
    root = tmp_path / "data"
    LAYOUTS[name](root)
    settings = DataSettings(name, str(root), 2, metric="containment" if metric else "official")
    dataset = dataset_kind(name).open(DataRequest(settings, root / "cache", 1, 1, 0, whole_corpus=True))
    return Subset(dataset, list(dataset.evaluate()))


def ids(dataset: Dataset) -> list[str]:
    return [item.question.id for item in dataset.evaluate()]


def read(dataset: Dataset) -> list[Any]:
    return [*dataset.train(), *dataset.evaluate(), *dataset.corpus()]


def test_the_table_names_every_benchmark() -> None:
    assert {kind.name for kind in DATASETS if "data.root" in kind.reads} == {*FILES} == {*LAYOUTS}


@every
def test_splits_sources_and_scores_conform(kind: str, root: Path) -> None:
    check_dataset(opened(kind, root))


@pytest.mark.slow
@pytest.mark.parametrize("kind", [*FILES, "tatqa:containment"])
@settings(derandomize=True, max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(answer=answers)
def test_any_text_has_a_score(kind: str, dataset_by_metric: Dataset, answer: str) -> None:
    for item in dataset_by_metric.evaluate():
        score = dataset_by_metric.score(item, answer)
        parts = [score.utility, score.f1, *([] if score.strict_em is None else [score.strict_em])]
        assert all(0.0 <= part <= 1.0 for part in parts), (answer, item.gold)


@every
def test_a_larger_limit_adds_questions_in_an_order_by_seed(kind: str, root: Path) -> None:
    one, two = (ids(opened(kind, root, limit)) for limit in (1, 2))
    assert set(one) <= set(two)
    assert ids(opened(kind, root, 2)) == two
    everything = ids(opened(kind, root, None, train=0))
    assert [id for id in everything if id in two] == two


@every
def test_questions_name_what_they_share(kind: str, root: Path) -> None:
    items = list(opened(kind, root, None, train=0).evaluate())
    clusters = {item.question.id: item.cluster for item in items}
    if kind == "mmbench":  # its picture is the question's own, unless a row refers to another's
        assert set(clusters.values()) == {""}
    else:
        assert all(clusters.values())
        shared = {item.cluster for item in items}
        assert all(
            any(name in part for item in items for part in (*item.pool, *item.withheld, *item.tags.values()))
            for name in shared
        )


@every
def test_a_missing_file_is_named_with_its_origin(kind: str, root: Path) -> None:
    (root / FILES[kind][0]).unlink()
    with pytest.raises(UserError) as refused:
        opened(kind, root)
    assert str(root) in str(refused.value)
    assert dataset_kind(kind).release in str(refused.value)


@pytest.mark.parametrize(
    ("kind", "missing"),
    [
        ("mmqa", ("MMQA_train.jsonl.gz", "MMQA_texts.jsonl.gz", "MMQA_images.jsonl")),
        ("scienceqa", ("problems.json", "pid_splits.json", "captions.json")),
        ("mh", ("mmkg/Roarer/Node.xlsx", "mmkg/Roarer/Relations.xlsx")),
        ("crisismmd", tuple(FILES["crisismmd"][0].replace("test", split) for split in ("train", "test"))),
        ("vidoseek", ("rag_dataset.json", "img")),
    ],
)
def test_all_missing_files_are_named_before_any_is_read(kind: str, missing: tuple[str, ...], root: Path) -> None:
    for name in missing:
        path = root / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    for left in root.rglob("*"):
        if left.is_file():
            left.write_bytes(b"broken")
    with pytest.raises(UserError) as refused:
        opened(kind, root)
    assert all(name in str(refused.value) for name in missing)


@every
@pytest.mark.parametrize("damage", ["truncated", "empty", "another form", "a folder"])
def test_a_damaged_file_is_named_in_one_line(kind: str, damage: str, root: Path) -> None:
    path = root / FILES[kind][0]
    content = path.read_bytes()
    if damage == "a folder":
        path.unlink()
        path.mkdir()
    else:
        contents = {"truncated": content[: len(content) * 2 // 3 - 3], "empty": b"", "another form": b"7\n"}
        path.write_bytes(contents[damage])
    with pytest.raises(UserError) as refused:
        read(opened(kind, root))
    assert str(root) in str(refused.value)
    assert str(refused.value).isprintable()


@every
def test_a_damaged_picture_is_named_where_it_is_used(kind: str, root: Path) -> None:
    name = FILES[kind][1]
    if not name:
        pytest.skip("it has no pictures, or holds them in its tables")
    (root / name).write_bytes(b"\x89PNG damaged")
    dataset = opened(kind, root)
    damaged: list[Source] = []
    whole: list[Source] = []
    for source in dataset.corpus():
        (damaged if source.image == str(root / name) else whole).append(source)
    manifest = manifest_of(dataset, root / "cache")
    manifest.check_pictures(whole)
    with pytest.raises(UserError, match=Path(name).name):
        manifest.check_pictures(damaged)


@every
def test_a_folder_that_is_not_there_is_named(kind: str, root: Path) -> None:
    shutil.rmtree(root)
    with pytest.raises(UserError, match=rf"data\.root={re.escape(str(root))} "):
        opened(kind, root)
