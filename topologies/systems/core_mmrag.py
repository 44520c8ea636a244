"""CoRe-MMRAG: cross-source knowledge reconciliation in four stages (Tian et al. 2025; M3Prune, section 8).

1. An internal answer, from the model's own knowledge and the question's own picture.
2. Of the pages whose pictures look most like the question's own, the most relevant one, chosen by picture and passages
   jointly, since each alone may point to another entity.
3. An external answer, from that page.
4. Both are reconciled: where they differ, the model decides which source to trust.

Decided here:
- A page has its picture most like the question's and its `top_k.texts` passages nearest to the question.
- Where no page is chosen, the first is taken.
- A question without a picture has its words searched among passages and pictures, which are grouped by page.
- Where nothing is retrieved, the internal answer counts; a failed answer is not read in stage 4.
"""

import asyncio
from collections.abc import Sequence

from actors.messages import Field, FieldKind, Message, Source, Task, Value
from topologies.method import PICTURES, query_of, system
from topologies.systems.helpers import numbered, page, pictures_among, together
from topologies.systems.session import Session, System, input_lines, sources
from topologies.topology import SINGLE_AGENT

INTERNAL = "Answer from what you know and what the question itself shows. Nothing has been looked up."
CHOOSE = (
    "Each candidate is a page that was retrieved for the question, with the numbers of its picture and its passages. "
    "Judge them jointly, what is written together with what is seen, and choose the page that is about the thing the "
    "question asks about and that its answer depends on."
)
CHOSEN = Field(FieldKind.SELECTED, "the number of the candidate chosen", optional=True, most=1, value=Value.NUMBERS)
EXTERNAL = "Answer from the evidence and the pictures alone, whatever you would have thought without them."
RECONCILE = (
    "Two answers were given before: the first from knowledge alone, the second from retrieved evidence. Where they "
    "agree, keep the answer. Where they differ, find out why: whether the evidence is about something else, or the "
    "knowledge mistaken, and give the answer of the more reliable source."
)


class CoreMmrag(System):
    """Four turns of one agent: internal answer, choice of a page, external answer, reconciliation."""

    async def discuss(self, session: Session) -> Message:
        own_sources = await session.own()
        internal = await session.ask(SINGLE_AGENT, evidence=own_sources, instruction=INTERNAL)
        pages = await self._pages(session, pictures_among(own_sources))
        if not pages:
            return internal

        evidence_of_pages = together(own_sources, *pages)
        numbers = {source.id: f"[{number}]" for number, source in enumerate(evidence_of_pages, 1)}
        # A page as a line of the task: its title, and the numbers by which its sources are shown.
        lines = []
        for sources_of_page in pages:
            shown_as = ", ".join(numbers[source.id] for source in sources_of_page)
            lines.append(f"{sources_of_page[0].title}: {shown_as}")
        task = Task(CHOOSE, (CHOSEN,), input_lines(FieldKind.CANDIDATE, lines, numbered=True))
        choice = await session.ask(SINGLE_AGENT, evidence=evidence_of_pages, task=task)
        page_sources, *_ = (*numbered(choice, FieldKind.SELECTED, pages), pages[0])

        evidence = together(own_sources, page_sources)
        external = await session.ask(SINGLE_AGENT, evidence=evidence, instruction=EXTERNAL)
        return await session.ask(SINGLE_AGENT, evidence=evidence, heard=[internal, external], instruction=RECONCILE)

    async def _pages(self, session: Session, pictures: Sequence[Source]) -> list[Sequence[Source]]:
        """Retrieves pages, best first, each as its sources: its picture, then its passages."""
        query = query_of(session.question)
        top_k = self.top_k
        if not pictures:
            hits = await asyncio.gather(
                session.search(query, top_k.pictures, kinds=PICTURES, radius=top_k.radius),
                session.search(query, top_k.texts, radius=top_k.radius),
            )
            pages: dict[str, list[Source]] = {}
            for source in together(*map(sources, hits)):
                pages.setdefault(page(source), []).append(source)
            return list(pages.values())

        alike = sources(await session.alike(pictures, top_k.pictures))[: top_k.pictures]
        # Of a page with several pictures the one that is most alike.
        picture_of: dict[str, Source] = {}
        for picture in alike:
            picture_of.setdefault(page(picture), picture)
        passages = await asyncio.gather(
            *(session.search(query, top_k.texts, mode="vector", pages={title}) for title in picture_of)
        )
        return [(picture, *sources(hits)) for picture, hits in zip(picture_of.values(), passages, strict=True)]


METHODS = (
    system(
        "core_mmrag",
        "closed-book and evidence answers, reconciled",
        CoreMmrag,
        rivals=("sp", "single"),
        settings={"agents.temperature": 0},
    ),
)
