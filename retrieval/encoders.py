"""Which encoder sees which sources: one for all, or one for texts and another for pictures."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from actors.messages import Kind
from retrieval.embed import Encoder

VECTOR = "vector"
PICTURE_VECTOR = "picture_vector"


@dataclass(frozen=True, slots=True)
class Encoders:
    """The encoder of passages, rows and a graph's entities, and that of pictures, as ViDoRAG and MMAPG have them.

    Vectors of two encoders cannot be compared, so each has a column of its own in an index. With the same encoder for
    both, a source of any kind is found by the same vector.
    """

    texts: Encoder
    pictures: Encoder

    @property
    def apart(self) -> bool:
        """True where texts and pictures have different encoders."""
        return self.texts.fingerprint != self.pictures.fingerprint

    @property
    def columns(self) -> Mapping[str, Encoder]:
        """The columns of vectors that an index has, and whose they are."""
        return {VECTOR: self.texts, PICTURE_VECTOR: self.pictures} if self.apart else {VECTOR: self.texts}

    @property
    def fingerprint(self) -> str:
        """An index's key: equal ones promise equal vectors."""
        prints = [encoder.fingerprint for encoder in self.columns.values()]
        return prints[0] if len(prints) == 1 else repr(prints)

    @property
    def name(self) -> str:
        return " and ".join(encoder.name for encoder in self.columns.values())

    def column_of(self, kind: Kind) -> str:
        """The column that holds the vectors of sources of a kind."""
        return PICTURE_VECTOR if self.apart and kind is Kind.IMAGE else VECTOR

    def searched(self, kinds: Collection[Kind] | None) -> Mapping[str, Encoder]:
        """The columns in which sources of these kinds (None: any) are."""
        wanted = {self.column_of(kind) for kind in (Kind if kinds is None else kinds)}
        return {column: encoder for column, encoder in self.columns.items() if column in wanted}
