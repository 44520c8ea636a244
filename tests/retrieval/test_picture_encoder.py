"""Texts and pictures with an encoder each: a query goes to the one that sees what is searched."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from actors.messages import Kind, Search, Source
from experiments.config.loading import load
from experiments.datasets.kind import DataRequest
from experiments.datasets.sample.release import SAMPLE
from experiments.running.inputs import open_store
from experiments.studies.recall import recall_report
from retrieval.embed import LexicalEncoder, Vectors, words_of
from retrieval.graph import KnowledgeGraph
from retrieval.store import SearchSpace, Store

TEXTS, PICTURES = frozenset({Kind.TEXT, Kind.TABLE}), frozenset({Kind.IMAGE})
COLOURS = {"red": (255, 0, 0), "green": (0, 255, 0), "blue": (0, 0, 255)}


class Colours:
    """Three numbers: the mean colour of a picture that is there, or the colour words of a text."""

    name = "colours"
    dim = 3
    fingerprint = "colours-1"
    reads_pictures = True
    late_interaction = False

    def __init__(self) -> None:
        self.asked: list[str] = []

    def encode_query(self, text: str) -> Vectors:
        self.asked.append(text)
        words = text.lower().split()
        return self._unit([sum(word == colour for word in words) for colour in COLOURS])

    def encode_sources(self, sources: Sequence[Source]) -> Vectors:
        return np.stack([self._seen(source) for source in sources])

    def _seen(self, source: Source) -> Vectors:
        if source.image is None:
            return self.encode_query(words_of(source))
        with Image.open(source.image) as picture:
            return self._unit(list(np.asarray(picture.convert("RGB")).mean(axis=(0, 1))))

    def _unit(self, numbers: list[float]) -> Vectors:
        vector = np.asarray(numbers, dtype=np.float32) + 1e-3
        unit: Vectors = vector / np.linalg.norm(vector)
        return unit


class Asked(LexicalEncoder):
    """The lexical encoder, which also remembers what it was asked and refuses to see a picture's file."""

    def __init__(self) -> None:
        super().__init__(64)
        self.asked: list[str] = []

    def encode_query(self, text: str) -> Vectors:
        self.asked.append(text)
        return super().encode_query(text)

    def encode_sources(self, sources: Sequence[Source]) -> Vectors:
        assert all(source.image is None for source in sources)
        return super().encode_sources(sources)


@pytest.fixture
def sources(tmp_path: Path) -> list[Source]:
    for colour, pixel in COLOURS.items():
        Image.new("RGB", (4, 4), pixel).save(tmp_path / f"{colour}.png")
    return [
        Source("t1", "t1", Kind.TEXT, "Harbours", "The lamp of Drun is red"),
        Source("t2", "t2", Kind.TEXT, "Bells", "A green bell hangs in the tower"),
        *(Source(f"p-{c}", f"p-{c}", Kind.IMAGE, "Lamp", "", str(tmp_path / f"{c}.png")) for c in COLOURS),
    ]


def opened(folder: Path, sources: Sequence[Source]) -> tuple[Store, Asked, Colours]:
    def corpus() -> Iterator[Source]:
        return iter(sources)

    texts, pictures = Asked(), Colours()
    store = Store.open(folder / "index", corpus, texts, picture_encoder=pictures)
    texts.asked.clear()
    pictures.asked.clear()
    return store, texts, pictures


def test_a_query_for_pictures_goes_to_their_encoder_and_one_for_texts_to_the_other(
    tmp_path: Path, sources: list[Source]
) -> None:
    store, texts, pictures = opened(tmp_path, sources)
    found = store.search(Search("a green lamp", 1, PICTURES, "vector"))
    assert (found[0].source.id, texts.asked, pictures.asked) == ("p-green", [], ["a green lamp"])
    found = store.search(Search("harbour lamp", 1, TEXTS, "vector"))
    assert (found[0].source.id, texts.asked, pictures.asked) == ("t1", ["harbour lamp"], ["a green lamp"])


