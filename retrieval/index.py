"""An index on disk, built once per corpus and encoders, and found by the hash of its content."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from actors.messages import Kind, Source
from retrieval.built_folder import Marks, built, connect, opened, write_table
from retrieval.embed import Encoder, Encoders, Vectors, well_formed, words_of

if TYPE_CHECKING:
    from lancedb.table import Table

Corpus = Callable[[], Iterator[Source]]
Digest = Callable[[bool], str]
Waiting = Callable[[str], AbstractContextManager[object]]

LAYOUT = "2"  # changes with columns and words, so that indexes of another layout are not reused
TABLE = "sources"
COLUMNS = ("id", "doc", "kind", "title", "body", "image")
BATCH_ROWS = 512
IVF_FROM_ROWS = 20_000  # below, an exact scan takes a few milliseconds
# English, as LanceDB leaves out by default; for the tokenizer that divides Chinese, Japanese and Thai into words, its
# default is a list of all languages, with `AI`, `EU` and digits.
STOP_WORDS = """
a about after again against ain all am an and are aren as at be been being below between both but by can couldn d did
didn do doesn doing don down each few for from further had hadn has hasn have haven having he her here hers herself
him himself his how i if in into is isn it its itself just ll m ma me mightn more most mostly mustn my myself needn no
nor not now o of off on or other others our ours out over own owned re s same shan she should shouldn so some such t
than that the their theirs them then there these they this those through to too under until up ve was wasn we were
weren what when where which while who whom will with won wouldn y you your yours yourself
"""


def open_index(
    folder: Path, corpus: Corpus, encoders: Encoders, digest_of: Digest | None = None, waiting: Waiting = nullcontext
) -> tuple[Table, Path]:
    """Opens the index of `corpus` under `folder`, after building it where it is absent or incomplete.

    digest_of: what `corpus_digest` returns, where it is known. waiting: shows a long step while its block runs.

    Returns the table, with a row for every source, and its own folder. Raises StoreError where the folder cannot be
    written, the disk is full, or a finished index is damaged.
    """
    digest_of = digest_of or partial(corpus_digest, corpus)
    key = "\x1f".join([digest_of(encoders.pictures.reads_pictures), encoders.fingerprint, LAYOUT])
    # LanceDB takes a relative path that starts with "db" for a cloud address.
    digest = hashlib.blake2b(key.encode(), digest_size=12)
    target = folder.absolute() / f"index-{digest.hexdigest()}"
    built(target, lambda empty: _build(empty, corpus, encoders, waiting))
    (table,) = opened(target, {TABLE: "rows"})
    return table, target


def corpus_digest(corpus: Corpus, with_pictures: bool) -> str:
    """Hashes every field of every source, in order; `with_pictures` adds size and date of picture files."""
    digest = hashlib.blake2b(digest_size=16)
    for source in corpus():
        fields = [source.id, source.doc, source.kind.value, source.title, source.text, source.image or ""]
        # Not the pixels: there may be gigabytes, and this runs at every start.
        if with_pictures and source.image is not None and Path(source.image).is_file():
            stat = Path(source.image).stat()
            fields += [str(stat.st_size), str(stat.st_mtime_ns)]
        digest.update(json.dumps(fields).encode())
    return digest.hexdigest()


def _build(folder: Path, corpus: Corpus, encoders: Encoders, waiting: Waiting) -> Marks:
    texts = [pa.field(name, pa.string()) for name in COLUMNS]
    vectors = [pa.field(name, vector_type(encoder)) for name, encoder in encoders.columns.items()]
    schema = pa.schema([*texts, *vectors])
    # A source has no vector of the other encoder.
    rows = partial(_batches, corpus, encoders, schema)
    table = write_table(connect(folder), TABLE, schema, rows, nulls=encoders.apart)
    with waiting("indexing words and vectors"):
        add_indexes(table, ("doc",), encoders.columns)
    return {"rows": table.count_rows(), "encoder": encoders.name, "layout": LAYOUT}


def _batches(corpus: Corpus, encoders: Encoders, schema: pa.Schema, stored_ids: Set[str]) -> Iterator[pa.RecordBatch]:
    """Yields the corpus without the stored sources, of which few batches are in memory at a time."""
    sources = (source for source in corpus() if source.id not in stored_ids)
    while chunk := list(islice(sources, BATCH_ROWS)):
        rows: list[tuple[str | None, ...]] = []
        for source in chunk:
            title = well_formed(source.title)
            rows.append((source.id, source.doc, source.kind.value, title, words_of(source), source.image))

        arrays = [pa.array(values, pa.string()) for values in zip(*rows, strict=True)]
        arrays += [_vectors(encoders, column, chunk) for column in encoders.columns]
        yield pa.record_batch(arrays, schema=schema)


def _vectors(encoders: Encoders, column: str, sources: list[Source]) -> pa.Array:
    """Encodes the sources of a column; null for sources of the other encoder."""
    encoder = encoders.columns[column]
    # Sources that the encoder reads, by their place among them.
    places: list[int | None] = []
    encoded_sources: list[Source] = []
    for source in sources:
        place = None
        if column in encoders.searched({source.kind}):
            place = len(encoded_sources)
            encoded_sources.append(source)
        places.append(place)

    if not encoded_sources:
        return pa.nulls(len(sources), vector_type(encoder))
    return vector_column(encoder, encoded_sources).take(pa.array(places, pa.int64()))


def add_indexes(table: Table, columns: Iterable[str], vectors: Mapping[str, Encoder]) -> None:
    """Indexes a table's `body` for words, `columns` for equality and, in large tables, its `vectors`.

    Keeps the indexes of an interrupted build.
    """
    from lancedb.index import FTS, BTree, IvfFlat

    rows = table.count_rows()
    indexed = {column for made in table.list_indices() for column in made.columns}
    configs: dict[str, Any] = {}
    # An index cannot be trained on an empty table.
    if rows:
        configs["body"] = FTS(base_tokenizer="icu/split", custom_stop_words=STOP_WORDS.split())
        configs |= {column: BTree() for column in columns}

    for column, encoder in vectors.items():
        filled_rows = table.count_rows(f"{column} IS NOT NULL") if len(vectors) > 1 else rows
        # For several vectors of a query, such an index only estimates the scores.
        if filled_rows >= IVF_FROM_ROWS and np.ndim(encoder.encode_query("any")) == 1:
            configs[column] = IvfFlat(distance_type="cosine")

    for column, config in configs.items():
        if column not in indexed:
            table.create_index(column, config=config)


def vector_type(encoder: Encoder) -> pa.DataType:
    vector = pa.list_(pa.float32(), encoder.dim)
    return pa.list_(vector) if encoder.late_interaction else vector


def vector_column(encoder: Encoder, sources: Sequence[Source]) -> pa.Array:
    """Encodes sources. Raises ValueError where the encoder returns another shape, or numbers that are not finite."""
    vectors = encoder.encode_sources(sources)
    if len(vectors) != len(sources) or not all(_fits(encoder, vector) for vector in vectors):
        expected = "one or more" if encoder.late_interaction else "one"
        raise ValueError(
            f"the encoder {encoder.name} gave {len(vectors)} vectors of another shape, or with numbers that are not "
            f"finite; expected {len(sources)} times {expected} of {encoder.dim} numbers: choose another encoder"
        )

    stacked = np.concatenate(vectors) if isinstance(vectors, list) else vectors
    numbers = pa.array(stacked.astype(np.float32, copy=False).ravel())
    column = pa.FixedSizeListArray.from_arrays(numbers, encoder.dim)
    if not isinstance(vectors, list):
        return column

    starts = np.cumsum([0, *map(len, vectors)])
    return pa.ListArray.from_arrays(pa.array(starts, pa.int32()), column)


def _fits(encoder: Encoder, vector: Vectors) -> bool:
    """Tests a source's vector, shape (dim,), or with late interaction its vectors, (m, dim) with m at least 1."""
    dimensions = 2 if encoder.late_interaction else 1
    return (
        np.ndim(vector) == dimensions
        and len(vector) > 0
        and np.shape(vector)[-1] == encoder.dim
        and bool(np.isfinite(vector).all())
    )


def source_of(row: Mapping[str, Any]) -> Source:
    """Returns the source of a row; its text follows the title in `body`."""
    title = row["title"]
    text = row["body"][len(title) + 1 :]
    return Source(row["id"], row["doc"], Kind(row["kind"]), title, text, row["image"])
