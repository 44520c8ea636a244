"""From a labelled item to the bare question with the evidence that was retrieved for it."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Collection, Sequence
from dataclasses import replace

from actors.errors import UserError
from actors.messages import Hit, Kind, Question, Source
from experiments.datasets.item import Item
from experiments.evidence.settings import RetrievalSettings
from retrieval.store import Mode, Store
from topologies.library import PICTURES, TEXTS, query_of

KEPT = 4096  # questions, of some ten thousand characters each


class Evidence:
    """Retrieves what the agents may read: passages and rows for the textual ones, pictures for the visual ones.

    What was found for the last questions is kept: every method asks the same ones.
    """

    def __init__(self, store: Store, settings: RetrievalSettings) -> None:
        self._store = store
        self._settings = settings
        self._found: OrderedDict[str, tuple[Source, ...]] = OrderedDict()

    async def question(self, item: Item) -> Question:
        """The question with its evidence, best first. The label stays behind."""
        id = item.question.id
        evidence = self._found.get(id)
        if evidence is None:
            evidence = self._found[id] = await asyncio.to_thread(self.retrieve, item)
            if len(self._found) > KEPT:
                self._found.popitem(last=False)
        return replace(item.question, evidence=evidence)

    async def own(self, item: Item) -> tuple[Source, ...]:
        """The sources that are part of the question."""
        return tuple(await asyncio.to_thread(self._store.documents, item.own)) if item.own else ()

    def retrieve(self, item: Item) -> tuple[Source, ...]:
        """What an agent reads that looks nothing up: the best passages and rows, then the best pictures."""
        settings, query = self._settings, query_of(item.question)
        evidence = tuple(
            hit.source
            for k, kinds in ((settings.texts, TEXTS), (settings.pictures, PICTURES))
            for hit in self.search(item, query, k, kinds, settings.mode, settings.radius)
        )
        if not evidence and self._always_finds and item.pool:
            raise UserError(
                f"question {item.question.id}: none of its {len(item.pool)} sources ({item.pool[0]}, ...) is in the "
                "corpus; complete the data set's text, table and image files"
            )
        return evidence

    @property
    def _always_finds(self) -> bool:
        """Without a radius the vectors find something in any pool that is in the corpus."""
        settings = self._settings
        wanted = settings.texts > 0 and settings.pictures > 0
        return wanted and settings.mode != "text" and settings.radius is None

    @property
    def store(self) -> Store:
        return self._store

    def pools(self, item: Item) -> list[Sequence[str] | None]:
        """Where `retrieval.scope` says to look for this question, one after the other; None is the whole corpus."""
        own, anything = item.pool, None
        if self._settings.scope == "both":
            return [own, anything]
        return [own if self._settings.scope == "question" else anything]

    def search(
        self, item: Item, query: str | Source, k: int, kinds: Collection[Kind], mode: Mode, radius: float | None
    ) -> tuple[Hit, ...]:
        """The k best sources for any query, where `retrieval.scope` says that this question's are searched.

        Where the pool comes before the corpus, scores are comparable within each of the two only.
        """
        if not k:
            return ()
        found: dict[str, Hit] = {}
        for pool in self.pools(item):
            if len(found) < k:
                hits = self._store.search(
                    query, k, mode=mode, kinds=kinds, pool=pool, radius=radius, withheld=item.withheld
                )
                for hit in hits:
                    found.setdefault(hit.source.id, hit)
        return tuple(found.values())[:k]

    def instead_of_web(self, item: Item, query: str, k: int) -> tuple[Hit, ...]:
        """Where `retrieval.web=corpus`, the k best texts outside the question's pool; otherwise nothing."""
        if self._settings.web != "corpus" or not k:
            return ()
        withheld = (*item.withheld, *item.pool)
        return tuple(self._store.search(query, k, mode=self._settings.mode, kinds=TEXTS, withheld=withheld))
