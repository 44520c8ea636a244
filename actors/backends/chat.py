"""Lays a request out as the messages of a chat, in one way for every engine and endpoint.

System turn, then one user turn: pictures, each after its number and title, shared text, own text. Agents share what
comes first, so that the server can reuse its prefix. A repair goes on from there: the reply that was rejected, and what
the model is told of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from actors.messages import Request, Source
from actors.prompting.text import safe_line

# Some endpoints take no larger seed; engines get the same ones, so that both answer alike.
SEEDS = 2**31
DESCRIPTIONS = "## What pictures without a file show"
PROBE = Request(id="", prefix="", system="Instruction", shared="Question", own="Role")
"""A request whose parts can be told apart in what a chat template makes of it."""
# Some templates refuse an assistant turn without text.
NO_REPLY = "(nothing)"


def chat(request: Request, pictures: Sequence[Mapping[str, Any]], system_turn: bool = True) -> list[dict[str, Any]]:
    """The messages of a request.

    A picture without a file is described in words. Without a `system_turn`, its text opens the user turn, so that the
    order of the whole stays the same.

    Args:
        pictures: content parts, passed on as they are, one for each picture that has a file, in their order.
    """
    shown = [source for source in request.images if source.image is not None]
    described = [f"{_label(source)}: {safe_line(source.text)}" for source in request.images if source.image is None]
    text = "\n".join([request.shared, *([DESCRIPTIONS, *described] if described else []), request.own])
    if system_turn:
        first, opening = [{"role": "system", "content": request.system}], ""
    else:
        first, opening = [], f"{request.system}\n"
    if pictures:
        named = [
            part
            for source, picture in zip(shown, pictures, strict=True)
            for part in (_text(_label(source)), dict(picture))
        ]
        content: Any = [*([_text(opening)] if opening else []), *named, _text(text)]
    else:  # text alone is no list with one part: models that only read text take nothing else
        content = f"{opening}{text}"
    return [*first, {"role": "user", "content": content}, *_repair(request)]


def pictures_in_words(request: Request) -> Request:
    """The same request for a model that reads no pictures: all of them are described."""
    if all(source.image is None for source in request.images):
        return request
    return replace(request, images=tuple(replace(source, image=None) for source in request.images))


def _repair(request: Request) -> list[dict[str, Any]]:
    if not request.correction:
        return []
    rejected = request.rejected if request.rejected.strip() else NO_REPLY
    return [{"role": "assistant", "content": rejected}, {"role": "user", "content": request.correction}]


def _label(source: Source) -> str:
    """The number by which the text refers to a picture, and its title."""
    return f"[{source.id}] {safe_line(source.title)}".rstrip()


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}
