"""The library of a run: its corpus, knowledge graph and web, as a system may search them for one question."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Literal

from actors.errors import UserError, WebError
from actors.messages import Hit, Question, Search, Source, Triple
from experiments.datasets.item import Item
from experiments.evidence.evidence import Evidence
from experiments.evidence.knowledge import Knowledge
from retrieval.extract import BY_RULES, Extraction
from retrieval.web_search import Web


class LabelledLibrary:
    """A `topologies.library.Library` over the run's evidence.

    It has the labelled items, for their pools and what is withheld from them; systems see search results only.

    Args:
        items: all that questions may be about.
        web: without one, the corpus stands in where `retrieval.web` says so.
        triples: the data set's own, if it has any.
        stated: what the graph is built of where it has none.
    """

    def __init__(
        self,
        evidence: Evidence,
        items: Iterable[Item],
        web: Web | None = None,
        triples: Callable[[], Iterable[Triple]] | None = None,
        stated: Extraction = BY_RULES,
    ) -> None:
        self._evidence = evidence
        self._knowledge = Knowledge(evidence, triples, stated)
        self._web = web
        self._items = {item.question.id: item for item in items}

    async def own(self, question: Question) -> tuple[Source, ...]:
        return await self._evidence.own(self._items[question.id])

    async def search(self, question: Question, search: Search) -> tuple[Hit, ...]:
        return await asyncio.to_thread(self._evidence.search, self._items[question.id], search)

    async def graph(
        self, question: Question, words: Sequence[str], k: int, *, level: Literal["entity", "theme"] = "entity"
    ) -> tuple[Triple, ...]:
        return await asyncio.to_thread(self._knowledge.search, self._items[question.id], words, k, level)

    async def neighbours(self, question: Question, entity: str) -> tuple[Triple, ...]:
        return await asyncio.to_thread(self._knowledge.neighbours, self._items[question.id], entity)

    async def entity(
        self, question: Question, name: str, k: int | None = None, *, near: str = ""
    ) -> tuple[Source, ...]:
        return await asyncio.to_thread(self._knowledge.entity, self._items[question.id], name, k, near)

    async def web(self, question: Question, query: str, k: int) -> tuple[Hit, ...]:
        """The k best results of the web, or of the corpus in its place.

        Raises UserError where the web cannot be searched: results must not depend on the state of a network, so the run
        ends and can be resumed.
        """
        if self._web is None:
            return await asyncio.to_thread(self._evidence.instead_of_web, self._items[question.id], query, k)
        try:
            return await self._web.search(query, k)
        except WebError as error:
            raise UserError(f"{error}; what is recorded stays and can be resumed") from error

    async def topics(self, question: Question) -> tuple[str, ...]:
        return self._items[question.id].topics

    async def annotated(self, question: Question) -> tuple[tuple[str, ...], ...]:
        return self._items[question.id].paths
