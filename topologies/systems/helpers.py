"""Steps that several systems share: the zero-shot agent, chosen searches, groups of sources, numbers in replies."""

import asyncio
import re
from collections.abc import Awaitable, Collection, Sequence
from typing import TypeVar

from actors.messages import Field, FieldKind, Hit, Kind, Message, Modality, Role, Source, Value, page_of
from topologies.method import PICTURES, MethodContext, TopK, query_of
from topologies.systems.session import Session, about

T = TypeVar("T")
SIMILAR = "similar"  # agents' name for the search by the question's own picture
FUSION_RANKS = 60.0  # the usual constant of reciprocal rank fusion (Cormack et al. 2009)
# The agent of systems without retrieval has no role text, as in the papers and in the code of BDoG, CCoT and DDCoT.
SOLO = Role("solo", Modality.BOTH, "")
STEPS = Field(FieldKind.THOUGHT, "the steps that lead to the answer, one after another, as long as it takes")
ANSWER = Field(FieldKind.ANSWER, "the answer itself in as few words as possible", value=Value.ANSWER)
NO_PASSAGE = "No passage was found for it: go by what you know and by whatever else is shown."


async def show_own(session: Session, context: MethodContext) -> None:
    """Shows systems without retrieval the question's own hint and picture, or also evidence (`systems.context`)."""
    own = await session.own()
    found = session.question.evidence if context.systems.context == "retrieved" else ()
    session.question = about(session.question, together(own, found))


def pictures_among(group: Sequence[Source]) -> tuple[Source, ...]:
    """Returns the pictures of a group of sources, in its order."""
    return tuple(source for source in group if source.kind is Kind.IMAGE)


def looked_up(
    session: Session, where: str, words: str, top_k: TopK, of: Message, own: Sequence[Source] = ()
) -> Awaitable[tuple[Hit, ...]]:
    """Runs a search that an agent chose: `web`, `pictures`, pictures `similar` to the question's own, or texts."""
    if where == SIMILAR:
        return session.alike(pictures_among(own), top_k.pictures, of=of)
    if where == "web":
        return session.web(words, top_k.texts, of=of)
    if where == "pictures":
        return session.search(words, top_k.pictures, kinds=PICTURES, radius=top_k.radius, of=of)
    return session.search(words, top_k.texts, radius=top_k.radius, of=of)


def found_by_picture(session: Session, own: Sequence[Source], k: int) -> Awaitable[tuple[Hit, ...]]:
    """Finds the k pictures most like each of the question's own, best first. Else those nearest to its words."""
    if query := pictures_among(own):
        return session.alike(query, k)
    return session.search(query_of(session.question), k, kinds=PICTURES, mode="vector")


async def sections(
    session: Session, queries: Sequence[str | Source], pages: Collection[str], k: int, otherwise: int
) -> Sequence[tuple[Hit, ...]]:
    """Finds each query's k nearest passages and rows of these pages. Where there are none, `otherwise` of all pages."""
    found = await asyncio.gather(*(session.search(q, k, mode="vector", pages=pages) for q in queries))
    if any(found):
        return found
    return await asyncio.gather(*(session.search(q, otherwise, mode="vector") for q in queries))


def together(*groups: Sequence[Source]) -> tuple[Source, ...]:
    """Joins groups of sources, each source at its first place."""
    kept: dict[str, Source] = {}
    for group in groups:
        for source in group:
            kept.setdefault(source.id, source)
    return tuple(kept.values())


def fused(rankings: Sequence[Sequence[Hit]], k: int) -> tuple[Source, ...]:
    """Takes the k best of several searches, by the sum of their reciprocal ranks."""
    scores: dict[str, float] = {}
    source_by_id: dict[str, Source] = {}
    for hits in rankings:
        for rank, hit in enumerate(hits):
            scores[hit.source.id] = scores.get(hit.source.id, 0.0) + 1 / (FUSION_RANKS + rank)
            source_by_id.setdefault(hit.source.id, hit.source)
    # `sorted` is stable: equal sums stay in the order in which they were found.
    return tuple(source_by_id[id] for id in sorted(scores, key=lambda id: -scores[id])[:k])


def page(source: Source) -> str:
    """Returns the page of a passage, row or picture, by its title."""
    return page_of(source.title)


def numbered(message: Message, field: str, of: Sequence[T]) -> tuple[T, ...]:
    """Returns the elements whose numbers (from 1) a field lists, each once. Other numbers are ignored."""
    numbers = [int(number) for value in message.values(field) for number in re.findall(r"\d+", value)]
    # A number named twice counts once; models also name numbers that were never shown.
    return tuple(of[n - 1] for n in dict.fromkeys(numbers) if 1 <= n <= len(of))
