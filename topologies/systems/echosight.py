"""EchoSight: visual retrieval, then multi-modal reranking of sections (Yan and Xie 2024; M3Prune, section 8).

1. The 20 pictures most like the question's one give the candidate documents. 2. Every section (passage or row) of
these is scored by its similarity to question and picture, blended half and half with its document's visual score. 3.
The best section alone goes to the model.

Left open here and decided: the Q-Former's maximum over its query tokens is the larger of the cosine similarities to
the question and to the picture, whatever the encoder; a document is what bears the same title, as there is no page for
every picture. If no section bears the title of a picture found, all of the best 100 compete with a visual score of
zero. A question without a picture has its words searched among the pictures, and is shown the first of those found.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from actors.messages import Hit, Question, Source, Trace
from topologies.library import PICTURES, query_of
from topologies.method import system
from topologies.single import SINGLE_AGENT
from topologies.systems.helpers import page, pictures_among, together
from topologies.systems.session import System, about, sources
from topologies.topology import Ask

RETRIEVED = 20  # pictures for each of the question's own
SECTIONS = 100  # in each ranking, among which those of the candidate documents are looked for
VISUAL_SHARE = 0.5  # of a document's visual score in the score of its sections
READ = "The passage was picked for the question and its picture. Answer from it and from the pictures."


class EchoSight(System):
    """One turn of one agent with the one section that comes first, and up to `pictures` pictures."""

    async def answer(self, question: Question, ask: Ask, seed: int, sample: int = 0) -> Trace:
        session = self.session(question, ask, seed, sample)
        own = await session.own()
        query = pictures_among(own)
        queries: list[str | Source] = [query_of(question), *query]
        results = await asyncio.gather(
            # More by as many as the question has: its own pictures may be indexed, and are dropped below.
            *(session.search(q, RETRIEVED + len(query), kinds=PICTURES, mode="vector") for q in queries[1:] or queries)
        )
        alike: list[Hit] = []
        for hits in results:
            alike += [hit for hit in hits if hit.source not in query][:RETRIEVED]
        sections = await asyncio.gather(*(session.search(q, SECTIONS, mode="vector") for q in queries))
        shown = query or sources(alike)[: self.reach.pictures]
        best = [hit.source for hit in reranked(alike, sections)[:1]]
        answered = about(question, together(own, best, shown))
        return session.trace(await session.ask(SINGLE_AGENT, question=answered, instruction=READ))


def reranked(alike: Sequence[Hit], sections: Sequence[Sequence[Hit]]) -> list[Hit]:
    """The sections of the documents of `alike` pictures, best first by half the visual score and half the section's
    largest similarity in any ranking of `sections`; equal ones by id. All sections where none is of such a document."""
    visual: dict[str, float] = {}
    for hit in alike:
        # The default is the score itself and not 0, as a cosine may be negative.
        visual[page(hit.source)] = max(hit.score, visual.get(page(hit.source), hit.score))
    joint: dict[str, Hit] = {}
    for hit in (hit for ranking in sections for hit in ranking):
        best = joint.get(hit.source.id)
        joint[hit.source.id] = hit if best is None or hit.score > best.score else best
    # Without a section of a found document all compete, and their visual score of 0 changes no order.
    candidates = [hit for hit in joint.values() if page(hit.source) in visual] or list(joint.values())
    scored = [
        Hit(hit.source, VISUAL_SHARE * visual.get(page(hit.source), 0.0) + (1 - VISUAL_SHARE) * hit.score)
        for hit in candidates
    ]
    return sorted(scored, key=lambda hit: (-hit.score, hit.source.id))


METHOD = system("echosight", "sections of visually retrieved documents, reranked; the best one is read", EchoSight)
