"""ViDoRAG: hybrid retrieval of as many sources as the scores call for, then seeker, inspector and synthesiser (Wang et
al. 2025; M3Prune, section 8).

Retrieval: a search returns twice `retrieval.top_k` texts and pictures (of documents, the pages). A mixture of two
Gaussians on each modality's scores decides how many of them to keep, from five up to `retrieval.top_k`, and both are
joined. A passage with the words of a page only serves to find it: agents see the page, as a picture.

Reasoning, in at most five rounds:
1. The seeker picks all candidates that may hold the answer.
2. The inspector reads the picks. It drafts an answer and names the sources that it rests on; or it names the
   missing facts, which the seeker hears, and the sources to keep: all others are dropped.
3. A draft that rests on all that was read is the answer. Else, and when no candidate is left or the rounds are over,
   the synthesiser checks the draft against its sources and answers.

Decided here: a seeker that fails, or picks none in the first round, has picked all candidates; one that picks none
later ends the search, and so does an inspector that fails. Without a draft, or where the inspector names no source for
it, the synthesiser reads all sources left; where nothing is found, it answers at once. Scores are cosines, which
separate the two groups (fused ranks do not); the question's own sources are always read. A source has one number for
all agents, who hear each other's."""

import asyncio
from collections.abc import Sequence

import numpy as np

from actors.messages import Field, FieldKind, Hit, Message, Modality, Role, Source, Status, Task, Value
from topologies.method import PICTURES, query_of, system
from topologies.systems.helpers import numbered, together
from topologies.systems.session import Session, System, in_order, sources

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
MOST_ROUNDS = 5
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
    """Retrieval of up to twice `top_k.texts` and `top_k.pictures`, rounds of seeker and inspector, and the answer."""

    async def discuss(self, session: Session) -> Message:
        own_sources = await session.own()
        retrieved = await self._retrieved(session)
        # The question's own sources are always read, so they are no candidates.
        candidates = together(own_sources, retrieved)[len(own_sources) :]
        # One list for all, as the agents hear each other's numbers.
        order = (*candidates, *own_sources)
        session.question = in_order(session.question, order)
        selected: tuple[Source, ...] = ()
        basis: Sequence[Source] = ()
        inspection: list[Message] = []  # the last one, if any
        for _ in range(MOST_ROUNDS):
            if not candidates:
                break
            search = await session.ask(SEEKER.name, evidence=candidates, task=Task(SEEK, SEEN), heard=inspection)
            picks = [source for source in numbered(search, FieldKind.SELECTED, order) if source in candidates]
            # Nothing picked at first: all go on, so that no source is lost. Later it ends the search.
            if search.status is not Status.OK or not (inspection or picks):
                picks = list(candidates)
            if not picks:
                break
            candidates = tuple(source for source in candidates if source not in picks)
            selected = (*selected, *picks)

            evidence = together(own_sources, selected)
            message = await session.ask(INSPECTOR.name, evidence=evidence, task=Task(INSPECT, INSPECTED))
            inspection = [message]
            basis = [source for source in numbered(message, FieldKind.SELECTED, order) if source in evidence]
            # A failed inspection ends the search as well.
            if message.values(FieldKind.ENOUGH) != ("no",):
                if message.values(FieldKind.ANSWER) and set(selected) <= set(basis):
                    return message
                break
            selected = tuple(source for source in selected if source in basis)
            basis = ()

        return await session.ask(SYNTHESISER.name, evidence=together(own_sources, basis or selected), heard=inspection)

    async def _retrieved(self, session: Session) -> tuple[Source, ...]:
        """Retrieves the sources in the better component of each modality's scores; pages as their pictures."""
        query = query_of(session.question)
        top_k = self.top_k
        # Twice as many as needed, so that the mixture has irrelevant scores to tell apart.
        texts, pictures = await asyncio.gather(
            session.search(query, 2 * top_k.texts, mode="vector", radius=top_k.radius),
            session.search(query, 2 * top_k.pictures, kinds=PICTURES, mode="vector", radius=top_k.radius),
        )
        passages = sources(relevant(texts, top_k.texts))
        if docs := {passage.doc for passage in passages}:
            # A text that is the wording of a page is replaced by the page's picture.
            hits = await session.search(query, len(docs), kinds=PICTURES, mode="vector", docs=docs)
            pages = {(picture.doc, picture.text): picture for picture in sources(hits)}
            passages = tuple(pages.get((passage.doc, passage.text), passage) for passage in passages)
        return together(passages, sources(relevant(pictures, top_k.pictures)))


def relevant(hits: Sequence[Hit], k: int) -> tuple[Hit, ...]:
    """Keeps hits in the better component of their scores, best first: five at least, k at most."""
    ordered = sorted(hits, key=lambda hit: -hit.score)
    places = better_component([hit.score for hit in ordered], min(LEAST, k), k)
    return tuple(ordered[place] for place in places)


def better_component(scores: Sequence[float], least: int, most: int) -> list[int]:
    """Finds the scores in the component of the best one, by a mixture of two Gaussians. Returns places, best first.

    Fewer than `least` are filled up from the other component, and at most `most` are kept. As in the authors' code the
    fit is of the scores as they are, starts from k-means with seed 0, and a wide component may claim the worst scores
    too. Equal scores, and a single one, are one component.
    """
    if len(set(scores)) < 2:
        return list(range(len(scores)))[:most]
    from sklearn.mixture import GaussianMixture  # takes a second to import: other systems need not wait for it

    values = np.asarray(scores, dtype=float).reshape(-1, 1)
    labels = GaussianMixture(2, random_state=0).fit(values).predict(values)
    better = np.flatnonzero(labels == labels[0]).tolist()
    worse = np.flatnonzero(labels != labels[0]).tolist()
    return (better + worse[: max(0, least - len(better))])[:most]


METHODS = (
    system(
        "vidorag",
        "retrieval cut off by a Gaussian mixture; seeker, inspector and synthesiser",
        ViDoRAG,
        ROLES,
        rivals=("single",),
    ),
)
