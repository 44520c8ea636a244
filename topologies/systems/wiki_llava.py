"""Wiki-LLaVA: hierarchical retrieval for a question about a picture (Caffagni et al. 2024; M3Prune, section 8).

1. The picture names documents, by its likeness to their passages.
2. Of each of these documents, the passages nearest to the question are read.
3. The question is answered with these passages and the picture.

Written from the paper and a review of it, as no code of the authors was found. Different from it:
- A picture is compared with passages and rows under their title: there is no index of titles alone.
- The model is the run's; theirs is LLaVA-1.5, fine-tuned or not.

Decided here: a picture names one document and `top_k.texts` passages of it are read; passages of one title are one
document; a question without a picture is asked with pictures that its words find.
"""

from __future__ import annotations

import asyncio

from actors.messages import Message
from topologies.library import query_of
from topologies.method import system
from topologies.systems.helpers import NO_PASSAGE, page, query_pictures, together
from topologies.systems.session import Session, System, sources
from topologies.topology import SINGLE_AGENT

DOCUMENTS = 1  # that each picture names
LOOKED_AT = 100  # passages most like a picture, among which its documents are found
READ = "The passages come from the documents that the pictures point to. Answer from them and from the pictures."


class WikiLlava(System):
    """One turn of one agent, with `top_k.texts` passages of each document that (up to `pictures`) pictures name."""

    async def discuss(self, session: Session) -> Message:
        own = await session.own()
        pictures = await query_pictures(session, own, self.top_k.pictures, self.top_k.radius)
        near = await asyncio.gather(*(session.search(picture, LOOKED_AT, mode="vector") for picture in pictures))
        # The first documents of every picture, each once.
        ranked = [list(dict.fromkeys(page(hit.source) for hit in hits)) for hits in near]
        named = dict.fromkeys(name for names in ranked for name in names[:DOCUMENTS])
        query, k = query_of(session.question), self.top_k.texts
        passages = await asyncio.gather(*(session.search(query, k, mode="vector", pages={name}) for name in named))
        shown = together(own, *map(sources, passages), pictures)
        instruction = READ if any(passages) else NO_PASSAGE
        return await session.ask(SINGLE_AGENT, evidence=shown, instruction=instruction)


METHOD = system("wiki_llava", "the picture names documents, the question their passages", WikiLlava)
