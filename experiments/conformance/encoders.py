"""The checks of an encoder: the shapes, lengths and repeatability that the index relies on."""

from __future__ import annotations

import numpy as np

from actors.messages import Kind, Source
from experiments.conformance.require import require
from retrieval.embed import Encoder, Vectors

SOURCES = (
    Source("s1", "d1", Kind.TEXT, "Mill Lane", "The mill in Mill Lane was built in 1820."),
    Source("s2", "d2", Kind.TABLE, "Mills - built", "mill: Mill Lane; built: 1820"),
    Source("s3", "d3", Kind.IMAGE, "The mill", "A mill with four sails."),
)
QUERY = "When was the mill built?"
TOLERANCE = 1e-3  # float32 and whatever an accelerator rounds


def check_encoder(encoder: Encoder, name: str) -> None:
    """Shapes, lengths and repeatability. Raises NotConforming with the first thing that is wrong."""
    require(bool(encoder.fingerprint), f"{name}: it needs a fingerprint, which is an index's key")
    query, sources = encoder.encode_query(QUERY), encoder.encode_sources(SOURCES)
    require(len(sources) == len(SOURCES), f"{name}: {len(sources)} vectors for {len(SOURCES)} sources")
    for owner, vectors in (("a query's", query), *(("a source's", source) for source in sources)):
        _check_vectors(encoder, name, owner, vectors)
    again = encoder.encode_query(QUERY)
    require(np.allclose(query, again, atol=TOLERANCE), f"{name}: the same query has other vectors the second time")
    # Padding in a batch must not leak: an index is built in batches of any size.
    alone = encoder.encode_sources(SOURCES[:1])[0]
    require(np.allclose(sources[0], alone, atol=TOLERANCE), f"{name}: a source's vectors depend on its batch")


def _check_vectors(encoder: Encoder, name: str, owner: str, vectors: Vectors) -> None:
    array = np.asarray(vectors)
    dimensions = 2 if encoder.late_interaction else 1
    shape = array.ndim == dimensions and array.shape[-1] == encoder.dim
    expected = f"(m, {encoder.dim})" if encoder.late_interaction else f"({encoder.dim},)"
    require(shape, f"{name}: {owner} vectors have shape {array.shape}, expected {expected}")
    lengths = np.linalg.norm(np.atleast_2d(array), axis=1)
    require(bool(np.isfinite(array).all()), f"{name}: {owner} vectors hold NaN or infinity")
    # A text of which the encoder knows no word may have no direction at all.
    unit = (np.abs(lengths - 1) < TOLERANCE) | (lengths == 0)
    require(bool(unit.all()), f"{name}: {owner} vectors are not of unit length")
