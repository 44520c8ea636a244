"""Late interaction: several vectors for a source, compared by the best match of each of the question's."""

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from actors.messages import Kind, Search, Source
from retrieval import index
from retrieval.embed import Vectors, make_encoder, max_sim, words_of
from retrieval.index import vector_column
from retrieval.store import Store

DIM = 24
WORDS = "aran belo drava elme fiume gand harz iser jena kaub lahn main".split()


def vector_of(word: str) -> Vectors:
    seed = int.from_bytes(hashlib.blake2b(word.encode(), digest_size=8).digest(), "big")
    vector = np.random.default_rng(seed).normal(size=DIM).astype(np.float32)
    unit: Vectors = vector / np.linalg.norm(vector)
    return unit


class WordsAndTiles:
    """A vector for every word, and for a picture that is there one for each of its four tiles, by their colour."""

    name = "words and tiles"
    dim = DIM
    fingerprint = "words-and-tiles-1"
    reads_pictures = True
    late_interaction = True

    def encode_query(self, text: str) -> Vectors:
        return np.stack([vector_of(word) for word in text.lower().split()])

    def encode_sources(self, sources: Sequence[Source]) -> list[Vectors]:
        return [
            self._tiles(source.image) if source.image else self.encode_query(words_of(source)) for source in sources
        ]

    def _tiles(self, file: str) -> Vectors:
        with Image.open(file) as picture:
            tiles = picture.convert("RGB").resize((2, 2), Image.Resampling.NEAREST)
            colours = [tiles.getpixel((x, y)) for y in range(2) for x in range(2)]
        return np.stack([vector_of("red" if colour == (255, 0, 0) else "dark") for colour in colours])


def texts(count: int = 60) -> list[Source]:
    rng = np.random.default_rng(7)
    return [
        Source(f"t{n}", f"d{n % 20}", Kind.TEXT, WORDS[n % 12], " ".join(rng.choice(WORDS, rng.integers(1, 9))))
        for n in range(count)
    ]


def opened(folder: Path, sources: Sequence[Source]) -> Store:
    def corpus() -> Iterator[Source]:
        return iter(sources)

    return Store.open(folder, corpus, WordsAndTiles())


@pytest.mark.parametrize("query", ["aran", "drava main", "jena harz lahn belo", "unheard gand"])
def test_search_ranks_as_brute_force_max_sim(tmp_path: Path, query: str) -> None:
    sources, encoder = texts(), WordsAndTiles()
    asked = encoder.encode_query(query)
    brute = {
        source.id: max_sim(asked, own) for source, own in zip(sources, encoder.encode_sources(sources), strict=True)
    }
    found = opened(tmp_path, sources).search(Search(query, 10, mode="vector"))
    assert [round(brute[hit.source.id], 4) for hit in found] == sorted(
        (round(s, 4) for s in brute.values()), reverse=True
    )[:10]
    assert [hit.score for hit in found] == pytest.approx([brute[hit.source.id] for hit in found], abs=1e-5)


@pytest.mark.parametrize("mode", ["vector", "text", "hybrid"])
def test_a_radius_is_a_distance_of_max_sim_in_every_mode(tmp_path: Path, mode: str) -> None:
    sources, encoder = texts(), WordsAndTiles()
    asked = encoder.encode_query("drava main")
    near = {
        s.id for s, own in zip(sources, encoder.encode_sources(sources), strict=True) if 1 - max_sim(asked, own) < 0.3
    }
    found = opened(tmp_path, sources).search(Search("drava main", 60, mode=mode, radius=0.3))  # type: ignore[arg-type]
    assert 0 < len(found) < 60
    assert {hit.source.id for hit in found} <= near
    assert mode != "vector" or {hit.source.id for hit in found} == near


def test_a_page_is_found_by_one_of_its_tiles(tmp_path: Path) -> None:
    pages = []
    for n in range(3):
        picture = Image.new("RGB", (40, 40))
        if n == 1:
            picture.paste((255, 0, 0), (20, 20, 40, 40))
        picture.save(tmp_path / f"{n}.png")
        pages.append(Source(f"p{n}", f"p{n}", Kind.IMAGE, "", "", str(tmp_path / f"{n}.png")))
    store = opened(tmp_path / "index", pages)
    assert store.search(Search("red", 1, mode="vector"))[0].source.id == "p1"
    assert store.search(Search(pages[1], 1, mode="vector"))[0].source.id == "p1"


