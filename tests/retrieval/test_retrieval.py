"""Retrieval on a real LanceDB folder."""

import json
import multiprocessing
import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from actors.errors import StoreError
from actors.messages import Hit, Kind, Question, Search, SearchMode, Source, page_of
from experiments.datasets.item import Item, Score
from experiments.studies.recall import recall_report, recall_table
from retrieval import index
from retrieval.built_folder import MARKER
from retrieval.embed import Encoders, LexicalEncoder, SentenceEncoder, Vectors, make_encoder
from retrieval.index import BATCH_ROWS, open_index
from retrieval.store import SearchSpace, Store

MODES: tuple[SearchMode, ...] = ("text", "vector", "hybrid")
RIVERS = ("Aran", "Belo", "Cind", "Drava", "Elme", "Foss", "Gand", "Hurn")
SOURCES = [
    *(Source(f"text-{r}", f"doc-{r}", Kind.TEXT, r, f"The river {r} flows past the mill of {r}ville.") for r in RIVERS),
    *(Source(f"row-{i}-{r}", "rivers", Kind.TABLE, "Rivers", f"{r} | {i}00 km long") for i, r in enumerate(RIVERS, 1)),
    *(Source(f"pic-{r}", f"pic-{r}", Kind.IMAGE, f"Bridge over the {r}", "", f"/{r}.png") for r in RIVERS),
    Source("twin-b", "twins", Kind.TEXT, "Twins", "Both twins paint blue lighthouses."),
    Source("twin-a", "twins", Kind.TEXT, "Twins", "Both twins paint blue lighthouses."),
    Source("o'neil", "o'neil", Kind.TEXT, "O'Neil", "Shaun O'Neil's \"Café\" (est. 1900): a lighthouse?"),
]


class CountingEncoder(LexicalEncoder):
    """The lexical encoder, which also counts what it was given."""

    encoded = 0

    def encode_sources(self, sources: Sequence[Source]) -> Vectors:
        self.encoded += len(sources)
        return super().encode_sources(sources)


def corpus() -> Iterator[Source]:
    return iter(SOURCES)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store.open(tmp_path_factory.mktemp("lance"), corpus, LexicalEncoder())


def ids(found: list[Hit]) -> list[str]:
    return [one.source.id for one in found]


@pytest.mark.parametrize("mode", MODES)
def test_a_source_comes_back_as_it_went_in(store: Store, mode: SearchMode) -> None:
    best = store.search(Search("the mill of Dravaville", 1, mode=mode))
    assert [one.source for one in best] == [SOURCES[3]]


@pytest.mark.parametrize("mode", MODES)
def test_a_source_outside_the_pool_is_never_returned(store: Store, mode: SearchMode) -> None:
    pool = SearchSpace(["doc-Aran", "pic-Drava", "nowhere"])
    found = store.search(Search("the river Drava and its bridge", 50, mode=mode), pool)
    assert {one.source.doc for one in found} <= {"doc-Aran", "pic-Drava"}
    assert found[0].source.id == "pic-Drava"
    assert store.search(Search("the river Drava", 5, mode=mode), SearchSpace(pool=[])) == []


@pytest.mark.parametrize("mode", MODES)
def test_a_search_may_keep_to_documents_and_to_pages_by_their_titles(tmp_path: Path, mode: SearchMode) -> None:
    sources = [
        Source("film", "d1", Kind.TEXT, "Night's Harbour", "The harbour is blue."),
        Source("row", "d2", Kind.TABLE, "night's harbour - Cast", "harbour master = Holt"),
        Source("poster", "d1", Kind.IMAGE, "NIGHT'S HARBOUR ", "a harbour"),
        *(Source(f"r{n}", f"r{n}", Kind.TEXT, f"Harbour {n}", "The harbour, the harbour.") for n in range(60)),
    ]
    store = Store.open(tmp_path, lambda: iter(sources), LexicalEncoder())
    pages = frozenset(page_of(source.title) for source in sources[:1])
    assert {*ids(store.search(Search("the harbour", 5, mode=mode, pages=pages)))} == {"film", "row", "poster"}
    assert {*ids(store.search(Search("the harbour", 5, mode=mode, docs=frozenset(["d1"]))))} == {"film", "poster"}
    within = Search("the harbour", 5, frozenset([Kind.TEXT, Kind.TABLE]), mode, pages=pages)
    assert ids(store.search(within, SearchSpace(["d1", "d2"], withheld=["film"]))) == ["row"]
    assert store.search(Search("the harbour", 5, mode=mode, pages=frozenset())) == []


