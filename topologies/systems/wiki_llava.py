"""Wiki-LLaVA: hierarchical retrieval for a question about a picture (Caffagni et al. 2024; M3Prune, section 8).

1. The picture names documents, by its likeness to what is written in them. 2. Of these documents, the passages nearest
to the question. 3. The passages are put before the question and it is answered with the picture.

Left open and decided: each picture names one document, found by its nearest passage or row, as there is no index of
titles by themselves; passages of one title are one document. A question without a picture is asked with those that its
words find. Where the documents have nothing among the best 100 passages for the question, the passages through which
they were found are read.
"""

from __future__ import annotations

import asyncio

from actors.messages import Question, Trace
from topologies.library import query_of
from topologies.method import system
from topologies.single import SINGLE_AGENT
from topologies.systems.helpers import page, query_pictures, together
from topologies.systems.session import System, about, sources
from topologies.topology import Ask

LOOKED_AT = 100  # passages ranked for the question, before those of other documents are dropped
READ = "The passages come from the documents that the pictures point to. Answer from them and from the pictures."


class WikiLlava(System):
    """One turn of one agent, with `reach.texts` passages of the documents of (up to `pictures`) pictures."""

    async def answer(self, question: Question, ask: Ask, seed: int, sample: int = 0) -> Trace:
        session = self.session(question, ask, seed, sample)
        own = await session.own()
        pictures = await query_pictures(session, own, self.reach.pictures, self.reach.radius)
        named = together(
            *map(sources, await asyncio.gather(*(session.search(picture, 1, mode="vector") for picture in pictures)))
        )
        documents = {page(source) for source in named}
        near = await session.search(query_of(question), LOOKED_AT, radius=self.reach.radius)
        # In the order of the ranking for the question, not of the pictures.
        passages = [source for source in sources(near) if page(source) in documents] or named
        shown = about(question, together(own, passages[: self.reach.texts], pictures))
        return session.trace(await session.ask(SINGLE_AGENT, question=shown, instruction=READ))


METHOD = system("wiki_llava", "the picture names documents, the question their passages", WikiLlava)