def test_vectors_of_another_shape_are_refused() -> None:
    class Broken(WordsAndTiles):
        def encode_sources(self, sources: Sequence[Source]) -> list[Vectors]:
            return [np.empty((0, DIM), dtype=np.float32) for _ in sources]

    with pytest.raises(ValueError, match=r"\b2 times .*\b24 "):
        vector_column(Broken(), texts(2))


@pytest.fixture
def bert(tmp_path: Path) -> Path:
    """A small model with random weights that reads 24 tokens, two of which are marks."""
    pytest.importorskip("sentence_transformers")
    import tokenizers
    import torch
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({n: i for i, n in enumerate(names)}, unk_token="[UNK]"))
    words.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    words.post_processor = tokenizers.processors.TemplateProcessing(
        "[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    special = {f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep", "mask")}
    PreTrainedTokenizerFast(tokenizer_object=words, model_max_length=24, **special).save_pretrained(tmp_path / "bert")
    torch.manual_seed(0)
    config = BertConfig(vocab_size=len(names), hidden_size=16, num_hidden_layers=1, num_attention_heads=2)
    BertModel(config).save_pretrained(tmp_path / "bert")
    return tmp_path / "bert"


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")
def test_a_multi_vector_models_folder_is_an_encoder(tmp_path: Path, bert: Path) -> None:
    from sentence_transformers import MultiVectorEncoder
    from sentence_transformers.base.modules import Transformer

    MultiVectorEncoder(modules=[Transformer(str(bert))]).save(str(tmp_path / "model"))
    encoder = make_encoder(f"late:{tmp_path / 'model'}")
    assert (encoder.late_interaction, encoder.reads_pictures, encoder.dim) == (True, False, 16)
    sources = [*texts(12), Source("long", "long", Kind.TEXT, "", f"{'aran belo ' * 40} jena")]
    own = encoder.encode_sources(sources)
    assert len({len(vectors) for vectors in own}) > 1
    assert len(own[-1]) > 81  # a vector for every word, and marks
    store = Store.open(tmp_path / "index", lambda: iter(sources), encoder)
    brute = [max_sim(encoder.encode_query("drava main"), vectors) for vectors in own]
    found = store.search(Search("drava main", 3, mode="vector"))
    assert [hit.score for hit in found] == pytest.approx(sorted(brute, reverse=True)[:3], abs=1e-4)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")
def test_a_text_that_is_longer_than_a_model_reads_is_found_by_every_part(
    tmp_path: Path, bert: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules import Transformer
    from sentence_transformers.sentence_transformer.modules import Pooling

    SentenceTransformer(modules=[Transformer(str(bert)), Pooling(16)]).save(str(tmp_path / "model"))
    encoder = make_encoder(str(tmp_path / "model"))
    end = "jena kaub lahn main jena kaub lahn main jena kaub lahn"
    sources = [*texts(), Source("long", "long", Kind.TEXT, "", f"{'aran belo ' * 40} {end}")]
    counts = [len(vectors) for vectors in encoder.encode_sources(sources)]
    assert set(counts[:-1]) == {1}
    assert counts[-1] > 4
    for rows in (10**6, 10):  # scanned, and by an index of the vectors
        monkeypatch.setattr(index, "IVF_FROM_ROWS", rows)
        store = Store.open(tmp_path / f"index-{rows}", lambda: iter(sources), encoder)
        found = [hit.source.id for hit in store.search(Search(end, 61, mode="vector"))]
        assert found[0] == "long"
        assert len(set(found)) == len(found)
    # A long question is the mean of its parts.
    assert encoder.encode_query("drava main " * 60) @ encoder.encode_query("drava main " * 8) > 0.9
    assert store.search(Search(sources[-1], 1, mode="vector"))[0].source.id == "long"