@pytest.mark.parametrize("mode", MODES)
def test_only_the_wanted_kinds_are_returned(store: Store, mode: SearchMode) -> None:
    found = store.search(Search("Gand", 50, mode=mode, kinds=frozenset({Kind.TABLE, Kind.IMAGE})))
    assert {one.source.kind for one in found} == {Kind.TABLE, Kind.IMAGE} or mode == "text"
    assert set(ids(found)[:2]) == {"row-7-Gand", "pic-Gand"}
    assert store.search(Search("Gand", 50, mode=mode, kinds=frozenset())) == []


@pytest.mark.parametrize("mode", MODES)
def test_withheld_sources_and_documents_are_never_returned(store: Store, mode: SearchMode) -> None:
    space = SearchSpace(withheld=("twin-a", "o'neil", "rivers"))
    found = store.search(Search("both twins, the O'Neil lighthouse", 50, mode=mode), space)
    assert "twin-b" in ids(found)
    assert not {"twin-a", "o'neil"} & set(ids(found))
    assert "rivers" not in {one.source.doc for one in found}


@pytest.mark.parametrize("mode", MODES)
def test_radius_leaves_out_what_is_farther(store: Store, mode: SearchMode) -> None:
    encoder = LexicalEncoder()
    query = "blue lighthouses of the twins"
    everything = store.search(Search(query, 50, mode=mode))
    near = ids(store.search(Search(query, 50, mode=mode, radius=0.7)))
    distances = 1 - encoder.encode_sources([one.source for one in everything]) @ encoder.encode_query(query)
    assert {"twin-a", "twin-b"} <= set(near)
    assert set(near) == {one.source.id for one, distance in zip(everything, distances, strict=True) if distance <= 0.7}
    assert store.search(Search(query, 50, mode=mode, radius=0.01)) == []


@pytest.mark.parametrize("mode", MODES)
def test_equal_scores_are_ordered_by_id_wherever_the_list_ends(store: Store, mode: SearchMode) -> None:
    query = "Both twins paint blue lighthouses"
    assert ids(store.search(Search(query, 2, mode=mode))) == ["twin-a", "twin-b"]
    assert ids(store.search(Search(query, 1, mode=mode))) == ["twin-a"]


@pytest.mark.parametrize("mode", MODES)
def test_a_query_without_words_finds_nothing(store: Store, mode: SearchMode) -> None:
    for query in ("", "  ", "?!", '"("', "\x00", '""'):
        assert store.search(Search(query, 3, mode=mode)) == []


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "query",
    [
        '"blue lighthouses"',
        "+blue -paint*",
        "body:blue AND NOT lighthouses",
        "(blue lighthouses~2 ^3 \\",
        "[blue TO lighthouses}",
    ],
)
def test_nothing_in_a_query_is_syntax(store: Store, query: str, mode: SearchMode) -> None:
    assert ids(store.search(Search(query, 2, mode=mode))) == ["twin-a", "twin-b"]


WORLD = {
    "chinese": "东京是日本的首都，上海有很多人。",
    "japanese": "富士山は日本で一番高い山です。カタカナの表",
    "thai": "กรุงเทพมหานครเป็นเมืองหลวงของประเทศไทย",
    "khmer": "រាជធានីភ្នំពេញ",
    "burmese": "ရန်ကုန်မြို့",
    "korean": "서울은 대한민국의 수도이다",
    "russian": "Москва - столица России",
    "german": "Die Straße nach Zürich",
    "short": "AI and the EU in 5 C: Go",
}


