"""Writes the two tables of a knowledge graph, triples and entities; triples that sources state, by rules."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from actors.messages import Kind, Source, Triple
from actors.reader.triple_rules import distinct, of_caption, of_passage, of_row
from retrieval.built_folder import Marks, Unbuilt, connect
from retrieval.embed import VECTOR, Encoder, folded, well_formed
from retrieval.index import add_indexes, encoded, vector_column, vector_type
from retrieval.store import Store

if TYPE_CHECKING:
    from lancedb.db import DBConnection
    from lancedb.table import Table

LAYOUT = "1"
RULES = "3"  # changes with the result of the rules, so that graphs by other rules are not reused
TRIPLES = "triples"
ENTITIES = "entities"

_TEXTS = "id head relation tail head_key tail_key source doc body".split()
_TRIPLES = pa.schema([pa.field(name, pa.string()) for name in _TEXTS])
_ENTITIES = pa.schema(
    [*(pa.field(name, pa.string()) for name in ("id", "name", "body")), pa.field("sources", pa.list_(pa.string()))]
)
ROWS = 8192  # per write, each of which makes a file


@dataclass(frozen=True, slots=True)
class Extraction:
    """A way to extract triples from sources.

    key: changes with the triples of any source; part of the key of a graph on disk.
    of: the triples of a source; ids are the source's with a number.
    """

    key: str
    of: Callable[[Source], Iterable[Triple]]


def triples_of(source: Source) -> Iterator[Triple]:
    """Extracts a source's triples by rules, each once, in reading order; ids are the source's with a number."""
    if source.kind is Kind.TABLE:
        edges = of_row(source.title, source.text)
    elif source.kind is Kind.IMAGE:
        edges = of_caption(source.title, source.text)
    else:
        # A heading that the text does not repeat names no thing that a pronoun could refer to.
        subject = source.title if source.title and source.title in source.text else ""
        edges = of_passage(source.title, source.text, subject)
    for number, (head, relation, tail) in enumerate(distinct(edges), 1):
        yield Triple(f"{source.id}#{number}", head, relation, tail, source.id)


BY_RULES = Extraction(RULES, triples_of)


def entity_key(name: str) -> str:
    """Normalises a name: without case, accents and superfluous spaces. Equal for names of one entity."""
    return " ".join(folded(well_formed(name)).split())


def build(folder: Path, store: Store, given: Callable[[], Iterable[Triple]] | None, extraction: Extraction) -> Marks:
    """Writes both tables. Triples are written in batches; entities' names stay in memory (some 300 bytes each)."""
    names: dict[str, str] = {}
    titled: dict[str, list[str]] = {}

    def edges() -> Iterator[tuple[Triple, str]]:
        """Every triple with the document of its source; a data set's triples replace the extracted ones."""
        docs: dict[str, str] = {}
        for source in store.everything():
            stated = [] if given else list(extraction.of(source))
            # A source's entity: the title of a passage or picture, the subject of a row.
            name = source.title if source.kind is not Kind.TABLE else next((triple.head for triple in stated), "")
            if key := entity_key(name):
                names.setdefault(key, name)
                titled.setdefault(key, []).append(source.id)
            yield from ((triple, source.doc) for triple in stated)
            if given:
                docs[source.id] = source.doc
        seen: set[str] = set()
        for triple in given() if given else ():
            if triple.id in seen:
                raise ValueError(f"two triples have the id {triple.id!r}: ids of a data set's triples must differ")
            seen.add(triple.id)
            yield triple, docs.get(triple.source, "")

    def rows_of_triples() -> Iterator[tuple[str, ...]]:
        for triple, doc in edges():
            head, tail = entity_key(triple.head), entity_key(triple.tail)
            names.setdefault(head, well_formed(triple.head))
            names.setdefault(tail, well_formed(triple.tail))
            parts = [well_formed(part) for part in (triple.head, triple.relation, triple.tail)]
            # The relation counts twice: themes are compared with whole edges.
            yield (triple.id, *parts, head, tail, triple.source, doc, f"{parts[1]}: {' '.join(parts)}")

    connection = connect(folder)
    triples = _write(connection, TRIPLES, _TRIPLES, rows_of_triples(), store.encoder)
    # After the triples, whose ends are entities too.
    rows_of_entities = ((key, names[key], names[key], sorted(titled.get(key, ()))) for key in sorted(names))
    entities = _write(connection, ENTITIES, _ENTITIES, rows_of_entities, store.encoder)
    rows = {TRIPLES: triples.count_rows(), ENTITIES: entities.count_rows()}
    add_indexes(triples, ("doc", "head_key", "tail_key"), {VECTOR: store.encoder})
    add_indexes(entities, ("id",), {VECTOR: store.encoder})
    return {**rows, "encoder": store.encoder.name, "layout": LAYOUT}


def _write(
    connection: DBConnection, name: str, columns: pa.Schema, rows: Iterator[Sequence[Any]], encoder: Encoder
) -> Table:
    """Writes a table of rows and the vectors of their `body`. Raises ValueErrors of the rows as Unbuilt."""
    schema = columns.append(pa.field(VECTOR, vector_type(encoder)))
    table, body = connection.create_table(name, schema=schema), columns.get_field_index("body")
    # One stream into create_table would deadlock: LanceDB also reads the sources.
    try:
        while chunk := list(islice(rows, ROWS)):
            arrays = [pa.array(column, of.type) for column, of in zip(zip(*chunk, strict=True), columns, strict=True)]
            vectors = encoded(encoder, [Source("", "", Kind.TEXT, "", row[body]) for row in chunk])
            table.add(pa.record_batch([*arrays, vector_column(vectors)], schema=schema))
    except ValueError as error:  # of the corpus or the encoder, and not the disk's
        raise Unbuilt(error) from None
    return table
