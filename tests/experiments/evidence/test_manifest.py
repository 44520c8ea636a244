"""A release is read once, and its pictures are decoded before they are used."""

import os
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from actors.errors import UserError
from actors.messages import Kind, Question, Source
from experiments.config.config import Config
from experiments.config.loading import load
from experiments.datasets.item import Dataset, Item, Score, text_score
from experiments.datasets.sample.release import PICTURES, write_sample
from experiments.evidence.evidence import Evidence
from experiments.jobs import plan_of
from experiments.running.inputs import manifest_of, open_dataset, open_evidence


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_sample(tmp_path / "release", train=0, dev=16)
    return tmp_path / "release"


def config_of(root: Path, *words: str) -> Config:
    return load(["experiment=mmqa_prune", "data=mmqa", f"data.root={root}", "data.limit=1", "methods=[single]", *words])


def opened(root: Path, *words: str) -> tuple[Dataset, Evidence]:
    plan = plan_of(config_of(root, *words))
    dataset = open_dataset(plan, root.parent / "cache")
    return dataset, open_evidence(plan, dataset, root.parent / "cache")


def broken_corpus() -> Iterator[Source]:
    raise AssertionError("the corpus was read again")


def digest(root: Path, *, may_read: bool = True) -> str:
    dataset = open_dataset(plan_of(config_of(root)), root.parent / "cache")
    if not may_read:
        dataset.corpus = broken_corpus  # type: ignore[method-assign]
    with closing(manifest_of(dataset, root.parent / "cache")) as manifest:
        return manifest.digest(False)


def pictures(root: Path) -> list[Path]:
    return sorted((root / PICTURES).iterdir())


def test_a_release_that_has_not_changed_is_not_read_again(root: Path) -> None:
    assert digest(root) == digest(root, may_read=False)


def test_a_release_that_has_changed_is_read_again(root: Path) -> None:
    first = digest(root)
    os.utime(pictures(root)[0], ns=(1, 1))
    with pytest.raises(AssertionError):
        digest(root, may_read=False)
    assert digest(root) == first
    pictures(root)[0].unlink()
    assert digest(root) != first
    [manifest] = (root.parent / "cache" / "indexes").glob("release-*.json")
    manifest.write_text("{")
    with pytest.raises(AssertionError):
        digest(root, may_read=False)


def test_notes_on_a_release_come_again_where_it_is_not_read(root: Path) -> None:
    pictures(root)[0].unlink()
    first, _ = opened(root)
    again, _ = opened(root)
    assert [note for note in again.notes if "no file" in note] == [note for note in first.notes if "no file" in note]
    assert any("1 of" in note for note in again.notes)


def halve(picture: Path) -> None:
    """Leaves a picture its header."""
    content = picture.read_bytes()
    picture.write_bytes(content[: len(content) // 2])


def test_a_broken_picture_is_named_where_it_is_used_or_all_are_decoded(root: Path) -> None:
    dataset, evidence = opened(root)
    [item] = dataset.evaluate()
    used = {source.image for source in evidence.store.pictures(list(item.pool))}
    [unused, *_] = [picture for picture in pictures(root) if str(picture) not in used]
    halve(unused)
    _, evidence = opened(root)
    with pytest.raises(UserError, match=f"{unused.name} cannot be decoded"):
        evidence.check_pictures(source for source in evidence.store.everything())
    with pytest.raises(UserError, match=f"{unused.name} cannot be decoded"):
        opened(root, "data.check=all")
    [first_used, *_] = sorted(filter(None, used))
    halve(Path(first_used))
    with pytest.raises(UserError, match=f"{Path(first_used).name} cannot be decoded"):
        opened(root)


@dataclass
class Album:
    """A data set of one's own."""

    pictures: dict[str, Path]
    name = "album"
    metric = "EM"

    def train(self) -> Iterator[Item]:
        return iter(())

    def evaluate(self) -> Iterator[Item]:
        yield Item(Question("q", "What is on the picture?"), ("a mill",), pool=("used",))

    def corpus(self) -> Iterator[Source]:
        for id, picture in self.pictures.items():
            yield Source(id, id, Kind.IMAGE, id, "", str(picture))

    def score(self, item: Item, answer: str | None) -> Score:
        return text_score(item, answer)


def test_pictures_of_ones_own_data_are_there_and_are_decoded_where_they_are_used(root: Path) -> None:
    plan = plan_of(config_of(root))
    [used, unused, *_] = pictures(root)
    album = Album({"used": used, "unused": unused})
    halve(unused)
    open_evidence(plan, album, root.parent / "cache")
    halve(used)
    with pytest.raises(UserError, match=f"{used.name} cannot be decoded"):
        open_evidence(plan, album, root.parent / "cache")
    unused.unlink()
    with pytest.raises(UserError, match=f"^data=album: source unused names a picture that is not there, {unused}"):
        open_evidence(plan, album, root.parent / "cache")