@pytest.mark.parametrize(
    ("query", "id", "modes"),
    [
        ("首都", "chinese", MODES),
        ("上海有多少人？", "chinese", MODES),
        ("富士山", "japanese", MODES),
        ("カタカナ", "japanese", MODES),
        ("เมืองหลวง", "thai", MODES),
        ("ไทย", "thai", ("vector", "hybrid")),
        ("ភ្នំពេញ", "khmer", MODES),
        ("ရန်ကုန်", "burmese", MODES),
        ("수도이다", "korean", MODES),
        ("서울", "korean", ("vector", "hybrid")),  # whose particles belong to its words
        ("Москва", "russian", MODES),
        ("Zurich", "german", MODES),
        *((word, "short", ("text",)) for word in ("AI", "EU", "5", "C", "go")),
    ],
)
def test_words_of_any_language_and_length_are_found(
    tmp_path_factory: pytest.TempPathFactory, query: str, id: str, modes: tuple[SearchMode, ...]
) -> None:
    sources = [Source(name, name, Kind.TEXT, "", text) for name, text in WORLD.items()]
    folder = tmp_path_factory.getbasetemp() / "world"  # one index for all cases
    store = Store.open(folder, lambda: iter(sources), LexicalEncoder())
    for mode in modes:
        assert ids(store.search(Search(query, 1, mode=mode))) == [id]


@pytest.mark.slow
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.one_of(st.text(max_size=60), st.text(alphabet="ab \"'():*^~+-AND\\/[]{}!?%;_\ud83d", max_size=30)),
    st.sampled_from(MODES),
)
def test_any_query_is_harmless_and_answered_the_same_twice(store: Store, query: str, mode: SearchMode) -> None:
    found = store.search(Search(query, 4, mode=mode), SearchSpace(pool=["twins", "o'neil", "rivers", query]))
    assert len(found) <= 4
    assert store.search(Search(query, 4, mode=mode), SearchSpace(pool=["twins", "o'neil", "rivers", query])) == found


def test_wrong_arguments_are_named(store: Store) -> None:
    with pytest.raises(ValueError, match=r"'lexical'.*text, vector, hybrid"):
        store.search(Search("river", 3, mode="lexical"))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="at least 1"):
        store.search(Search("river", 0))


def test_an_index_is_found_again_without_encoding(tmp_path: Path) -> None:
    Store.open(tmp_path, corpus, LexicalEncoder())
    again = CountingEncoder()
    assert len(Store.open(tmp_path, corpus, again)) == len(SOURCES)
    assert again.encoded == 0


def test_a_changed_corpus_or_encoder_gets_an_index_of_its_own(tmp_path: Path) -> None:
    Store.open(tmp_path, corpus, LexicalEncoder())
    changed = [*SOURCES[1:], Source("new", "new", Kind.TEXT, "Volcano", "It erupts.")]
    encoder = CountingEncoder()
    assert ids(Store.open(tmp_path, lambda: iter(changed), encoder).search(Search("volcano", 1))) == ["new"]
    assert encoder.encoded == len(changed)
    smaller = CountingEncoder(64)
    Store.open(tmp_path, corpus, smaller)
    assert smaller.encoded == len(SOURCES)


def test_an_index_whose_building_failed_is_built_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "corpus_digest", lambda *_: "v1")  # equal for both corpora below

    def breaks() -> Iterator[Source]:
        yield from SOURCES[:2]
        raise FileNotFoundError("texts.jsonl is missing")

    with pytest.raises(FileNotFoundError, match=r"^texts.jsonl is missing$"):
        Store.open(tmp_path, breaks, LexicalEncoder())
    assert not list(tmp_path.glob(f"*/{MARKER}"))
    assert len(Store.open(tmp_path, corpus, LexicalEncoder())) == len(SOURCES)
    (marker,) = tmp_path.glob(f"*/{MARKER}")
    marker.unlink()
    again = CountingEncoder()
    Store.open(tmp_path, corpus, again)
    assert again.encoded == len(SOURCES)


MANY = [Source(f"t{number}", f"t{number}", Kind.TEXT, "", f"text number {number}") for number in range(2000)]
CONTINUED = 3 * BATCH_ROWS


