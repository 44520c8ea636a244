"""Lays a request out as the messages of a chat, in one way for every engine and endpoint.

System turn, then one user turn: pictures, shared text, own text. Agents share what comes first, so that the server can
reuse its prefix.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from actors.messages import Request
from actors.prompting.text import one_line

# Some endpoints take no larger seed; engines get the same ones, so that both answer alike.
SEEDS = 2**31
DESCRIPTIONS = "## What pictures without a file show"


def chat(request: Request, pictures: Sequence[Mapping[str, Any]], system_turn: bool = True) -> list[dict[str, Any]]:
    """The messages of a request.

    A picture without a file is described in words. Without a `system_turn`, its text opens the user turn, so that the
    order of the whole stays the same.

    Args:
        pictures: content parts, passed on as they are, one for each picture that has a file.
    """
    described = [f"[{source.id}] {one_line(source.text)}" for source in request.images if source.image is None]
    text = "\n".join([request.shared, *([DESCRIPTIONS, *described] if described else []), request.own])
    if system_turn:
        first, opening = [{"role": "system", "content": request.system}], ""
    else:
        first, opening = [], f"{request.system}\n"
    if not pictures:  # text alone is no list with one part: models that only read text take nothing else
        return [*first, {"role": "user", "content": f"{opening}{text}"}]
    before = [{"type": "text", "text": opening}] if opening else []
    return [*first, {"role": "user", "content": [*before, *pictures, {"type": "text", "text": text}]}]
