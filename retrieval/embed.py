"""Encodes sources and queries as unit vectors.

An encoder hashes words, without a download, or runs a sentence-transformers model, with one or several vectors each.
"""

import hashlib
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
from PIL import Image

from actors.errors import UserError
from actors.lookup import find, installed, is_reference
from actors.messages import Kind, Source
from actors.pictures import read_picture

Vectors = npt.NDArray[np.float32]
Places = npt.NDArray[np.intp]

VECTOR = "vector"
PICTURE_VECTOR = "picture_vector"
LEXICAL = "lexical"
LATE = "late:"
GRAMS = 1.0  # weight of all n-grams of a word together; the word has weight 1
RARITY = 1.5  # a word's weight is its length to this power
# Chinese, Japanese, Thai, Lao, Burmese and Khmer, which write no spaces between words.
_UNSPACED = r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_WORD = re.compile(rf"[{_UNSPACED}]+|[^\W{_UNSPACED}]+")
_UNSPACED_LETTER = re.compile(f"[{_UNSPACED}]")
ENCODED_AT_ONCE = 256  # texts of the lexical encoder; more take more memory and are no faster
DIGEST_BYTES = 8
LONG_TEXT = 50_000  # words, more than a model with a limit reads


@runtime_checkable
class Encoder(Protocol):
    """Encodes sources and queries. Equal fingerprints promise equal vectors: they are part of an index's key.

    reads_pictures: encodes picture files; an index is rebuilt when one changes.
    late_interaction: a source has several vectors, of its words, of its parts or of the tiles of a picture, and a query
        one or several, compared by `max_sim` (ColBERT, Khattab and Zaharia 2020; of page images ColPali, Faysse et al.
        2025).
    """

    name: str
    dim: int
    fingerprint: str
    reads_pictures: bool
    late_interaction: bool

    def encode_query(self, text: str) -> Vectors:
        """Encodes a query: shape (dim,), of unit length; with late interaction also (m, dim), rows of unit length."""

    def encode_sources(self, sources: Sequence[Source]) -> Vectors | list[Vectors]:
        """Encodes passages and rows by their words, pictures by their files or words: shape (n, dim), rows of unit
        length; with late interaction n arrays of shape (m_i, dim), m_i at least 1."""


@dataclass(frozen=True, slots=True)
class Encoders:
    """Two encoders, of texts (passages, rows, a graph's entities) and of pictures, as in ViDoRAG and MMAPG.

    Vectors of two encoders cannot be compared, so each has a separate column in an index. With the same encoder for
    both, one vector finds sources of any kind.
    """

    texts: Encoder
    pictures: Encoder

    @property
    def apart(self) -> bool:
        """Tests whether texts and pictures have different encoders."""
        return self.texts.fingerprint != self.pictures.fingerprint

    @property
    def columns(self) -> Mapping[str, Encoder]:
        """An index's columns of vectors, with their encoders."""
        return {VECTOR: self.texts, PICTURE_VECTOR: self.pictures} if self.apart else {VECTOR: self.texts}

    @property
    def fingerprint(self) -> str:
        """Part of an index's key: equal fingerprints promise equal vectors."""
        if not self.apart:
            return self.texts.fingerprint
        return repr([self.texts.fingerprint, self.pictures.fingerprint])

    @property
    def name(self) -> str:
        return f"{self.texts.name} and {self.pictures.name}" if self.apart else self.texts.name

    def searched(self, kinds: Collection[Kind] | None) -> Mapping[str, Encoder]:
        """Returns the columns with sources of these kinds (None: any)."""
        searched_kinds = set(Kind if kinds is None else kinds)
        if not self.apart:
            return self.columns if searched_kinds else {}
        columns: dict[str, Encoder] = {}
        if searched_kinds - {Kind.IMAGE}:
            columns[VECTOR] = self.texts
        if Kind.IMAGE in searched_kinds:
            columns[PICTURE_VECTOR] = self.pictures
        return columns


