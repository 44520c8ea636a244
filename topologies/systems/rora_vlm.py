"""RoRA-VLM: robust retrieval in two stages (Qi et al. 2024; M3Prune, section 8).

1. Retrieve pictures like the question's own; their titles and descriptions name the entities that it may show.
2. For each of them, retrieve passages for the question extended by its title and description: picture and passages are
   one snippet of knowledge.
3. The model drops retrieved pictures that are unlike the query, with their passages.
4. It answers from the remaining snippets.

Written from the paper's abstract and reviews of it, as no code of the authors was found. Different from it:
- Filtering is prompted; theirs is trained and weighs parts of pictures.
- Passages come from the corpus instead of Google; all snippets together have `top_k.texts` of them.

Decided here: where the filter neither names a picture nor rejects all, all stay. A question without a picture has
its words searched among the pictures, a picture is then compared with the question, and where none is left, passages
for the question alone are read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from actors.messages import Field, FieldKind, Message, Source, Task, Value
from topologies.library import query_of
from topologies.method import system
from topologies.systems.helpers import found_by_picture, numbered, pictures_among, together
from topologies.systems.session import Session, System, sources
from topologies.topology import SINGLE_AGENT

DESCRIBED = 40  # words of a picture's description in a query: pages of OCR text would drown the question
FILTER = (
    "Some of the pictures were retrieved and may have nothing to do with the question. Pick those that show the thing "
    "that the question, or the question's own picture, is about; leave out all that merely look similar or are foreign "
    "to it."
)
ANY = Field(FieldKind.RELEVANT, "whether any of the pictures is to be kept", ("yes", "no"))
KEPT = Field(
    FieldKind.SELECTED, "the numbers of the pictures to keep, separated by commas", optional=True, value=Value.NUMBERS
)


class RoraVlm(System):
    """Two turns of one agent: filter the retrieved pictures, and answer with the rest and their passages."""

    async def discuss(self, session: Session) -> Message:
        own = await session.own()
        query, words = pictures_among(own), query_of(session.question)
        retrieved = sources((await found_by_picture(session, own, self.top_k.pictures))[: self.top_k.pictures])
        # Rounded up, so that every picture has a passage.
        each = -(-self.top_k.texts // (len(retrieved) or 1))
        # The question with a picture's title and description.
        extended = [" ".join([words, p.title, *p.text.split()[:DESCRIBED]]) for p in retrieved]
        found = await asyncio.gather(*(session.search(text, each) for text in extended))
        kept = await self._kept(session, query, retrieved)
        snippets = [
            (picture, *sources(hits)) for picture, hits in zip(retrieved, found, strict=True) if picture in kept
        ]
        if not snippets and not query:
            snippets = [sources(await session.search(words, self.top_k.texts, radius=self.top_k.radius))]
        return await session.ask(SINGLE_AGENT, evidence=together(own, *snippets))

    async def _kept(self, session: Session, query: Sequence[Source], retrieved: Sequence[Source]) -> Sequence[Source]:
        """Retrieved pictures that, by the model, show the subject of the question."""
        if not retrieved:
            return ()
        # The question's own pictures are shown for comparison only.
        pictures = (*query, *retrieved)
        chosen = await session.ask(SINGLE_AGENT, evidence=pictures, task=Task(FILTER, (ANY, KEPT)))
        if named := numbered(chosen, FieldKind.SELECTED, pictures):
            return named
        return () if chosen.said(FieldKind.RELEVANT) == ("no",) else retrieved


METHOD = system("rora_vlm", "pictures found extend the query and bring passages; foreign ones go", RoraVlm)
