"""The searches that a system may make while it discusses a question; implemented by `experiments.evidence.library`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from actors.messages import Hit, Kind, Question, Search, Source, Triple

TEXTS = frozenset((Kind.TEXT, Kind.TABLE))
PICTURES = frozenset((Kind.IMAGE,))


def query_of(question: Question) -> str:
    """The query for a question: its text and its choices."""
    return " ".join([question.text, *question.choices])


@dataclass(frozen=True, slots=True)
class Reach:
    """The size of a system's retrieval: numbers of passages and rows and of pictures, and the largest distance from the
    query (`radius`; None: any)."""

    texts: int
    pictures: int
    radius: float | None = None


class Library(Protocol):
    """Searches on behalf of one question, which its id names.

    The question's pool and what is withheld from it are known to the implementation only, so that no system can see
    what it must not. Results come best first, in an order that depends on the arguments alone.
    """

    async def own(self, question: Question) -> tuple[Source, ...]:
        """The sources that are part of the question itself (its hint, its picture); most questions have none."""

    async def search(self, question: Question, search: Search) -> tuple[Hit, ...]:
        """The k best passages, rows or pictures, of certain documents or pages where the search says so; a picture as
        query is compared by what the encoder makes of it."""

    async def graph(
        self, question: Question, words: Sequence[str], k: int, *, level: Literal["entity", "theme"] = "entity"
    ) -> tuple[Triple, ...]:
        """Edges of the knowledge graph: of the entities nearest to `words` with their neighbours (one hop), or those
        whose relation is nearest to them."""

    async def neighbours(self, question: Question, entity: str) -> tuple[Triple, ...]:
        """All edges of an entity, as head or as tail, ordered by id."""

    async def entity(
        self, question: Question, name: str, k: int | None = None, *, near: str = ""
    ) -> tuple[Source, ...]:
        """An entity's description and pictures: all of them, or the k nearest to some words."""

    async def web(self, question: Question, query: str, k: int) -> tuple[Hit, ...]:
        """The k first results of a web search; none where there is no web."""

    async def topics(self, question: Question) -> tuple[str, ...]:
        """The entities that a search through the knowledge graph may start from, where the data set says which."""

    async def annotated(self, question: Question) -> tuple[tuple[str, ...], ...]:
        """The paths through the knowledge graph that lead to the answer, from the data set's labels: only for the upper
        bound that a paper calls knowledgeable."""