def max_sim(query: Vectors, source: Vectors) -> float:
    """Averages the best cosine of each query vector (m, dim) with the source's vectors (m_i, dim).

    A single vector has shape (dim,). The mean ranks like the sum, and a radius means the same for long queries.
    """
    return float((np.atleast_2d(query) @ np.atleast_2d(source).T).max(axis=1).mean())


def words_of(source: Source) -> str:
    """Returns the searched words of a source: title and text."""
    return well_formed(f"{source.title}\n{source.text}")


def well_formed(text: str) -> str:
    """Replaces half surrogate pairs, which broken JSON may contain and nothing can store, by `?`."""
    return text.encode(errors="replace").decode()


class LexicalEncoder:
    """Hashes words and character n-grams, with sublinear term frequency; nothing is fitted or downloaded.

    A word has weight (1 + ln tf) * rarity, for itself and its n-grams, which `painted` and `painting` share. In scripts
    without spaces each letter and each pair of neighbours is a word (as in Lucene's CJKBigramFilter). Without a corpus
    the only sign of rarity is length (frequent words are short). The blake2b digest of a feature gives its coordinate
    and its sign, so that colliding features cancel on average (Weinberger et al. 2009).
    """

    name = LEXICAL
    reads_pictures = False
    late_interaction = False

    def __init__(self, dim: int = 512) -> None:
        self.dim = dim
        self.fingerprint = f"{LEXICAL}-2-{dim}"

    def encode_sources(self, sources: Sequence[Source]) -> Vectors:
        vectors = np.empty((len(sources), self.dim), dtype=np.float32)
        for start in range(0, len(sources), ENCODED_AT_ONCE):
            part = slice(start, start + ENCODED_AT_ONCE)
            vectors[part] = self._encode([words_of(source) for source in sources[part]])
        return vectors

    def encode_query(self, text: str) -> Vectors:
        vector: Vectors = self._encode([text])[0]
        return vector

    def _encode(self, texts: Sequence[str]) -> Vectors:
        """Encodes texts, all with the same few calls: shape (n, dim)."""
        # Of each word of each text: the word, the text's number, and a weight.
        words: list[str] = []
        rows: list[int] = []
        frequencies: list[float] = []
        for row, text in enumerate(texts):
            for word, count in Counter(_words(folded(text))).items():
                words.append(word)
                rows.append(row)
                frequencies.append(1 + math.log(count))

        codes, weights, sizes = _features(words, self.dim)
        weights *= np.repeat(np.array(frequencies, dtype=np.float32), sizes)
        cells = (codes >> 1) + np.repeat(np.array(rows, dtype=np.intp) * self.dim, sizes)
        sums = np.bincount(cells, weights, minlength=len(texts) * self.dim).reshape(-1, self.dim)
        # A picture without a caption, or all features cancelled.
        sums[~sums.any(axis=1), 0] = 1.0
        lengths = np.array([np.linalg.norm(row_sums) for row_sums in sums])
        units: Vectors = (sums / lengths[:, np.newaxis]).astype(np.float32)
        return units