@pytest.mark.parametrize("end", ["encoding", "torn", "indexing"])
def test_a_build_that_has_ended_early_is_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str) -> None:
    monkeypatch.setattr(index, "IVF_FROM_ROWS", 1000)

    class Ending(CountingEncoder):
        def encode_sources(self, sources: Sequence[Source]) -> Vectors:
            if self.encoded == CONTINUED and end != "indexing":
                raise KeyboardInterrupt
            return super().encode_sources(sources)

        def encode_query(self, text: str) -> Vectors:
            if end == "indexing":
                raise KeyboardInterrupt
            return super().encode_query(text)

    with pytest.raises(KeyboardInterrupt):
        Store.open(tmp_path / "continued", lambda: iter(MANY), Ending())
    (building,) = (tmp_path / "continued").glob("*.building")
    if end == "torn":
        shutil.rmtree(next(building.rglob("_versions")))

    again = CountingEncoder()
    store = Store.open(tmp_path / "continued", lambda: iter(MANY), again)
    assert again.encoded == {"torn": len(MANY), "indexing": 0}.get(end, len(MANY) - CONTINUED)
    assert not building.exists()
    whole = Store.open(tmp_path / "whole", lambda: iter(MANY), LexicalEncoder())
    for search in (Search("number 77", 5, mode="vector"), Search("number 1999", 5), Search("1203", 5, mode="text")):
        assert store.search(search) == whole.search(search)


def _open_and_search(folder: str) -> list[str]:
    return ids(Store.open(Path(folder), corpus, LexicalEncoder()).search(Search("the mill of Dravaville", 3)))


@pytest.mark.slow
def test_two_processes_may_build_at_once(tmp_path: Path) -> None:
    with multiprocessing.get_context("spawn").Pool(2) as processes:
        first, second = processes.map(_open_and_search, [str(tmp_path)] * 2, chunksize=1)
    assert first == second
    assert first[0] == "text-Drava"
    assert len(list(tmp_path.glob(f"*/{MARKER}"))) == 1


def test_a_folder_that_cannot_be_written_is_named_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=re.escape(str(tmp_path / "file"))) as caught:
        Store.open(tmp_path / "file" / "index", corpus, LexicalEncoder())
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("damage", ["manifest", "data", "marker", "list"])
def test_a_damaged_index_is_named_with_the_remedy(tmp_path: Path, damage: str) -> None:
    Store.open(tmp_path, corpus, LexicalEncoder())
    (folder,) = (path for path in tmp_path.iterdir() if path.is_dir())
    if damage in ("marker", "list"):
        (folder / MARKER).write_text(json.dumps({"rows": 1} if damage == "marker" else []))
    else:
        shutil.rmtree(next(folder.rglob("_versions" if damage == "manifest" else "data")))
    with pytest.raises(StoreError, match=rf"{folder.name} is damaged.*delete that folder") as caught:
        Store.open(tmp_path, corpus, LexicalEncoder()).search(Search("river", 3))
    assert "\n" not in str(caught.value)


def test_an_encoder_that_gives_no_numbers_is_named(tmp_path: Path) -> None:
    class Broken(LexicalEncoder):
        def encode_sources(self, sources: Sequence[Source]) -> Vectors:
            return np.full((len(sources), self.dim), np.nan, dtype=np.float32)

    with pytest.raises(ValueError, match=r"\blexical "):
        open_index(tmp_path, corpus, Encoders(Broken(), Broken()))


def test_an_empty_corpus_can_be_searched(tmp_path: Path) -> None:
    store = Store.open(tmp_path, lambda: iter(()), LexicalEncoder())
    assert len(store) == 0
    assert store.search(Search("anything", 3)) == []


def test_a_pool_is_ranked_exactly_in_a_corpus_with_a_vector_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("retrieval.index.IVF_FROM_ROWS", 500)
    many = [Source(f"n{i}", f"n{i}", Kind.TEXT, f"Number {i}", f"word{i} and word{i * 7 % 1000}") for i in range(1000)]
    encoder = LexicalEncoder(64)
    store = Store.open(tmp_path, lambda: iter(many), encoder)
    pool = many[::50]
    similarity = encoder.encode_sources(pool) @ encoder.encode_query("word350 and word12")
    expected = [pool[i].id for i in np.argsort(-similarity, kind="stable")[:5]]
    space = SearchSpace([source.doc for source in pool])
    found = store.search(Search("word350 and word12", 5, mode="vector"), space)
    assert ids(found) == expected