def test_texts_and_pictures_together_are_fused_by_their_ranks(tmp_path: Path, sources: list[Source]) -> None:
    store, _, _ = opened(tmp_path, sources)
    found = store.search(Search("green bell tower", 5, mode="vector"))
    assert [hit.source.id for hit in found[:2]] == ["p-green", "t2"]
    assert found[0].score == found[1].score == pytest.approx(1 / 61, abs=1e-6)
    assert len(found) == len(sources)
    within = store.search(Search("green bell", 5, mode="vector"), SearchSpace(["t1", "p-red"]))
    assert {hit.source.id for hit in within} == {"t1", "p-red"}


def test_a_picture_is_searched_by_its_file_among_pictures_and_by_its_words_among_texts(
    tmp_path: Path, sources: list[Source]
) -> None:
    store, _, _ = opened(tmp_path, sources)
    shown = Source("q", "q", Kind.IMAGE, "Harbour lamp", "", str(tmp_path / "blue.png"))
    assert store.search(Search(shown, 1, PICTURES, "vector"))[0].source.id == "p-blue"
    assert store.search(Search(shown, 1, TEXTS, "vector"))[0].source.id == "t1"
    silent = Source("q", "q", Kind.IMAGE, "", "", str(tmp_path / "red.png"))
    assert store.search(Search(silent, 1, TEXTS, "vector")) == []
    assert store.search(Search(silent, 5, mode="vector"))[0].source.id == "p-red"


def test_a_search_by_words_alone_encodes_nothing_unless_it_has_a_radius(tmp_path: Path, sources: list[Source]) -> None:
    store, texts, pictures = opened(tmp_path, sources)
    assert {hit.source.id for hit in store.search(Search("red lamp", 9, mode="text"))} >= {"t1", "p-red", "p-blue"}
    assert texts.asked == [] == pictures.asked
    near = store.search(Search("red lamp", 9, mode="text", radius=0.95))
    assert {hit.source.id for hit in near} == {"p-red", "t1"}
    assert texts.asked == ["red lamp"] == pictures.asked


def test_large_columns_are_indexed_though_each_has_gaps(
    tmp_path: Path, sources: list[Source], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("retrieval.index.IVF_FROM_ROWS", 400)
    many = [Source(f"n{i}", f"n{i}", Kind.TEXT, f"Number {i}", f"word{i}") for i in range(500)]
    store, _, _ = opened(tmp_path, [*many, *sources])
    assert store.search(Search("word77", 1, TEXTS, "vector"))[0].source.id == "n77"
    assert store.search(Search("blue", 1, PICTURES, "vector"))[0].source.id == "p-blue"


def test_an_index_is_of_both_encoders_and_of_one_where_both_are_the_same(tmp_path: Path, sources: list[Source]) -> None:
    def folder(texts: LexicalEncoder, pictures: LexicalEncoder | None) -> str:
        return Store.open(tmp_path / "index", lambda: iter(sources), texts, picture_encoder=pictures).folder.name

    one, other = LexicalEncoder(64), LexicalEncoder(32)
    assert folder(one, None) == folder(one, LexicalEncoder(64))
    assert len({folder(one, None), folder(other, None), folder(one, other), folder(other, one)}) == 4


def test_a_graph_is_of_the_encoder_of_texts(tmp_path: Path, sources: list[Source]) -> None:
    store, texts, pictures = opened(tmp_path, sources)
    assert KnowledgeGraph.open(store).search(["Drun"], 1)
    assert texts.asked
    assert not pictures.asked


def test_the_settings_name_an_encoder_for_each(tmp_path: Path) -> None:
    config = load(["experiment=recall", "retrieval.picture_encoder=tests.retrieval.test_picture_encoder:Colours"])
    dataset = SAMPLE.open(DataRequest(config.data, tmp_path, train=0, held_out=0, seed=0, whole_corpus=False))
    store = open_store(config.retrieval, dataset, tmp_path)
    assert store.encoder.name == "lexical"
    asked = Search("red", 3, PICTURES, "vector")
    plain = load(["experiment=recall"])
    plain_store = open_store(plain.retrieval, dataset, tmp_path)
    assert store.search(asked) != plain_store.search(asked)
    (pools, *_) = recall_report(dataset, store, ks=(5,), scopes=("pool",), modes=("vector",), limit=4)
    assert pools["questions"] == 4
    assert pools["recall"] > 0
