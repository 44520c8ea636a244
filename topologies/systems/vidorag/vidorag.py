"""ViDoRAG: hybrid retrieval of as much as the scores call for, then seeker, inspector and synthesiser (Wang et al.
2025; M3Prune, section 8).

Retrieval: twice as many texts and pictures (of documents, the pages) as wanted are searched for, a mixture of two
Gaussians on each modality's scores decides how many of them to keep, and both are put together. Reasoning: the seeker
picks what may hold the answer from the candidates that are left; the inspector looks at all that was picked and either
drafts an answer and names what it rests on, or says what is missing, which the seeker hears. When there is a draft,
nothing is left to pick, or `turns` rounds have passed, the synthesiser checks the draft against what it rests on and
gives the answer.

Left open and decided: scores are cosines, in which the two groups can be told apart (fused ranks have none); what
belongs to the question itself is always read. A seeker that fails, or picks nothing in the first round, has picked all
candidates, so that nothing is lost by it; one that picks nothing later ends the search, and so does an inspector that
fails. Without a draft, or where the inspector names nothing that it rests on, the synthesiser reads all that was
picked; where nothing is found, it answers at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from actors.messages import Field, FieldKind, Hit, Message, Modality, Question, Role, Source, Status, Task, Trace, Value
from topologies.library import PICTURES, query_of
from topologies.method import system
from topologies.systems.helpers import numbered, together
from topologies.systems.session import Session, System, about, sources
from topologies.systems.vidorag.cutoff import kept
from topologies.topology import Ask

SEEKER = Role(
    "seeker",
    Modality.BOTH,
    "You are a scientist who skims many pages and pictures and picks out the few that may hold the answer.",
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
SEEK = (
    "Pick the candidates that may hold what the question asks for, the likeliest first, and leave out those that do "
    "not bear on it. Mind what the inspector says is still missing."
)
SEEN = (
    Field(FieldKind.THOUGHT, "one sentence on what to look for", optional=True),
    Field(
        FieldKind.SELECTED,
        "the numbers of the candidates to read, separated by commas",
        optional=True,
        value=Value.NUMBERS,
    ),
)
INSPECT = (
    "Read all that was picked. Where it suffices, draft the answer and name the numbers of what it rests on. Where it "
    "does not, say in a few words what is still to be found."
)
INSPECTED = (
    Field(FieldKind.ENOUGH, "whether what was picked suffices to answer the question", ("yes", "no")),
    Field(FieldKind.QUERY, "what is still to be found, where something is", optional=True),
    Field(
        FieldKind.SELECTED,
        "the numbers of the sources that the draft rests on, separated by commas",
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
        picked: tuple[Source, ...] = ()
        inspection: Message | None = None
        rests_on: tuple[Source, ...] = ()
        for _ in range(self.context.systems.turns):
            left = tuple(source for source in candidates if source not in picked)
            if not left:
                break
            chosen = await self._sought(session, left, inspection, first=not picked)
            if not chosen:
                break
            picked = (*picked, *chosen)
            read = together(own, picked)
            inspection = await session.ask(
                INSPECTOR.name, question=about(question, read), task=Task(INSPECT, INSPECTED)
            )
            # A failed inspection ends the search as well.
            if inspection.said(FieldKind.ENOUGH) != ("no",):
                rests_on = numbered(inspection, FieldKind.SELECTED, read)
                break
        shown = about(question, together(own, rests_on or picked))
        heard = () if inspection is None else (inspection,)
        return session.trace(await session.ask(SYNTHESISER.name, question=shown, heard=heard))

    async def _retrieved(self, session: Session) -> tuple[Source, ...]:
        """Of both modalities, what the better component of its scores holds."""
        words, radius = query_of(session.question), self.reach.radius
        searches = (
            # Twice as many as wanted, so that the mixture has irrelevant scores to tell apart.
            session.search(words, 2 * self.reach.texts, mode="vector", radius=radius),
            session.search(words, 2 * self.reach.pictures, kinds=PICTURES, mode="vector", radius=radius),
        )
        return together(*(sources(relevant(hits)) for hits in await asyncio.gather(*searches)))

    async def _sought(
        self, session: Session, left: Sequence[Source], inspection: Message | None, first: bool
    ) -> Sequence[Source]:
        heard = () if inspection is None else (inspection,)
        message = await session.ask(
            SEEKER.name, question=about(session.question, left), task=Task(SEEK, SEEN), heard=heard
        )
        chosen = numbered(message, FieldKind.SELECTED, left)
        # Nothing picked at first: all go on, so that nothing is lost by it. Later it ends the search.
        return left if message.status is not Status.OK or (first and not chosen) else chosen


def relevant(hits: Sequence[Hit]) -> tuple[Hit, ...]:
    """The best hits, as many as the mixture on their scores keeps, best first."""
    ordered = sorted(hits, key=lambda hit: -hit.score)
    return tuple(ordered[: kept([hit.score for hit in ordered])])


METHOD = system("vidorag", "retrieval cut off by a Gaussian mixture; seeker, inspector and synthesiser", ViDoRAG, ROLES)