def test_lexical_vectors_are_of_unit_length_and_do_not_depend_on_order() -> None:
    encoder = make_encoder("lexical")
    vectors = encoder.encode_sources(SOURCES)
    assert vectors.shape == (len(SOURCES), encoder.dim)
    assert vectors.dtype == np.float32
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert (encoder.encode_sources(SOURCES[::-1])[::-1] == vectors).all()
    assert np.isfinite(encoder.encode_query("")).all()


def test_lexical_vectors_bring_word_forms_and_accents_together() -> None:
    encoder = LexicalEncoder()
    painted, painting, volcano = (encoder.encode_query(word) for word in ("painted", "painting", "volcano"))
    assert painted @ painting > 0.2 > abs(painted @ volcano)
    assert (encoder.encode_query("Café") == encoder.encode_query("cafe")).all()


def test_a_model_encoder_says_how_to_install_what_it_needs() -> None:
    try:
        import sentence_transformers  # noqa: F401
    except ModuleNotFoundError:
        with pytest.raises(ModuleNotFoundError, match=r"pip install '\.\[encoders\]'"):
            make_encoder("some-model")
    else:
        with pytest.raises(ValueError, match="'no/such-model'"):
            SentenceEncoder("no/such-model")


def test_a_model_folder_is_an_encoder_and_a_changed_model_gets_another_index(tmp_path: Path) -> None:
    models = pytest.importorskip("sentence_transformers.sentence_transformer.modules")
    tokenizers = pytest.importorskip("tokenizers")
    from sentence_transformers import SentenceTransformer

    words = {"?": 0, "Aran": 1, "Belo": 2, "Drava": 3}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="?"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    model = models.StaticEmbedding(tokenizer, embedding_weights=np.eye(4, dtype=np.float32))
    SentenceTransformer(modules=[model]).save(str(tmp_path / "model"))
    encoder = make_encoder(str(tmp_path / "model"))
    assert (encoder.dim, encoder.reads_pictures) == (4, False)
    store = Store.open(tmp_path / "index", corpus, encoder)
    assert store.search(Search("Drava", 1, mode="vector", kinds=frozenset({Kind.TEXT})))[0].source.id == "text-Drava"
    (tmp_path / "model" / "trained further").write_text("")
    assert make_encoder(str(tmp_path / "model")).fingerprint != encoder.fingerprint


class TwoQuestions:
    """A data set of two questions, one of which needs two documents, and one that names none."""

    name = "two"
    metric = "EM"

    def train(self) -> Iterator[Item]:
        return iter(())

    def evaluate(self) -> Iterator[Item]:
        yield Item(Question("q0", "What do twins paint?"), gold=("lighthouses",))
        yield Item(
            Question("q1", "blue lighthouses"), ("x",), pool=("twins", "doc-Aran"), supporting=("twins", "pic-Gand")
        )
        yield Item(Question("q2", "Which mill?", ("Elmeville",)), ("x",), pool=("doc-Elme",), supporting=("doc-Elme",))

    def corpus(self) -> Iterator[Source]:
        return corpus()

    def score(self, item: Item, answer: str | None) -> Score:
        return Score(0.0, 0.0)


def test_recall_counts_documents_once_and_leaves_out_questions_that_name_none(store: Store) -> None:
    rows = recall_report(TwoQuestions(), store, ks=(1, 2), scopes=("pool",), modes=("hybrid",))
    # Two questions are too few for a bootstrap: Wilson's interval of a share of .75.
    [interval] = {row["ci95"] for row in rows}
    assert interval == pytest.approx((0.198, 0.973), abs=1e-3)
    means = {"recall": 0.75, "ci95": interval, "complete": 0.5, "questions": 2}
    assert rows == [{"scope": "pool", "mode": "hybrid", "k": k, **means} for k in (1, 2)]
    shown = recall_table(rows)
    assert tuple(shown.columns) == ("scope", "search", "recall@1 (95%)", "all", "recall@2 (95%)", "all")
    assert list(shown.rows) == [("pool", "hybrid", *("0.750 (0.198-0.973)", "0.500") * 2)]
    assert "2 questions" in shown.notes[0]
