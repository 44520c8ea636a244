"""Wiki-LLaVA: hierarchical retrieval for a question about a picture (Caffagni et al. 2024; M3Prune, section 8).

1. The picture names documents, by its likeness to what is written in them. 2. Of each of these documents, the passages
nearest to the question. 3. The passages are put before the question and it is answered with the picture.

From the paper and a review of it, as no code of the authors was found. Otherwise than there: a picture is compared with
passages and rows under their title, not with titles by themselves, of which there is no index; their model is
LLaVA-1.5, as it is or fine-tuned, here it is the run's. How many documents a picture names (`systems.documents`) and
how many passages are read of each (`reach.texts`) are ours. Passages of one title are one document. A question without
a picture is asked with those that its words find.
"""

from __future__ import annotations

import asyncio

from actors.messages import Question, Trace
from topologies.library import query_of
from topologies.method import system
from topologies.single import SINGLE_AGENT
from topologies.systems.helpers import NO_PASSAGE, page, query_pictures, together
from topologies.systems.session import System, about, sources
from topologies.topology import Ask

LOOKED_AT = 100  # passages most like a picture, among which its documents are found
READ = "The passages come from the documents that the pictures point to. Answer from them and from the pictures."


class WikiLlava(System):
    """One turn of one agent, with `reach.texts` passages of each document that (up to `pictures`) pictures name."""

    async def answer(self, question: Question, ask: Ask, seed: int, sample: int = 0) -> Trace:
        session = self.session(question, ask, seed, sample)
        own = await session.own()
        pictures = await query_pictures(session, own, self.reach.pictures, self.reach.radius)
        near = await asyncio.gather(*(session.search(picture, LOOKED_AT, mode="vector") for picture in pictures))
        # Of every picture the first documents, each document once.
        ranked = [list(dict.fromkeys(page(hit.source) for hit in hits)) for hits in near]
        named = dict.fromkeys(name for names in ranked for name in names[: self.context.systems.documents])
        query, k = query_of(question), self.reach.texts
        passages = await asyncio.gather(*(session.search(query, k, mode="vector", pages={name}) for name in named))
        shown = about(question, together(own, *map(sources, passages), pictures))
        orders = READ if any(passages) else NO_PASSAGE
        return session.trace(await session.ask(SINGLE_AGENT, question=shown, instruction=orders))


METHOD = system(
    "wiki_llava", "the picture names documents, the question their passages", WikiLlava, reads=("documents",)
)
