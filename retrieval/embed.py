"""Turns sources and queries into unit vectors: hashed words without a download, or a sentence-transformers model."""

from __future__ import annotations

import hashlib
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from actors.messages import Source

Vectors = npt.NDArray[np.float32]

LEXICAL = "lexical"
GRAMS = 1.0  # weight of all n-grams of a word together, beside 1 for the word
RARITY = 1.5  # a word counts its length to this power
_WORD = re.compile(r"\w+")


class Encoder(Protocol):
    """What a store needs of an encoder. Equal fingerprints promise equal vectors, so that an index can be found again.

    `reads_pictures` says whether picture files matter (an index is then rebuilt when one changes).
    """

    name: str
    dim: int
    fingerprint: str
    reads_pictures: bool

    def encode_query(self, text: str) -> Vectors:
        """One question, shape (dim,), of unit length."""

    def encode_sources(self, sources: Sequence[Source]) -> Vectors:
        """Shape (n, dim), rows of unit length: a passage or row by its words, a picture by its file or its words."""


def words_of(source: Source) -> str:
    """What is searched of a source: its title and its text."""
    return well_formed(f"{source.title}\n{source.text}")


def well_formed(text: str) -> str:
    """The text with `?` for any half of a surrogate pair, which broken JSON may hold and nothing can store."""
    return text.encode(errors="replace").decode()


class LexicalEncoder:
    """Hashed words and character n-grams with sublinear term frequency; nothing is fitted, nothing downloaded.

    A word counts (1 + ln tf) * rarity, spread over itself and its n-grams, which let `painted` meet `painting`. Without
    a corpus the only sign of rarity is length (frequent words are short). Every feature goes to one of `dim` places
    with a sign, both from its blake2b digest, so that colliding features cancel on average (Weinberger et al. 2009).
    """

    name = LEXICAL
    reads_pictures = False

    def __init__(self, dim: int = 512) -> None:
        self.dim = dim
        self.fingerprint = f"{LEXICAL}-1-{dim}"

    def encode_query(self, text: str) -> Vectors:
        return self._encode(text)

    def encode_sources(self, sources: Sequence[Source]) -> Vectors:
        vectors = np.empty((len(sources), self.dim), dtype=np.float32)
        for i, source in enumerate(sources):
            vectors[i] = self._encode(words_of(source))
        return vectors

    def _encode(self, text: str) -> Vectors:
        counts = Counter(_WORD.findall(_folded(text)))
        words = [_features(word, self.dim) for word in counts]
        vector: npt.NDArray[Any] = np.zeros(self.dim)
        if words:
            places = np.concatenate([places for places, _ in words])
            weights = [weights * (1 + math.log(n)) for (_, weights), n in zip(words, counts.values(), strict=True)]
            vector = np.bincount(places, np.concatenate(weights), minlength=self.dim)
        if not vector.any():  # no words, as in a picture without a caption, or all features cancelled
            vector[0] = 1.0
        unit: Vectors = (vector / np.linalg.norm(vector)).astype(np.float32)
        return unit


class SentenceEncoder:
    """Any model that sentence-transformers loads, by name or local folder; a CLIP-like one sees the picture files.

    A picture whose file is not there is encoded by its words, as it is for a model of text only.

    Raises:
        ModuleNotFoundError: sentence-transformers is not installed.
        ValueError: there is no such model, or it cannot be read.
    """

    def __init__(self, name_or_folder: str) -> None:
        try:
            from sentence_transformers import SentenceTransformer
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                f"the encoder {name_or_folder!r} needs sentence-transformers: run `pip install sentence-transformers`, "
                f"or use the encoder {LEXICAL!r}"
            ) from error
        try:
            self._model: Any = SentenceTransformer(name_or_folder)
        except (OSError, ValueError, RuntimeError) as error:
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            raise ValueError(
                f"cannot load the encoder {name_or_folder!r} ({reason[:200]}): give {LEXICAL!r}, or the name or "
                "folder of a sentence-transformers model"
            ) from error
        self.name = name_or_folder
        self.reads_pictures = bool(self._model.supports("image"))
        self.fingerprint = f"sentence-transformers-1-{name_or_folder}{_files_of(Path(name_or_folder))}"
        self.dim = self.encode_query("dimension").shape[0]  # what models report of theirs is not always so

    def encode_query(self, text: str) -> Vectors:
        # Models such as E5 have a prompt for queries and another for documents; others ignore the difference.
        query: Vectors = self._unit(self._model.encode_query([text], show_progress_bar=False))[0]
        return query

    def encode_sources(self, sources: Sequence[Source]) -> Vectors:
        pictures = [i for i, source in enumerate(sources) if self._sees(source)]
        seen = set(pictures)
        texts = [i for i in range(len(sources)) if i not in seen]
        vectors = np.empty((len(sources), self.dim), dtype=np.float32)
        if texts:
            words = [words_of(sources[i]) for i in texts]
            vectors[texts] = self._unit(self._model.encode_document(words, show_progress_bar=False))
        if pictures:
            opened = [_picture(str(sources[i].image)) for i in pictures]
            vectors[pictures] = self._unit(self._model.encode_document(opened, show_progress_bar=False))
        return vectors

    def _sees(self, source: Source) -> bool:
        return self.reads_pictures and source.image is not None and Path(source.image).is_file()

    def _unit(self, vectors: Vectors) -> Vectors:
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        unit: Vectors = (vectors / np.maximum(lengths, 1e-12)).astype(np.float32)
        return unit


def make_encoder(name: str) -> Encoder:
    """`lexical`, or the name or folder of a sentence-transformers or CLIP-like model."""
    return LexicalEncoder() if name == LEXICAL else SentenceEncoder(name)


def _picture(path: str) -> Any:
    from PIL import Image

    with Image.open(path) as image:
        return image.convert("RGB")


def _files_of(folder: Path) -> str:
    """Names, sizes and dates of a local model's files, so that a retrained model gets a new index; empty for a name."""
    files = sorted(path for path in folder.rglob("*") if path.is_file()) if folder.is_dir() else []
    stats = [(str(path.relative_to(folder)), path.stat().st_size, path.stat().st_mtime_ns) for path in files]
    return f"-{hashlib.blake2b(repr(stats).encode(), digest_size=8).hexdigest()}" if stats else ""


def _folded(text: str) -> str:
    """Lower case without accents, so that `Café` meets `cafe`."""
    if text.isascii():
        return text.lower()
    return "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c)).casefold()


@lru_cache(maxsize=1 << 17)
def _features(word: str, dim: int) -> tuple[npt.NDArray[np.intp], Vectors]:
    """Coordinates and signed weights of one word and of its n-grams of 3 to 5 letters, both of shape (features,)."""
    marked = f"<{word}>"
    grams = [marked[i : i + n] for n in (3, 4, 5) for i in range(len(marked) - n + 1)] if len(word) > 2 else []
    weights = np.full(1 + len(grams), GRAMS / math.sqrt(max(1, len(grams))), dtype=np.float32)
    weights[0] = 1.0
    places = np.empty(len(weights), dtype=np.intp)
    for i, feature in enumerate([word, *grams]):
        digest = int.from_bytes(hashlib.blake2b(feature.encode(), digest_size=8).digest(), "big")
        places[i] = (digest >> 1) % dim
        weights[i] *= 1 if digest & 1 else -1
    return places, weights * np.float32(min(len(word), 8) ** RARITY)
