"""Retrieves a question's evidence. Searches are kept to the sources that the question may see."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Literal, TypeVar

from actors.errors import UserError
from actors.messages import Hit, Question, Search, Source
from experiments.datasets.item import Item
from experiments.evidence.retrieval_settings import RetrievalSettings
from experiments.records.progress import Progress, silent
from retrieval.store import SearchSpace, Store
from topologies.learning.learned_topology import features_of
from topologies.method import PICTURES, TEXTS, query_of
from topologies.wiring import Floats

T = TypeVar("T")
CACHED = 4096  # questions, of some ten thousand characters each


@dataclass(eq=False)
class Evidence:
    """Retrieves evidence: passages and table rows, and pictures.

    The last questions' evidence is kept, since every method of a run answers the same questions.

    settings: with the scope of the data set in place of `auto`, which is the question's pool.
    pictures_for: the questions that pictures are retrieved for; see `DatasetKind`.
    planted: further documents of pools, by question.
    check_pictures: raises UserError for a picture that was found and cannot be decoded.
    progress: shows how a knowledge graph is built.
    """

    store: Store
    settings: RetrievalSettings
    pictures_for: Literal["all", "pictured"] = "all"
    planted: Mapping[str, Sequence[str]] = field(default_factory=dict)
    check_pictures: Callable[[Iterable[Source]], None] = lambda sources: None
    progress: Progress = field(default_factory=silent)
    _cached: OrderedDict[str, tuple[Source, ...]] = field(default_factory=OrderedDict, init=False)

    async def question(self, item: Item) -> Question:
        """Returns the question with its evidence, best first, and without its label."""
        id = item.question.id
        evidence = self._cached.get(id)
        if evidence is None:
            # In a thread: LanceDB would block the event loop, and with it every discussion. Two discussions of one
            # question may both get here; their results are equal.
            evidence = self._cached[id] = await asyncio.to_thread(self.retrieve, item)
            if len(self._cached) > CACHED:
                self._cached.popitem(last=False)
        return replace(item.question, evidence=evidence, own=item.own)

    async def features(self, question: Question) -> Floats:
        """Features of a question with its evidence, for graphs by question [d]. No label is among them."""
        embedding = await asyncio.to_thread(self.store.encoder.encode_query, query_of(question))
        return features_of(question, embedding)

    async def own(self, item: Item) -> tuple[Source, ...]:
        """Returns the sources that are part of the question."""
        return tuple(await asyncio.to_thread(self.store.documents, item.own)) if item.own else ()

    def retrieve(self, item: Item) -> tuple[Source, ...]:
        """Retrieves the best passages and rows, then pictures, for agents that do not search.

        A question's own sources are always among them. Raises UserError where nothing is found in a pool.
        """
        settings = self.settings
        query = query_of(item.question)
        own_sources = self.store.documents(item.own)
        pictures = settings.pictures
        if self.pictures_for == "pictured" and not any(source.kind in PICTURES for source in own_sources):
            pictures = 0
        evidence: tuple[Source, ...] = ()

        # Texts before pictures: `poison` plants its source at the head of one of the two.
        for k, kinds in ((settings.texts, TEXTS), (pictures, PICTURES)):
            hits = self.search(item, Search(query, k, kinds, settings.mode, settings.radius))
            retrieved = [hit.source for hit in hits]
            # The corpus as a whole may hold nearer ones than the question's own, and k may be too small for these.
            missing = [source for source in own_sources if source.kind in kinds and source not in retrieved]
            evidence += (*missing, *retrieved)

        # Vectors without a radius find something in every pool that is in the corpus.
        always_finds = settings.texts and settings.pictures and settings.mode != "text" and settings.radius is None
        # An incomplete copy of a release would otherwise score like a hard benchmark.
        if not evidence and always_finds and item.pool:
            raise UserError(
                f"question {item.question.id}: none of its {len(item.pool)} sources ({item.pool[0]}, ...) is in the "
                "corpus; complete the data set's text, table and image files"
            )

        return evidence

    def spaces(self, item: Item) -> list[SearchSpace]:
        """Lists the searched parts of the corpus, by `retrieval.scope`: the question's pool, everything, or both."""
        documents = (*item.pool, *self.planted.get(item.question.id, ()))
        pool = SearchSpace(documents, item.withheld)
        corpus = SearchSpace(None, item.withheld)
        return {"corpus": [corpus], "both": [pool, corpus]}.get(self.settings.scope, [pool])

    def search(self, item: Item, search: Search) -> tuple[Hit, ...]:
        """Finds the k best sources for a query in a question's spaces. Scores of spaces cannot be compared."""
        if not search.k:  # the store refuses 0, with which settings leave out a kind
            return ()
        hits = first(
            search.k,
            self.spaces(item),
            search=lambda space: self.store.search(search, space),
            id_of=attrgetter("source.id"),
        )
        self.check_pictures(hit.source for hit in hits)
        return hits

    def instead_of_web(self, item: Item, query: str, k: int) -> tuple[Hit, ...]:
        """Finds the k best texts outside the question's pool, where `retrieval.web=corpus`; else nothing."""
        if self.settings.web != "corpus" or not k:
            return ()
        elsewhere = SearchSpace(None, (*item.withheld, *item.pool))
        return tuple(self.store.search(Search(query, k, TEXTS, self.settings.mode), elsewhere))


def first(
    k: int, spaces: Iterable[SearchSpace], search: Callable[[SearchSpace], Iterable[T]], id_of: Callable[[T], str]
) -> tuple[T, ...]:
    """Searches one space after the other until there are k different results."""
    results: dict[str, T] = {}
    for space in spaces:
        if len(results) < k:
            for result in search(space):
                # The corpus holds the pool as well: a result keeps its first place.
                results.setdefault(id_of(result), result)
    return tuple(results.values())[:k]
