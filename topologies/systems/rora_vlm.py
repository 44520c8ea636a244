"""RoRA-VLM: robust retrieval in two stages (Qi et al. 2024; M3Prune, section 8).

1. Pictures like the question's one are retrieved; their titles are the entities that it may show. 2. These names are
added to the question, and passages are retrieved for both. 3. What is unlike the query is filtered out: the model
drops retrieved pictures. 4. The answer, from the passages and the pictures that are left.

Trained into the original and asked for here: filtering, which there weighs parts of pictures. Left open and decided: a
question without a picture has its words searched among the pictures, and a picture is then compared with the question;
where the filter neither names one to keep nor says that none is, all are kept.
"""

from __future__ import annotations

import asyncio

from actors.messages import Field, FieldKind, Question, Task, Trace, Value
from topologies.library import PICTURES, query_of
from topologies.method import system
from topologies.single import SINGLE_AGENT
from topologies.systems.helpers import numbered, pictures_among, together
from topologies.systems.session import System, about, sources
from topologies.topology import Ask

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
    """Two turns of one agent: filter the retrieved pictures, and answer with the rest and `reach.texts` passages."""

    async def answer(self, question: Question, ask: Ask, seed: int, sample: int = 0) -> Trace:
        session = self.session(question, ask, seed, sample)
        own = await session.own()
        query = pictures_among(own)
        k = self.reach.pictures
        if query:
            # More by as many as the question has: its own pictures may be indexed, and are dropped below.
            alike = (session.search(p, k + len(query), kinds=PICTURES, mode="vector") for p in query)
            results = await asyncio.gather(*alike)
        else:
            results = [await session.search(query_of(question), k, kinds=PICTURES, radius=self.reach.radius)]
        retrieved = tuple(picture for picture in together(*map(sources, results)) if picture not in query)[:k]
        # Each name once: a repeated one would outweigh the question's words.
        names = dict.fromkeys(picture.title for picture in retrieved)
        expanded = " ".join([query_of(question), *names])
        passages = sources(await session.search(expanded, self.reach.texts, radius=self.reach.radius))
        kept = retrieved
        if retrieved:
            pictures = (*query, *retrieved)
            chosen = await session.ask(SINGLE_AGENT, question=about(question, pictures), task=Task(FILTER, (ANY, KEPT)))
            if named := numbered(chosen, FieldKind.SELECTED, pictures):
                # The question's own pictures are shown to the filter for comparison, and to the answer in any case.
                kept = tuple(picture for picture in named if picture not in query)
            elif chosen.said(FieldKind.RELEVANT) == ("no",):
                kept = ()
        shown = about(question, together(own, passages, kept))
        return session.trace(await session.ask(SINGLE_AGENT, question=shown))


METHOD = system("rora_vlm", "names of retrieved pictures extend the query; foreign pictures go", RoraVlm)
