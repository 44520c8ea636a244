"""Lays an AutoGen conversation out as one request, whose beginning a prefix cache serves, and converts pictures."""

import hashlib
import json
import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from autogen_core import Image
from autogen_core.models import AssistantMessage, LLMMessage, SystemMessage, UserMessage
from PIL import Image as Pillow

from actors.messages import Kind, Request, Source
from actors.pictures import read_picture
from actors.prompting.prompt import QUESTION
from actors.prompting.tool_text import INSTRUCTIONS, MESSAGE, TOOL_CALL, TOOL_RESULT, call_line

_HEADING = re.compile(r"^(?=## )", re.MULTILINE)


class SourceImage(Image):
    """One of our pictures as an AutoGen image, opened when it is read. Our models get its source."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self._opened: Pillow.Image | None = None

    @property
    def image(self) -> Pillow.Image:  # type: ignore[override]
        if self._opened is None:
            if self.source.image is None:
                raise FileNotFoundError(f"picture {self.source.id} has no file")
            self._opened = read_picture(self.source.image)
        return self._opened


def source_of(image: Image) -> Source:
    """Returns a picture's source. A new one has a file named after its content, which is written once."""
    if isinstance(image, SourceImage):
        return image.source
    pixels = image.image
    digest = hashlib.blake2b(f"{pixels.mode}{pixels.size}".encode() + pixels.tobytes(), digest_size=16).hexdigest()
    # The user's folder, kept between processes: replicas on this machine read the file later.
    folder = Path(tempfile.gettempdir()) / f"agora-pictures-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)  # everybody may read /tmp
    path = folder / f"{digest}.png"
    if not path.exists():
        # Renamed when complete: other processes may read or write the same picture.
        written, name = tempfile.mkstemp(dir=path.parent, suffix=".png")
        with os.fdopen(written, "wb") as file:
            pixels.save(file, format="PNG")
        os.replace(name, path)
    identity = f"picture-{digest[:8]}"
    return Source(identity, identity, Kind.IMAGE, "", "", str(path))


def task_text(request: Request) -> str:
    """Returns a request as one message, for agents with their own client."""
    return f"{request.system}\n{request.shared}\n{request.own}"


def laid_out(messages: Sequence[LLMMessage], own: Sequence[str], task: Request | None = None) -> Request:
    """Returns a conversation as a request, without seed and limits.

    System messages become `system`, the user's first message becomes `shared`, and the rest follows `own`, sections
    about the form of the reply. A conversation that opens with `task` keeps that request's system, shared and own part.
    """
    system = "\n".join(message.content for message in messages if isinstance(message, SystemMessage))
    later = [message for message in messages if not isinstance(message, SystemMessage)]
    opening = ""
    images: list[Source] = []
    if later and isinstance(first := later[0], UserMessage):
        opening, later = _text(first, images), later[1:]
    rest = [_section(message, images) for message in later]
    # Only an equal text shares the cached prefix.
    if task is not None and opening == task_text(task):
        instructions = [f"{INSTRUCTIONS}\n{_plain(system)}"] if system else []
        pictures = dict.fromkeys((*task.images, *images))
        return replace(task, own="\n".join((task.own, *instructions, *own, *rest)), images=tuple(pictures))
    shared = opening if _HEADING.search(opening) else f"{QUESTION}\n{opening}"
    digest = hashlib.blake2b("\x1f".join((shared, *(image.id for image in images))).encode(), digest_size=8).hexdigest()
    pictures = dict.fromkeys(images)
    return Request("chat", digest, system, shared, "\n".join((*own, *rest)), tuple(pictures))


def _section(message: LLMMessage, images: list[Source]) -> str:
    """One message as a section. Its pictures are added to `images`."""
    if isinstance(message, SystemMessage):
        return f"{INSTRUCTIONS}\n{_plain(message.content)}"
    if isinstance(message, UserMessage):
        return f"{MESSAGE}\n[{message.source}] {_plain(_text(message, images))}"
    if isinstance(message, AssistantMessage):
        thought = f"{MESSAGE}\n[you] {_plain(message.thought)}\n" if message.thought else ""
        if isinstance(message.content, str):
            return f"{thought}{MESSAGE}\n[you] {_plain(message.content)}"
        calls = "\n".join(call_line(call.name, _arguments(call.arguments)) for call in message.content)
        return f"{thought}{TOOL_CALL}\n{calls}"
    results = (f"[{r.name}] {'Error: ' if r.is_error else ''}{_plain(r.content)}" for r in message.content)
    return f"{TOOL_RESULT}\n" + "\n".join(results)


def _text(message: UserMessage, images: list[Source]) -> str:
    """Returns the text of a message, with the ids of its pictures in place."""
    if isinstance(message.content, str):
        return message.content
    sources = [part if isinstance(part, str) else source_of(part) for part in message.content]
    images += [part for part in sources if isinstance(part, Source)]
    # The request has all pictures: those at the end need no place in the text.
    while sources and isinstance(sources[-1], Source):
        sources.pop()
    return "\n".join(part if isinstance(part, str) else f"[{part.id}]" for part in sources)


def _plain(text: str) -> str:
    """The text with headings indented, so that none is taken for the request's."""
    return _HEADING.sub(" ", text)


def _arguments(text: str) -> Mapping[str, Any]:
    try:
        arguments = json.loads(text)
    except ValueError:
        return {}
    return arguments if isinstance(arguments, dict) else {}
