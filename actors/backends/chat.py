"""Lays a request out as the messages of a chat, equally for every engine and endpoint.

System turn, then one user turn: pictures, each after its number and title, shared text, own text. A server can reuse
the common beginning. A repair follows: the rejected reply, and the correction.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from actors.messages import Request
from actors.pictures import data_url
from actors.prompting.safe_text import safe_line

# Some endpoints take no larger seed; engines get the same seeds, so that both answer alike.
SEEDS = 2**31
DESCRIPTIONS = "## What pictures without a file show"
PROBE = Request(id="", prefix="", system="Instruction", shared="Question", own="Role")
"""A request whose parts are recognisable in the output of a chat template."""
# Some templates refuse an assistant turn without text.
NO_REPLY = "(nothing)"


def chat(request: Request, pictures: Sequence[Mapping[str, Any]], system_turn: bool = True) -> list[dict[str, Any]]:
    """Returns the messages of a request.

    A picture without a file is described in words. Without a `system_turn`, its text opens the user turn. `pictures`
    are content parts, one for each picture with a file, in order.
    """
    labels = []
    descriptions = []
    for source in request.images:
        # The number by which the text refers to a picture, and its title.
        label = f"[{source.id}] {safe_line(source.title)}".rstrip()
        if source.image is None:
            descriptions.append(f"{label}: {safe_line(source.text)}")
        else:
            labels.append(label)
    if descriptions:
        descriptions.insert(0, DESCRIPTIONS)
    text = "\n".join([request.shared, *descriptions, request.own])

    messages: list[dict[str, Any]] = []
    opening = ""
    if system_turn:
        messages.append({"role": "system", "content": request.system})
    else:
        opening = f"{request.system}\n"
    content: str | list[dict[str, Any]]
    if pictures:
        content = []
        if opening:
            content.append(_text(opening))
        for label, picture in zip(labels, pictures, strict=True):
            content += [_text(label), dict(picture)]
        content.append(_text(text))
    else:  # text alone is no list with one part: models that only read text take nothing else
        content = f"{opening}{text}"
    messages.append({"role": "user", "content": content})
    if request.correction:
        rejected = request.rejected if request.rejected.strip() else NO_REPLY
        messages.append({"role": "assistant", "content": rejected})
        messages.append({"role": "user", "content": request.correction})
    return messages


def pictures_in_words(request: Request, limit: int | None = 0) -> Request:
    """Returns the request for a model that reads at most `limit` pictures. Further ones are described."""
    if limit is None:
        return request
    images = []
    for source in request.images:
        if source.image is not None:
            if limit > 0:
                limit -= 1
            else:
                source = replace(source, image=None)
        images.append(source)
    return replace(request, images=tuple(images))


def picture_urls(request: Request) -> list[dict[str, Any]]:
    """Reads a request's picture files as content parts. Raises OSError, which names the picture that cannot be read."""
    paths = [source.image for source in request.images if source.image is not None]
    return [{"type": "image_url", "image_url": {"url": data_url(path)}} for path in paths]


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}
