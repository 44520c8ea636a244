"""Helpers of several systems: searches that agents choose, groups of sources, numbers and confidences in replies."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Sequence
from typing import TypeVar

from actors.messages import Hit, Kind, Message, Source
from topologies.library import PICTURES, Reach, query_of
from topologies.systems.session import Session, sources

T = TypeVar("T")
_NUMBER = re.compile(r"\d+")
_TABLE_OF_PAGE = " - "  # stands between the title of a page and that of a table on it


def pictures_among(group: Sequence[Source]) -> tuple[Source, ...]:
    """The pictures of a group of sources, in its order."""
    return tuple(source for source in group if source.kind is Kind.IMAGE)


async def query_pictures(session: Session, own: Sequence[Source], k: int, radius: float | None) -> tuple[Source, ...]:
    """The pictures that the question is about: its own, or else (MultimodalQA, WebQA) the k best for its words within
    the radius."""
    own = pictures_among(own)
    return own or sources(await session.search(query_of(session.question), k, kinds=PICTURES, radius=radius))


def looked_up(session: Session, where: str, words: str, reach: Reach, of: Message) -> Awaitable[tuple[Hit, ...]]:
    """A search that an agent chose: of the `web`, among `pictures`, or else in texts."""
    if where == "web":
        return session.web(words, reach.texts, of=of)
    if where == "pictures":
        return session.search(words, reach.pictures, kinds=PICTURES, radius=reach.radius, of=of)
    return session.search(words, reach.texts, radius=reach.radius, of=of)


def together(*groups: Sequence[Source]) -> tuple[Source, ...]:
    """All sources of all groups, each where it comes first and as it is there."""
    kept: dict[str, Source] = {}
    for group in groups:
        for source in group:
            kept.setdefault(source.id, source)
    return tuple(kept.values())


def page(source: Source) -> str:
    """The document of a passage, row or picture, by its title; a table's title has its page's before a dash."""
    return source.title.partition(_TABLE_OF_PAGE)[0].strip().casefold()


def numbered(message: Message, field: str, of: Sequence[T]) -> tuple[T, ...]:
    """The elements that a field names by their numbers (from 1), in its order; unknown numbers are passed over."""
    numbers = [int(number) for value in message.said(field) for number in _NUMBER.findall(value)]
    # A number named twice counts once; models also name numbers that were never shown.
    return tuple(of[n - 1] for n in dict.fromkeys(numbers) if 1 <= n <= len(of))
