"""Wiki-LLaVA, RoRA-VLM and EchoSight: one agent answers from the finds of the question's picture (M3Prune, section 8).

Wiki-LLaVA: hierarchical retrieval (Caffagni et al. 2024).
1. The picture names documents, by its likeness to their passages.
2. Of each of these documents, the passages nearest to the question are read.
3. The question is answered with these passages and the picture.

Decided here: a picture is compared with passages and rows under their title; it names one document, of which
`top_k.texts` passages are read; passages of one title are one document; a question without a picture is asked with
pictures that its words find.

RoRA-VLM: robust retrieval in two stages (abstract of Qi et al. 2024).
1. Retrieve pictures like the question's own; their titles and descriptions name the entities that it may show.
2. For each of them, retrieve passages for the question extended by its title and description: picture and passages are
   one snippet of knowledge.
3. The model drops retrieved pictures that are unlike the query, with their passages.
4. It answers from the remaining snippets.

Decided here: filtering is prompted; all snippets together have `top_k.texts` passages; where the filter neither names a
picture nor rejects all, all stay. A question without a picture has its words searched among the pictures. A picture is
then compared with the question. Where none is left, passages for the question alone are read.

EchoSight: visual retrieval, then multi-modal reranking of sections (Yan and Xie 2024).
1. The 20 pictures most like the question's own give the candidate pages.
2. A section's (passage's or row's) score is half its similarity to question and picture, half its page's visual score.
3. The best section alone goes to the model, which answers from it without the picture, as the paper's language models
   do; `systems.reader_sees` shows the picture to a model that reads pictures.

Decided here: a section's similarity is the larger of its cosines to the question and to the picture; all pictures of a
question count; a page is all sources of one title; if no section is of a page of the pictures found, the best 100 of
all compete with a visual score of zero; a question without a picture has its words searched among the pictures.
"""

import asyncio
import itertools
import math
from collections.abc import Sequence
from operator import attrgetter

from actors.messages import Field, FieldKind, Hit, Message, Source, Task, Value
from topologies.method import query_of, system
from topologies.systems.helpers import NO_PASSAGE, found_by_picture, numbered, page, pictures_among, sections, together
from topologies.systems.session import Session, System, sources
from topologies.topology import SINGLE_AGENT

DOCUMENTS = 1  # that each picture names
LOOKED_AT = 100  # passages most like a picture, among which its documents are found
READ_ALL = "The passages come from the documents that the pictures point to. Answer from them and from the pictures."

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

RETRIEVED = 20  # pictures for each of the question's own
SECTIONS = 2000  # of the candidate pages in each ranking: all that they have, up to a limit of memory
ELSEWHERE = 100  # sections in each ranking where the candidate pages have none
VISUAL_SHARE = 0.5  # of a page's visual score in the score of its sections
READ = "The passage was picked for the question and the picture that it was asked about. Answer from it."
READ_FOR_WORDS = "The passage was picked for the question. Answer from it."


class WikiLlava(System):
    """One turn of one agent, with passages of the documents that its pictures name. It reads `top_k.texts` of each
    document, and up to `top_k.pictures` pictures.
    """

    async def discuss(self, session: Session) -> Message:
        own_sources = await session.own()
        pictures = await session.pictures(own_sources, self.top_k.pictures, self.top_k.radius)
        rankings = await asyncio.gather(*(session.search(picture, LOOKED_AT, mode="vector") for picture in pictures))
        # The first documents of every picture, each once.
        documents: dict[str, None] = {}
        for hits in rankings:
            titles = dict.fromkeys(page(hit.source) for hit in hits)
            documents |= dict.fromkeys(list(titles)[:DOCUMENTS])

        query = query_of(session.question)
        passages = await asyncio.gather(
            *(session.search(query, self.top_k.texts, mode="vector", pages={title}) for title in documents)
        )
        evidence = together(own_sources, *map(sources, passages), pictures)
        instruction = READ_ALL if any(passages) else NO_PASSAGE
        return await session.ask(SINGLE_AGENT, evidence=evidence, instruction=instruction)


