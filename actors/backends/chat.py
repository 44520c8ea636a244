"""Lays a request out as the messages of a chat, equally for every engine and endpoint.

System turn, then one user turn: pictures, each after its number and title, shared text, own text. Agents share the
beginning, so that the server can reuse its prefix. A repair follows: the rejected reply, and the correction.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from PIL import Image

from actors.messages import Request, Source
from actors.prompting.safe_text import safe_line

# Some endpoints take no larger seed; engines get the same seeds, so that both answer alike.
SEEDS = 2**31
DESCRIPTIONS = "## What pictures without a file show"
PROBE = Request(id="", prefix="", system="Instruction", shared="Question", own="Role")
"""A request whose parts are recognisable in the output of a chat template."""
# Some templates refuse an assistant turn without text.
NO_REPLY = "(nothing)"
SENT_UNCHANGED = {"PNG": "image/png", "JPEG": "image/jpeg", "WEBP": "image/webp", "GIF": "image/gif"}
# In base64 just under 10 MB, the lowest known limit of an endpoint for one picture.
LARGEST_BYTES = 7_000_000
LONGEST_SIDE = 2048


def chat(request: Request, pictures: Sequence[Mapping[str, Any]], system_turn: bool = True) -> list[dict[str, Any]]:
    """Returns the messages of a request.

    A picture without a file is described in words. Without a `system_turn`, its text opens the user turn, so that the
    order of the whole stays the same.

    Args:
        pictures: content parts, passed on unchanged, one for each picture with a file, in order.
    """
    shown = [source for source in request.images if source.image is not None]
    described = [f"{_label(source)}: {safe_line(source.text)}" for source in request.images if source.image is None]
    text = "\n".join([request.shared, *([DESCRIPTIONS, *described] if described else []), request.own])
    messages: list[dict[str, Any]] = [{"role": "system", "content": request.system}] if system_turn else []
    opening = "" if system_turn else f"{request.system}\n"
    if pictures:
        named = [
            part
            for source, picture in zip(shown, pictures, strict=True)
            for part in (_text(_label(source)), dict(picture))
        ]
        content: Any = [*([_text(opening)] if opening else []), *named, _text(text)]
    else:  # text alone is no list with one part: models that only read text take nothing else
        content = f"{opening}{text}"
    messages.append({"role": "user", "content": content})
    if request.correction:
        rejected = request.rejected if request.rejected.strip() else NO_REPLY
        messages.append({"role": "assistant", "content": rejected})
        messages.append({"role": "user", "content": request.correction})
    return messages


def pictures_in_words(request: Request) -> Request:
    """Returns the request for a model that reads no pictures: every picture is described."""
    if all(source.image is None for source in request.images):
        return request
    return replace(request, images=tuple(replace(source, image=None) for source in request.images))


def data_url(source: Source) -> str:
    """Encodes a picture's file as a data URL, unchanged where endpoints read its format, else as PNG.

    A picture that is too large is scaled down and sent as JPEG.

    Raises:
        OSError: the picture cannot be read; the error names it.
    """
    assert source.image is not None
    try:
        with Image.open(source.image) as picture, open(source.image, "rb") as file:
            content, kind = file.read(), SENT_UNCHANGED.get(picture.format or "")
            if kind is None:
                content, kind = _encoded(picture, "PNG"), "image/png"
            if len(content) > LARGEST_BYTES:
                picture.thumbnail((LONGEST_SIDE, LONGEST_SIDE))
                content, kind = _encoded(picture, "JPEG"), "image/jpeg"
    except (OSError, ValueError, Image.DecompressionBombError) as error:
        raise OSError(f"picture {source.doc!r} cannot be read: {error}") from error
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


def _encoded(picture: Image.Image, form: str) -> bytes:
    buffer = io.BytesIO()
    picture.convert("RGB").save(buffer, form)  # JPEG has neither palettes nor transparency
    return buffer.getvalue()


def _label(source: Source) -> str:
    """The number by which the text refers to a picture, and its title."""
    return f"[{source.id}] {safe_line(source.title)}".rstrip()


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}
