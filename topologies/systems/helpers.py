"""Helpers of several systems: searches that agents choose, pages found by a picture, groups of sources, numbers in
replies."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Collection, Sequence
from typing import TypeVar

from actors.messages import Hit, Kind, Message, Source, page_of
from topologies.library import PICTURES, Reach, query_of
from topologies.systems.session import Session, sources

T = TypeVar("T")
_NUMBER = re.compile(r"\d+")
SIMILAR = "similar"  # the search by the question's own picture, as agents call it
NO_PASSAGE = "No passage was found for it: go by what you know and by whatever else is shown."


def pictures_among(group: Sequence[Source]) -> tuple[Source, ...]:
    """The pictures of a group of sources, in its order."""
    return tuple(source for source in group if source.kind is Kind.IMAGE)


async def query_pictures(session: Session, own: Sequence[Source], k: int, radius: float | None) -> tuple[Source, ...]:
    """The pictures that the question is about: its own, or else (MultimodalQA, WebQA) the k best for its words within
    the radius."""
    own = pictures_among(own)
    return own or sources(await session.search(query_of(session.question), k, kinds=PICTURES, radius=radius))


def looked_up(
    session: Session, where: str, words: str, reach: Reach, of: Message, own: Sequence[Source] = ()
) -> Awaitable[tuple[Hit, ...]]:
    """A search that an agent chose: of the `web`, among `pictures`, for pictures that are `similar` to those of `own`,
    or else in texts."""
    if where == SIMILAR:
        return session.alike(pictures_among(own), reach.pictures, of=of)
    if where == "web":
        return session.web(words, reach.texts, of=of)
    if where == "pictures":
        return session.search(words, reach.pictures, kinds=PICTURES, radius=reach.radius, of=of)
    return session.search(words, reach.texts, radius=reach.radius, of=of)


def found_by_picture(session: Session, own: Sequence[Source], k: int) -> Awaitable[tuple[Hit, ...]]:
    """The k pictures most like each of the question's own, best first; of a question without one those that are
    nearest to its words."""
    if query := pictures_among(own):
        return session.alike(query, k)
    return session.search(query_of(session.question), k, kinds=PICTURES, mode="vector")


async def sections(
    session: Session, queries: Sequence[str | Source], pages: Collection[str], k: int, otherwise: int
) -> Sequence[tuple[Hit, ...]]:
    """For each query, the k passages and rows of these pages that are nearest to it; where the pages have none at all,
    the `otherwise` nearest of all pages."""
    found = await asyncio.gather(*(session.search(q, k, mode="vector", pages=pages) for q in queries))
    if any(found):
        return found
    return await asyncio.gather(*(session.search(q, otherwise, mode="vector") for q in queries))


def together(*groups: Sequence[Source]) -> tuple[Source, ...]:
    """All sources of all groups, each where it comes first and as it is there."""
    kept: dict[str, Source] = {}
    for group in groups:
        for source in group:
            kept.setdefault(source.id, source)
    return tuple(kept.values())


def page(source: Source) -> str:
    """The page that a passage, row or picture is of, by its title."""
    return page_of(source.title)


def numbered(message: Message, field: str, of: Sequence[T]) -> tuple[T, ...]:
    """The elements that a field names by their numbers (from 1), in its order; unknown numbers are passed over."""
    numbers = [int(number) for value in message.said(field) for number in _NUMBER.findall(value)]
    # A number named twice counts once; models also name numbers that were never shown.
    return tuple(of[n - 1] for n in dict.fromkeys(numbers) if 1 <= n <= len(of))