class RoraVlm(System):
    """Two turns of one agent: filter the retrieved pictures, and answer with the rest and their passages."""

    async def discuss(self, session: Session) -> Message:
        own_sources = await session.own()
        own_pictures = pictures_among(own_sources)
        query = query_of(session.question)
        pictures = sources(await found_by_picture(session, own_sources, self.top_k.pictures))[: self.top_k.pictures]
        # Every picture has a passage, even where there are more pictures than passages.
        passages_each = math.ceil(self.top_k.texts / max(1, len(pictures)))
        # The question with a picture's title and description.
        queries = [" ".join([query, source.title, *source.text.split()[:DESCRIBED]]) for source in pictures]
        passages = await asyncio.gather(*(session.search(text, passages_each) for text in queries))

        kept = await self._filtered(session, own_pictures, pictures) if pictures else ()
        snippets = [
            (picture, *sources(hits)) for picture, hits in zip(pictures, passages, strict=True) if picture in kept
        ]
        if not snippets and not own_pictures:
            snippets = [sources(await session.search(query, self.top_k.texts, radius=self.top_k.radius))]
        return await session.ask(SINGLE_AGENT, evidence=together(own_sources, *snippets))

    async def _filtered(
        self, session: Session, own_pictures: Sequence[Source], pictures: Sequence[Source]
    ) -> Sequence[Source]:
        """Asks which pictures to keep. The question's own pictures are shown for comparison only."""
        candidates = (*own_pictures, *pictures)
        choice = await session.ask(SINGLE_AGENT, evidence=candidates, task=Task(FILTER, (ANY, KEPT)))
        selected = numbered(choice, FieldKind.SELECTED, candidates)
        if selected or choice.values(FieldKind.RELEVANT) == ("no",):
            return selected
        return pictures


class EchoSight(System):
    """One turn of one agent with the first section; with `reader_sees`, up to `pictures` pictures."""

    async def discuss(self, session: Session) -> Message:
        own_sources = await session.own()
        own_pictures = pictures_among(own_sources)
        alike = await found_by_picture(session, own_sources, RETRIEVED)
        queries: list[str | Source] = [query_of(session.question), *own_pictures]
        rankings = await sections(session, queries, {page(hit.source) for hit in alike}, SECTIONS, ELSEWHERE)
        best = sources(reranked(alike, rankings)[:1])

        evidence = [source for source in own_sources if source not in own_pictures]
        if self.context.systems.reader_sees:
            evidence += own_pictures or sources(alike)[: self.top_k.pictures]
        instruction = NO_PASSAGE
        if best:
            instruction = READ if own_pictures else READ_FOR_WORDS
        return await session.ask(SINGLE_AGENT, evidence=together(evidence, best), instruction=instruction)


def reranked(alike: Sequence[Hit], rankings: Sequence[Sequence[Hit]]) -> list[Hit]:
    """Ranks the sections of all rankings, best first; equal ones by id.

    A score is the mean of the page's largest picture score and the section's own largest similarity.
    """
    visual_scores: dict[str, float] = {}
    # The best comes last, and stays.
    for hit in sorted(alike, key=attrgetter("score")):
        visual_scores[page(hit.source)] = hit.score
    best: dict[str, Hit] = {}
    for hit in sorted(itertools.chain(*rankings), key=attrgetter("score")):
        best[hit.source.id] = hit

    scored = []
    for hit in best.values():
        visual_score = visual_scores.get(page(hit.source), 0.0)
        scored.append(Hit(hit.source, VISUAL_SHARE * visual_score + (1 - VISUAL_SHARE) * hit.score))
    return sorted(scored, key=lambda hit: (-hit.score, hit.source.id))


RIVALS = ("sp", "single")
METHODS = (
    system(
        "wiki_llava",
        "the picture finds documents, the question passages in them",
        WikiLlava,
        rivals=RIVALS,
    ),
    system(
        "rora_vlm",
        "similar pictures extend the query and bring passages; unrelated ones are dropped",
        RoraVlm,
        rivals=RIVALS,
    ),
    system(
        "echosight",
        "sections of visually retrieved documents, reranked; the best one is read",
        EchoSight,
        reads=("systems.reader_sees",),
        rivals=RIVALS,
    ),
)