class SentenceEncoder:
    """Runs a sentence-transformers model, by name or local folder; a CLIP-like one reads picture files.

    A text that is longer than the model reads is encoded in overlapping parts: a source has a vector of each, and a
    query their mean. A picture without a file, or for a text model, is encoded by its words.

    multi_vector: a model such as ColBERT or, for page images, ColPali.

    Raises:
        ModuleNotFoundError: sentence-transformers is not installed.
        ValueError: there is no such model, or it cannot be read.
    """

    def __init__(self, name_or_folder: str, multi_vector: bool = False) -> None:
        try:
            from sentence_transformers import MultiVectorEncoder, SentenceTransformer
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                f"the encoder {name_or_folder!r} needs sentence-transformers: run `pip install '.[encoders]'`, "
                f"or use the encoder {LEXICAL!r}"
            ) from error

        load_model: Any = MultiVectorEncoder if multi_vector else SentenceTransformer
        try:
            self._model: Any = load_model(name_or_folder)
        except (OSError, ValueError, RuntimeError) as error:
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            raise ValueError(
                f"cannot load the encoder {name_or_folder!r} ({reason[:200]}): give {LEXICAL!r}, or the name or "
                "folder of a sentence-transformers model"
            ) from error

        self.name = f"{LATE}{name_or_folder}" if multi_vector else name_or_folder
        self.reads_pictures = bool(self._model.supports("image"))
        self._multi_vector = multi_vector
        # The longest prompt that the model may put before a text takes room from it.
        self._prompt = max(filter(None, self._model.prompts.values()), key=len, default="")
        longest = self._tokens("word " * LONG_TEXT)
        self._most_tokens = longest if self._tokens("word") < longest < LONG_TEXT else None
        self.late_interaction = multi_vector or self._most_tokens is not None
        self.fingerprint = f"sentence-transformers-2-{self.name}{_folder_digest(Path(name_or_folder))}"
        self.dim = self.encode_query("dimension").shape[-1]  # some models report another number

    def encode_query(self, text: str) -> Vectors:
        # A model of several vectors has another limit for queries.
        parts = [text] if self._multi_vector else self._parts(text)
        # Models such as E5 have separate prompts for queries and documents.
        vectors = self._model.encode_query(parts, show_progress_bar=False, convert_to_numpy=True)
        if len(parts) == 1:
            return _unit(vectors[0])
        return _unit(np.mean(list(map(_unit, vectors)), axis=0))

    def encode_sources(self, sources: Sequence[Source]) -> Vectors | list[Vectors]:
        # Texts and pictures are encoded in two batches.
        parts: list[list[str]] = []
        pictures: list[Image.Image] = []
        for source in sources:
            if self.reads_pictures and source.image and Path(source.image).is_file():
                pictures.append(read_picture(source.image))
                parts.append([])
            else:
                parts.append(self._parts(words_of(source)))

        text_vectors = iter(self._encode(list(chain.from_iterable(parts))))
        picture_vectors = iter(self._encode(pictures))
        vectors: list[Vectors] = []

        for source_parts in parts:
            source_vectors = list(islice(text_vectors, len(source_parts))) or [next(picture_vectors)]
            if self.late_interaction:
                vectors.append(np.concatenate(list(map(np.atleast_2d, source_vectors))))
            else:
                vectors += source_vectors

        return vectors if self.late_interaction else np.stack(vectors)

    def _encode(self, inputs: list[Any]) -> list[Vectors]:
        if not inputs:
            return []
        encoded = self._model.encode_document(inputs, show_progress_bar=False, convert_to_numpy=True)
        return list(map(_unit, encoded))

    def _parts(self, text: str) -> list[str]:
        """Halves a text that the model would cut off until every part fits. Halves share an eighth."""
        most = self._most_tokens
        # No token is shorter than a byte; most texts are spared the counting.
        if most is None or len(text) < 2 or len(text.encode()) < most // 2 or self._tokens(text) < most:
            return [text]
        middle = len(text) // 2
        overlap = len(text) // 16
        return [*self._parts(text[: middle + overlap]), *self._parts(text[middle - overlap :])]

    def _tokens(self, text: str) -> int:
        """Counts the tokens of a text that the model reads. 0 for a model without tokens."""
        features = self._model.preprocess([text], prompt=self._prompt, task="document")
        return int(features["attention_mask"].sum()) if "attention_mask" in features else 0


def _folder_digest(folder: Path) -> str:
    """Digests name, size and date of a local model's files, which change with training. Empty for a name."""
    stats: list[tuple[str, int, int]] = []
    if not folder.is_dir():
        return ""

    for path in sorted(folder.rglob("*")):
        if path.is_file():
            stat = path.stat()
            stats.append((str(path.relative_to(folder)), stat.st_size, stat.st_mtime_ns))

    if not stats:
        return ""
    digest = hashlib.blake2b(repr(stats).encode(), digest_size=8)
    return f"-{digest.hexdigest()}"


