"""ViDoRAG: hybrid retrieval of as much as the scores call for, then seeker, inspector and synthesiser (Wang et al.
2025; M3Prune, section 8).

Retrieval: twice as many texts and pictures (of documents, the pages) as wanted are searched for, a mixture of two
Gaussians on each modality's scores decides how many of them to keep, from five up to what is wanted, and both are put
together. A passage with the words of a page is only a way to find it: what agents see is the page, as a picture.
Reasoning: the seeker picks all that may hold the answer from the candidates that are left; the inspector looks at what
was picked and either drafts an answer and names what it rests on, or says what is missing, which the seeker hears, and
what it keeps: the rest is gone for good. A draft that rests on all that was read is the answer. Else, and when nothing
is left to pick or `turns` rounds have passed, the synthesiser checks the draft against what it rests on and answers.

Otherwise than in the authors' code: it has no limit of rounds; it joins the pages into one picture, with words for
their places that do not always fit, where here they are several pictures; it fills the union of both rankings up to
what fits into that picture and then cuts by page number, here the union is what the cut-off kept; one encoder reads
both modalities. It leaves questions out of its score where nothing picked suffices and no page is left, or where
replies cannot be read. Here a seeker that fails, or picks nothing in the first round, has picked all candidates; one
that picks nothing later ends the search, and so does an inspector that fails. Without a draft, or where the inspector
names nothing that it rests on, the synthesiser reads all that is kept; where nothing is found, it answers at once.
Scores are cosines, in which the two groups can be told apart (fused ranks have none); what belongs to the question
itself is always read. A source has one number for all agents, who hear each other's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from actors.messages import Field, FieldKind, Hit, Message, Modality, Question, Role, Source, Status, Task, Trace, Value
from topologies.library import PICTURES, query_of
from topologies.method import system
from topologies.systems.helpers import numbered, together
from topologies.systems.session import Session, System, about, in_order, sources
from topologies.systems.vidorag.cutoff import kept
from topologies.topology import Ask

SEEKER = Role(
    "seeker",
    Modality.BOTH,
    "You are a scientist who skims many pages and pictures and picks out all that may hold the answer.",
)
INSPECTOR = Role(
    "page_inspector",
    Modality.BOTH,
    "You are a scientist who reads what was picked closely, and judges whether it suffices to answer the question.",
)
SYNTHESISER = Role(
    "synthesiser",
    Modality.BOTH,
    "You are a scientist who makes the final decision: you hold a draft of the answer against the sources that it "
    "names and give the answer that they bear out.",
)
ROLES = (SEEKER, INSPECTOR, SYNTHESISER)
LEAST = 5  # hits of a modality, however few the mixture keeps
SEEK = (
    "Pick every candidate that may hold something that the question asks for, the likeliest first. Another agent reads "
    "them closely afterwards, so one that bears on it only a little is better picked than missed. Mind what the "
    "inspector says is still missing."
)
SEEN = (
    Field(FieldKind.THOUGHT, "in a few sentences, what to look for and which candidates bear on it"),
    Field(
        FieldKind.SELECTED,
        "the numbers of the candidates to read, separated by commas",
        optional=True,
        value=Value.NUMBERS,
    ),
)
INSPECT = (
    "Read all that was picked. Where it suffices, draft the answer and name the numbers of what it rests on. Where it "
    "does not, say in a few words what is still to be found, and name the numbers of what is worth keeping for the "
    "answer: what you do not name is not shown again."
)
INSPECTED = (
    Field(FieldKind.THOUGHT, "in a few sentences, what the sources say about the question"),
    Field(FieldKind.ENOUGH, "whether what was picked suffices to answer the question", ("yes", "no")),
    Field(FieldKind.QUERY, "what is still to be found, where something is", optional=True),
    Field(
        FieldKind.SELECTED,
        "the numbers of the sources that the draft rests on or, without one, that are to be kept, separated by commas",
        optional=True,
        value=Value.NUMBERS,
    ),
    Field(FieldKind.ANSWER, "the draft, in as few words as possible", optional=True, value=Value.ANSWER),
)


class ViDoRAG(System):
    """Retrieval of up to twice `reach.texts` and `reach.pictures`, at most `turns` rounds, and the answer."""

    async def answer(self, question: Question, ask: Ask, seed: int, sample: int = 0) -> Trace:
        session = self.session(question, ask, seed, sample)
        own = await session.own()
        # What is part of the question is always read, so it is no candidate.
        candidates = together(own, await self._retrieved(session))[len(own) :]
        # One list for all, as the agents hear each other's numbers.
        listed = (*candidates, *own)
        question = in_order(question, listed)
        picked: tuple[Source, ...] = ()
        inspection: Message | None = None
        rests_on: Sequence[Source] = ()
        left = candidates
        for _ in range(self.context.systems.turns):
            if not left:
                break
            chosen = await self._sought(session, question, listed, left, inspection)
            if not chosen:
                break
            left = tuple(source for source in left if source not in chosen)
            picked = (*picked, *chosen)
            read = together(own, picked)
            inspection = await session.ask(
                INSPECTOR.name, question=about(question, read), task=Task(INSPECT, INSPECTED)
            )
            named = [source for source in numbered(inspection, FieldKind.SELECTED, listed) if source in read]
            if inspection.said(FieldKind.ENOUGH) == ("no",):
                picked = tuple(source for source in picked if source in named)
                continue
            # A failed inspection ends the search as well.
            if inspection.said(FieldKind.ANSWER) and set(picked) <= set(named):
                return session.trace(inspection)
            rests_on = named
            break
        shown = about(question, together(own, rests_on or picked))
        heard = () if inspection is None else (inspection,)
        return session.trace(await session.ask(SYNTHESISER.name, question=shown, heard=heard))

    async def _retrieved(self, session: Session) -> tuple[Source, ...]:
        """Of both modalities, what the better component of its scores holds; pages as their pictures."""
        words, radius = query_of(session.question), self.reach.radius
        searches = (
            # Twice as many as wanted, so that the mixture has irrelevant scores to tell apart.
            session.search(words, 2 * self.reach.texts, mode="vector", radius=radius),
            session.search(words, 2 * self.reach.pictures, kinds=PICTURES, mode="vector", radius=radius),
        )
        texts, pictures = await asyncio.gather(*searches)
        found = sources(relevant(texts, self.reach.texts))
        return together(await _as_pages(session, words, found), sources(relevant(pictures, self.reach.pictures)))

    async def _sought(
        self,
        session: Session,
        question: Question,
        listed: Sequence[Source],
        left: Sequence[Source],
        inspection: Message | None,
    ) -> Sequence[Source]:
        """What the seeker picks of what is `left`, by the numbers of all that is `listed`."""
        heard = () if inspection is None else (inspection,)
        message = await session.ask(SEEKER.name, question=about(question, left), task=Task(SEEK, SEEN), heard=heard)
        chosen = [source for source in numbered(message, FieldKind.SELECTED, listed) if source in left]
        # Nothing picked at first: all go on, so that nothing is lost by it. Later it ends the search.
        return left if message.status is not Status.OK or (inspection is None and not chosen) else chosen


async def _as_pages(session: Session, words: str, texts: Sequence[Source]) -> tuple[Source, ...]:
    """The texts, with the picture of its page in the place of each that has nothing but what is written there."""
    if not texts:
        return ()
    docs = {source.doc for source in texts}
    hits = await session.search(words, len(docs), kinds=PICTURES, mode="vector", docs=docs)
    pages = {(picture.doc, picture.text): picture for picture in sources(hits)}
    return tuple(pages.get((source.doc, source.text), source) for source in texts)


def relevant(hits: Sequence[Hit], k: int) -> tuple[Hit, ...]:
    """The best hits, best first: as many as the mixture on their scores keeps, but at least five and at most k."""
    ordered = sorted(hits, key=lambda hit: -hit.score)
    return tuple(ordered[: kept([hit.score for hit in ordered], min(LEAST, k), k)])


METHOD = system(
    "vidorag", "retrieval cut off by a Gaussian mixture; seeker, inspector and synthesiser", ViDoRAG, ROLES, ("turns",)
)
