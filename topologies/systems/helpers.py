"""Steps that several systems share: the zero-shot agent, chosen searches, groups of sources, numbers in replies."""

import asyncio
import re
from collections import defaultdict
from collections.abc import Awaitable, Collection, Iterable, Sequence
from itertools import chain
from typing import TypeVar

from actors.messages import Field, FieldKind, Hit, Kind, Message, Modality, Role, Source, Value, page_of
from topologies.method import PICTURES, MethodContext, TopK, query_of
from topologies.systems.session import Session, about, sources

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
    retrieved = session.question.evidence if context.systems.context == "retrieved" else ()
    session.question = about(session.question, together(await session.own(), retrieved))


def pictures_among(group: Sequence[Source]) -> tuple[Source, ...]:
    """Returns the pictures of a group of sources, in its order."""
    return tuple(source for source in group if source.kind is Kind.IMAGE)


def look_up(
    session: Session, tool: str, words: str, top_k: TopK, of: Message, own_sources: Sequence[Source] = ()
) -> Awaitable[tuple[Hit, ...]]:
    """Runs a search that an agent chose: `web`, `pictures`, pictures `similar` to the question's own, or texts."""
    if tool == SIMILAR:
        return session.alike(pictures_among(own_sources), top_k.pictures, of=of)
    if tool == "web":
        return session.web(words, top_k.texts, of=of)
    if tool == "pictures":
        return session.search(words, top_k.pictures, kinds=PICTURES, radius=top_k.radius, of=of)
    return session.search(words, top_k.texts, radius=top_k.radius, of=of)


def found_by_picture(session: Session, own_sources: Sequence[Source], k: int) -> Awaitable[tuple[Hit, ...]]:
    """Finds the k pictures most like each of the question's own, best first. Else those nearest to its words."""
    pictures = pictures_among(own_sources)
    if pictures:
        return session.alike(pictures, k)
    return session.search(query_of(session.question), k, kinds=PICTURES, mode="vector")


async def sections(
    session: Session, queries: Sequence[str | Source], pages: Collection[str], k: int, otherwise: int
) -> Sequence[tuple[Hit, ...]]:
    """Finds each query's k nearest passages and rows of these pages. Where there are none, `otherwise` of all pages."""
    in_pages = [session.search(query, k, mode="vector", pages=pages) for query in queries]
    rankings = await asyncio.gather(*in_pages)
    if any(rankings):
        return rankings
    return await asyncio.gather(*(session.search(query, otherwise, mode="vector") for query in queries))


def together(*groups: Iterable[Source]) -> tuple[Source, ...]:
    """Joins groups of sources, each source at its first place."""
    by_id: dict[str, Source] = {}
    for source in chain(*groups):
        by_id.setdefault(source.id, source)
    return tuple(by_id.values())


def fused(rankings: Sequence[Sequence[Hit]], k: int) -> tuple[Source, ...]:
    """Takes the k best of several searches, by the sum of their reciprocal ranks."""
    scores: dict[str, float] = defaultdict(float)
    for hits in rankings:
        for rank, hit in enumerate(hits):
            scores[hit.source.id] += 1 / (FUSION_RANKS + rank)
    candidates = together(*map(sources, rankings))
    # `sorted` is stable: equal sums stay in the order in which they were found.
    return tuple(sorted(candidates, key=lambda source: -scores[source.id])[:k])


def page(source: Source) -> str:
    """Returns the page of a passage, row or picture, by its title."""
    return page_of(source.title)


def numbered(message: Message, field: str, elements: Sequence[T]) -> tuple[T, ...]:
    """Returns the elements whose numbers (from 1) a field lists, each once. Other numbers are ignored."""
    chosen_elements: dict[int, T] = {}
    for value in message.values(field):
        for digits in re.findall(r"\d+", value):
            number = int(digits)
            # Models also name numbers that were never shown.
            if 1 <= number <= len(elements):
                chosen_elements[number] = elements[number - 1]
    return tuple(chosen_elements.values())
