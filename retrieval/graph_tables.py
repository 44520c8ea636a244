"""Writes the two tables of a knowledge graph, triples and entities; triples that sources state, by rules."""

from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa

from actors.messages import UNTITLED, Kind, Source, Triple
from retrieval.built_folder import Marks, connect, write_table
from retrieval.embed import VECTOR, Encoder, folded, well_formed
from retrieval.index import BATCH_ROWS, Waiting, add_indexes, vector_column, vector_type
from retrieval.store import Store
from retrieval.triple_rules import distinct, of_caption, of_passage, of_row

# Yields things and shows their number under a name, and their total where it is known.
Counted = Callable[[str, Iterable[Any], int | None], Iterator[Any]]

LAYOUT = "1"
RULES = "5"  # changes with the result of the rules, so that graphs by other rules are not reused
TRIPLES = "triples"
ENTITIES = "entities"

_TRIPLES = pa.schema(
    [pa.field(name, pa.string()) for name in "id head relation tail head_key tail_key source doc body".split()]
)
_ENTITIES = pa.schema({"id": pa.string(), "name": pa.string(), "body": pa.string(), "sources": pa.list_(pa.string())})


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
    elif source.kind is Kind.IMAGE and source.title not in UNTITLED:
        edges = of_caption(source.title, source.text)
    else:
        # Of a picture without a title, the caption is read as a passage.
        title = _named(source)
        # A heading that the text does not repeat names no thing that a pronoun could refer to.
        subject = title if title in source.text else ""
        edges = of_passage(title, source.text, subject)
    for number, (head, relation, tail) in enumerate(distinct(edges), start=1):
        yield Triple(f"{source.id}#{number}", head, relation, tail, source.id)


def _named(source: Source) -> str:
    """Returns the title of a source; empty where that names nothing."""
    return "" if source.title in UNTITLED else source.title


BY_RULES = Extraction(RULES, triples_of)


def uncounted(name: str, things: Iterable[Any], total: int | None) -> Iterator[Any]:
    """Shows nothing, as a `Counted`."""
    return iter(things)


def entity_key(name: str) -> str:
    """Normalises a name: without case, accents and superfluous spaces. Equal for names of one entity."""
    return " ".join(folded(well_formed(name)).split())


def build(
    folder: Path,
    store: Store,
    own_triples: Callable[[], Iterable[Triple]] | None,
    extraction: Extraction,
    counted: Counted,
    waiting: Waiting,
) -> Marks:
    """Writes both tables: a data set's own triples, or else the extracted ones. Shows its steps as `KnowledgeGraph`."""
    encoder = store.encoder
    sources = counted("reading triples of sources", store.everything(), len(store))
    graph = _Graph(sources, own_triples, extraction)
    connection = connect(folder)

    def write(name: str, columns: pa.Schema, rows: Iterator[Sequence[Any]], indexed: Sequence[str]) -> int:
        schema = columns.append(pa.field(VECTOR, vector_type(encoder)))
        table = write_table(connection, name, schema, partial(_batches, schema, rows, encoder))
        with waiting(f"indexing {name}"):
            add_indexes(table, indexed, {VECTOR: encoder})
        return int(table.count_rows())

    triples = write(TRIPLES, _TRIPLES, graph.triples(), indexed=("doc", "head_key", "tail_key"))
    # After the triples, whose ends are entities too.
    entity_rows = counted("encoding entities", graph.entities(), len(graph))
    entities = write(ENTITIES, _ENTITIES, entity_rows, indexed=("id",))
    return {TRIPLES: triples, ENTITIES: entities, "encoder": encoder.name, "layout": LAYOUT}


class _Graph:
    """Rows of both tables. Triples are read once; entities' names stay in memory (some 300 bytes each)."""

    def __init__(
        self,
        every_source: Iterable[Source],
        own_triples: Callable[[], Iterable[Triple]] | None,
        extraction: Extraction,
    ) -> None:
        self._every_source = every_source
        self._own_triples = own_triples
        self._extraction = extraction
        self._names: dict[str, str] = {}
        self._sources: dict[str, list[str]] = {}

    def __len__(self) -> int:
        """The number of entities, once the triples were read."""
        return len(self._names)

    def triples(self) -> Iterator[tuple[str, ...]]:
        for triple, doc in self._edges():
            head_key = entity_key(triple.head)
            tail_key = entity_key(triple.tail)
            head = well_formed(triple.head)
            relation = well_formed(triple.relation)
            tail = well_formed(triple.tail)
            self._names.setdefault(head_key, head)
            self._names.setdefault(tail_key, tail)
            # The relation counts twice: themes are compared with whole edges.
            body = f"{relation}: {head} {relation} {tail}"
            yield triple.id, head, relation, tail, head_key, tail_key, triple.source, doc, body

    def entities(self) -> Iterator[tuple[Any, ...]]:
        for key in sorted(self._names):
            name = self._names[key]
            yield key, name, name, sorted(self._sources.get(key, ()))

    def _edges(self) -> Iterator[tuple[Triple, str]]:
        """Every triple with the document of its source; a data set's triples replace the extracted ones."""
        docs: dict[str, str] = {}
        for source in self._every_source:
            if self._own_triples:
                docs[source.id] = source.doc
                extracted: list[Triple] = []
            else:
                extracted = list(self._extraction.of(source))
            # A source's entity: the title of a passage or picture, the subject of a row.
            name = _named(source)
            if source.kind is Kind.TABLE:
                name = extracted[0].head if extracted else ""
            key = entity_key(name)
            if key:
                self._names.setdefault(key, name)
                self._sources.setdefault(key, []).append(source.id)

            for triple in extracted:
                yield triple, source.doc

        if self._own_triples is None:
            return
        ids = set[str]()
        for triple in self._own_triples():
            if triple.id in ids:
                raise ValueError(f"two triples have the id {triple.id!r}: ids of a data set's triples must differ")
            ids.add(triple.id)
            yield triple, docs.get(triple.source, "")


def _batches(
    schema: pa.Schema, rows: Iterator[Sequence[Any]], encoder: Encoder, stored_ids: Set[str]
) -> Iterator[pa.RecordBatch]:
    """Yields the rows that are not stored, each with the vector of its `body` in the last column."""
    body = schema.get_field_index("body")
    # The id is the first column of both tables.
    new_rows = (row for row in rows if row[0] not in stored_ids)
    while chunk := list(islice(new_rows, BATCH_ROWS)):
        arrays: list[pa.Array] = []
        for values, field in zip(zip(*chunk, strict=True), list(schema)[:-1], strict=True):
            arrays.append(pa.array(values, field.type))
        texts = [Source("", "", Kind.TEXT, "", row[body]) for row in chunk]
        yield pa.record_batch([*arrays, vector_column(encoder, texts)], schema=schema)
