"""EchoSight: visual retrieval, then multi-modal reranking of sections (Yan and Xie 2024; M3Prune, section 8).

1. The 20 pictures most like the question's own give the candidate pages.
2. Every section (passage or row) of these is scored by its similarity to question and picture, blended half and half
   with its page's visual score.
3. The best section alone goes to the model, which answers from it without the picture, as the paper's language models
   do; `systems.reader_sees` shows the picture to a model that reads pictures.

Different from the authors' code:
- Their Q-Former fuses question and picture and takes the maximum over its query tokens. Here it is the larger of the
  cosine similarities to the question and to the picture, which favours sections about what the picture shows.
- Their sections have titles, by which references and links are left out.
- They take the first of several pictures; here all count.
- Their option `perform_text_rerank` knows the right page and is left out.

Decided here: a page is all sources of one title; if no section is of a page of the pictures found, the best 100 of all
compete with a visual score of zero; a question without a picture has its words searched among the pictures.
"""

from __future__ import annotations

from collections.abc import Sequence

from actors.messages import Hit, Message, Source
from topologies.library import query_of
from topologies.method import system
from topologies.systems.helpers import NO_PASSAGE, found_by_picture, page, pictures_among, sections, together
from topologies.systems.session import Session, System, sources
from topologies.topology import SINGLE_AGENT

RETRIEVED = 20  # pictures for each of the question's own
SECTIONS = 2000  # of the candidate pages in each ranking: all that they have, up to a limit of memory
ELSEWHERE = 100  # sections in each ranking where the candidate pages have none
VISUAL_SHARE = 0.5  # of a page's visual score in the score of its sections
READ = "The passage was picked for the question and the picture that it was asked about. Answer from it."
READ_FOR_WORDS = "The passage was picked for the question. Answer from it."


class EchoSight(System):
    """One turn of one agent with the one section that comes first; with `reader_sees`, up to `pictures` pictures."""

    async def discuss(self, session: Session) -> Message:
        own = await session.own()
        query = pictures_among(own)
        alike = await found_by_picture(session, own, RETRIEVED)
        queries: list[str | Source] = [query_of(session.question), *query]
        found = await sections(session, queries, {page(hit.source) for hit in alike}, SECTIONS, ELSEWHERE)
        best = [hit.source for hit in reranked(alike, found)[:1]]
        shown = [source for source in own if source not in query]
        if self.context.systems.reader_sees:
            shown += query or sources(alike)[: self.top_k.pictures]
        instruction = (READ if query else READ_FOR_WORDS) if best else NO_PASSAGE
        return await session.ask(SINGLE_AGENT, evidence=together(shown, best), instruction=instruction)


def reranked(alike: Sequence[Hit], rankings: Sequence[Sequence[Hit]]) -> list[Hit]:
    """Ranks the sections of all rankings, best first; equal ones by id.

    A score is the mean of the page's largest picture score and the section's own largest similarity.
    """
    visual: dict[str, float] = {}
    for hit in alike:
        # The default is the score itself and not 0, as a cosine may be negative.
        visual[page(hit.source)] = max(hit.score, visual.get(page(hit.source), hit.score))
    joint: dict[str, Hit] = {}
    for hit in (hit for ranking in rankings for hit in ranking):
        best = joint.get(hit.source.id)
        joint[hit.source.id] = hit if best is None or hit.score > best.score else best
    scored = [
        Hit(hit.source, VISUAL_SHARE * visual.get(page(hit.source), 0.0) + (1 - VISUAL_SHARE) * hit.score)
        for hit in joint.values()
    ]
    return sorted(scored, key=lambda hit: (-hit.score, hit.source.id))


METHOD = system(
    "echosight",
    "sections of visually retrieved documents, reranked; the best one is read",
    EchoSight,
    reads=("reader_sees",),
)
