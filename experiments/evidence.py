"""From a labelled item to the bare question with the evidence that was retrieved for it."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Collection, Sequence
from dataclasses import replace

from actors.messages import Kind, Question, Source
from experiments.datasets.item import Item
from experiments.errors import UserError
from experiments.recall import query_of
from experiments.settings import RetrievalSettings
from retrieval.store import Store

TEXTUAL = frozenset((Kind.TEXT, Kind.TABLE))
PICTURES = frozenset((Kind.IMAGE,))
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

    def retrieve(self, item: Item) -> tuple[Source, ...]:
        texts = self._search(item, self._settings.texts, TEXTUAL)
        evidence = (*texts, *self._search(item, self._settings.pictures, PICTURES))
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

    def _search(self, item: Item, k: int, kinds: Collection[Kind]) -> tuple[Source, ...]:
        if not k:
            return ()
        own, anything = item.pool, None
        pools: list[Sequence[str] | None] = [own, anything]
        if self._settings.scope != "both":
            pools = [own if self._settings.scope == "question" else anything]
        found: dict[str, Source] = {}
        for pool in pools:
            if len(found) < k:
                hits = self._store.search(
                    query_of(item.question),
                    k,
                    mode=self._settings.mode,
                    kinds=kinds,
                    pool=pool,
                    radius=self._settings.radius,
                    withheld=item.withheld,
                )
                for hit in hits:
                    found.setdefault(hit.source.id, hit.source)
        return tuple(found.values())[:k]
