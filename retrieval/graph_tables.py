"""Writes the two tables of a knowledge graph, triples and entities; triples that sources state, by rules."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import pyarrow as pa

from actors.messages import Kind, Source, Triple
from actors.reader.triple_rules import distinct, of_caption, of_passage, of_row
from retrieval.built_folder import Marks, Unbuilt, connect
from retrieval.embed import VECTOR, Encoder, folded, well_formed
from retrieval.index import add_indexes, encoded, vector_column, vector_type
from retrieval.store import Store

LAYOUT = "1"
RULES = "3"  # changes with the result of the rules, so that graphs by other rules are not reused
TRIPLES = "triples"
ENTITIES = "entities"

_STRING = pa.string()
_EDGE = ("id", "head", "relation", "tail", "head_key", "tail_key", "source", "doc", "body")
_ENTITY = ("id", "name", "body")
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
    reading = _GraphBatches(store, given, extraction)
    connection = connect(folder)
    tables = []
    for name, schema, batches in (
        (TRIPLES, reading.schema(_EDGE), reading.triples),
        (ENTITIES, reading.schema(_ENTITY, with_sources=True), reading.entities),
    ):
        tables.append(connection.create_table(name, schema=schema))
        # One stream into create_table would deadlock: LanceDB also reads the sources.
        try:
            for batch in batches():
                tables[-1].add(batch)
        except ValueError as error:  # of the corpus or the encoder, and not the disk's
            raise Unbuilt(error) from None
    triples, entities = tables
    rows = {TRIPLES: triples.count_rows(), ENTITIES: entities.count_rows()}
    add_indexes(triples, ("doc", "head_key", "tail_key"), {VECTOR: store.encoder})
    add_indexes(entities, ("id",), {VECTOR: store.encoder})
    return {**rows, "encoder": store.encoder.name, "layout": LAYOUT}


class _GraphBatches:
    """Yields the graph as Arrow batches: first all triples, then the entities in them."""

    def __init__(self, store: Store, given: Callable[[], Iterable[Triple]] | None, extraction: Extraction) -> None:
        self._store = store
        self._given = given
        self._extraction = extraction
        self._names: dict[str, str] = {}
        self._titled: dict[str, list[str]] = {}

    def schema(self, texts: Iterable[str], with_sources: bool = False) -> pa.Schema:
        fields = [pa.field(name, _STRING) for name in texts]
        fields += [pa.field("sources", pa.list_(_STRING))] if with_sources else []
        return pa.schema([*fields, pa.field(VECTOR, vector_type(self._store.encoder))])

    def triples(self) -> Iterator[pa.RecordBatch]:
        edges = self._edges()
        while chunk := list(islice(edges, ROWS)):
            rows = []
            for triple, doc in chunk:
                head, tail = entity_key(triple.head), entity_key(triple.tail)
                self._names.setdefault(head, well_formed(triple.head))
                self._names.setdefault(tail, well_formed(triple.tail))
                parts = [well_formed(part) for part in (triple.head, triple.relation, triple.tail)]
                # The relation counts twice: themes are compared with whole edges.
                body = f"{parts[1]}: {' '.join(parts)}"
                rows.append((triple.id, *parts, head, tail, triple.source, doc, body))
            vectors = _vectors(self._store.encoder, [row[-1] for row in rows])
            columns = [pa.array(column, _STRING) for column in zip(*rows, strict=True)]
            yield pa.record_batch([*columns, vectors], schema=self.schema(_EDGE))

    def entities(self) -> Iterator[pa.RecordBatch]:
        keys = iter(sorted(self._names))
        while chunk := list(islice(keys, ROWS)):
            names = [self._names[key] for key in chunk]
            sources = pa.array([sorted(self._titled.get(key, ())) for key in chunk], pa.list_(_STRING))
            texts = [pa.array(column, _STRING) for column in (chunk, names, names)]
            columns = [*texts, sources, _vectors(self._store.encoder, names)]
            yield pa.record_batch(columns, schema=self.schema(_ENTITY, with_sources=True))

    def _edges(self) -> Iterator[tuple[Triple, str]]:
        """Every triple with the document of its source; a data set's triples replace the extracted ones."""
        docs: dict[str, str] = {}
        for source in self._store.everything():
            stated = [] if self._given else list(self._extraction.of(source))
            # A source's entity: the title of a passage or picture, the subject of a row.
            name = source.title if source.kind is not Kind.TABLE else next((triple.head for triple in stated), "")
            if key := entity_key(name):
                self._names.setdefault(key, name)
                self._titled.setdefault(key, []).append(source.id)
            yield from ((triple, source.doc) for triple in stated)
            if self._given:
                docs[source.id] = source.doc
        seen: set[str] = set()
        for triple in self._given() if self._given else ():
            if triple.id in seen:
                raise ValueError(f"two triples have the id {triple.id!r}: ids of a data set's triples must differ")
            seen.add(triple.id)
            yield triple, docs.get(triple.source, "")


def _vectors(encoder: Encoder, texts: list[str]) -> pa.Array:
    return vector_column(encoded(encoder, [Source("", "", Kind.TEXT, "", text) for text in texts]))