def _unit(vectors: Vectors) -> Vectors:
    """Vectors of length 1; a text without any token of the model gets one vector."""
    if not len(vectors):
        return np.eye(1, vectors.shape[-1], dtype=np.float32)
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    unit: Vectors = (vectors / np.maximum(lengths, 1e-12)).astype(np.float32)
    return unit


ENCODERS: Mapping[str, Callable[[], Encoder]] = {LEXICAL: LexicalEncoder}


def is_pretrained(name: str) -> bool:
    """True for the name of an encoder that sentence-transformers loads."""
    # Such a name has the form of a reference, too.
    if name.startswith(LATE):
        return True
    return name not in ENCODERS and not is_reference(name) and name not in installed("encoders")


def make_encoder(name: str, key: str = "retrieval.encoder") -> Encoder:
    """Makes the encoder with a name, which is the value of `key`.

    The name is one of `ENCODERS`; `package.module:MyEncoder` or an entry point of the group `agora_mm.encoders`, called
    without arguments; or the name or folder of a sentence-transformers or CLIP-like model, after `late:` if it has
    several vectors per source. Raises UserError where it cannot be imported or is no encoder, and as `SentenceEncoder`.
    """
    if is_pretrained(name):
        return SentenceEncoder(name.removeprefix(LATE), name.startswith(LATE))
    encoder = find(name, ENCODERS, "encoders", key)()
    if not isinstance(encoder, Encoder):
        members = (*Encoder.__annotations__, "encode_query", "encode_sources")
        missing = [member for member in members if not hasattr(encoder, member)]
        raise UserError(
            f"{key}={name} gave {type(encoder).__name__}, which is no encoder: it has no {', '.join(missing)}"
        )

    return encoder


def folded(text: str) -> str:
    """Returns the text in lower case without accents: `Café` becomes `cafe`."""
    if text.isascii():
        return text.lower()
    decomposed = unicodedata.normalize("NFKD", text)
    return "".join(char for char in decomposed if not unicodedata.combining(char)).casefold()


def _words(text: str) -> list[str]:
    words = _WORD.findall(text)
    if text.isascii():
        return words
    divided_words: list[str] = []
    for word in words:
        if _UNSPACED_LETTER.match(word):
            divided_words += word
            divided_words += map("".join, pairwise(word))
        else:
            divided_words.append(word)
    return divided_words


def _features(words: Sequence[str], dim: int) -> tuple[Places, Vectors, Places]:
    """Returns the codes of the features of one word after the other, their signed weights, and their number by word.

    A code is twice the coordinate of a feature, and 1 for a positive sign. Of the features of a word, the first is the
    word, the others are its n-grams.
    """
    digests_by_word = list(map(_digests, words))
    digests = np.frombuffer(b"".join(digests_by_word), dtype=">u8")
    codes = (digests % (2 * dim)).astype(np.intp)
    sizes = np.array(list(map(len, digests_by_word)), dtype=np.intp) // DIGEST_BYTES
    gram_weights = (GRAMS / np.sqrt(np.maximum(1, sizes - 1))).astype(np.float32)
    # Beyond eight letters a longer word is hardly a rarer one.
    lengths = np.minimum(list(map(len, words)), 8)
    rarities = (lengths**RARITY).astype(np.float32)

    weights = np.repeat(gram_weights, sizes)
    weights[np.cumsum(sizes) - sizes] = 1.0
    weights *= np.repeat(rarities, sizes)
    weights[codes & 1 == 0] *= -1
    return codes, weights, sizes


@lru_cache(maxsize=1 << 17)
def _digests(word: str) -> bytes:
    """Hashes a word and its n-grams of 3 to 5 letters, with `DIGEST_BYTES` each."""
    features = [word]
    if len(word) > 2:
        # With marks, beginnings and ends of words are distinct n-grams.
        marked = f"<{word}>"
        for length in (3, 4, 5):
            features += [marked[start : start + length] for start in range(len(marked) - length + 1)]
    # No cache of n-grams: the hash takes less time than it.
    digests = [hashlib.blake2b(feature.encode(), digest_size=DIGEST_BYTES).digest() for feature in features]
    return b"".join(digests)
