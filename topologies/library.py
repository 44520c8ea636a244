"""Searches that a system may make during a discussion; `experiments.evidence.library` implements them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from actors.messages import Hit, Kind, Question, Search, Source, Triple

TEXTS = frozenset((Kind.TEXT, Kind.TABLE))
PICTURES = frozenset((Kind.IMAGE,))


def query_of(question: Question) -> str:
    """Returns the query for a question: its text and its choices."""
    return " ".join([question.text, *question.choices])


@dataclass(frozen=True, slots=True)
class TopK:
    """Size of searches: passages and rows (`texts`), `pictures`, and the largest distance (`radius`; None: any)."""

    texts: int
    pictures: int
    radius: float | None = None


class Library(Protocol):
    """Searches on behalf of one question. Systems do not see its pool, nor the sources withheld from it.

    Results come best first, in an order that depends on the arguments alone.
    """

    async def own(self, question: Question) -> tuple[Source, ...]:
        """Returns sources that are part of the question itself (its hint, its picture)."""

    async def search(self, question: Question, search: Search) -> tuple[Hit, ...]:
        """Finds the k best passages, rows or pictures; a picture as query is compared by its embedding."""

    async def graph(
        self, question: Question, words: Sequence[str], k: int, *, level: Literal["entity", "theme"] = "entity"
    ) -> tuple[Triple, ...]:
        """Finds edges of the entities nearest to `words` (with one hop), or edges whose relation is nearest to them."""

    async def neighbours(self, question: Question, entity: str) -> tuple[Triple, ...]:
        """Returns all edges of an entity, as head or as tail, ordered by id."""

    async def entity(
        self, question: Question, name: str, k: int | None = None, *, near: str = ""
    ) -> tuple[Source, ...]:
        """Returns an entity's description and pictures: all of them, or the k nearest to some words."""

    async def web(self, question: Question, query: str, k: int) -> tuple[Hit, ...]:
        """Finds the k first results of a web search; none without a web."""

    async def topics(self, question: Question) -> tuple[str, ...]:
        """Returns entities from which a search through the knowledge graph may start, if the data set names them."""

    async def annotated(self, question: Question) -> tuple[tuple[str, ...], ...]:
        """Paths to the answer from the data set's labels, for the upper bound that a paper calls knowledgeable."""
