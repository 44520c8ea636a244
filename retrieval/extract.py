"""Triples that sources state, by the rules of `actors.reader.triple_rules` or by a model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from actors.messages import Kind, Source, Triple
from actors.reader.triple_rules import distinct, of_caption, of_passage, of_row

RULES = "3"  # changes with the result of the rules, so that graphs by other rules are not reused


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
