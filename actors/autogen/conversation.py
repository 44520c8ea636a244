"""Lays a conversation of AutoGen's out as one request, so that a prefix cache serves its beginning."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from autogen_core.models import AssistantMessage, LLMMessage, SystemMessage, UserMessage

from actors.autogen.pictures import source_of
from actors.messages import Request, Source
from actors.prompting.prompt import QUESTION
from actors.prompting.tool_text import INSTRUCTIONS, MESSAGE, TOOL_CALL, TOOL_RESULT, call_line

_HEADING = re.compile(r"^(?=## )", re.MULTILINE)


def task_text(request: Request) -> str:
    """The text of a request as one message, for agents that bring their own client."""
    return f"{request.system}\n{request.shared}\n{request.own}"


def laid_out(messages: Sequence[LLMMessage], own: Sequence[str], task: Request | None = None) -> Request:
    """A conversation as a request, without seed and limits; `own` are sections about how to reply.

    The system messages are `system`, the first message of a user is `shared` (as the question, unless it has headings
    of its own), and the rest follows `own` in order. A conversation that opens with `task` keeps that request's
    system, shared and own part, and its system messages come after them.
    """
    system = "\n".join(message.content for message in messages if isinstance(message, SystemMessage))
    later = [message for message in messages if not isinstance(message, SystemMessage)]
    opening = ""
    images: list[Source] = []
    if later and isinstance(first := later[0], UserMessage):
        opening, later = _text(first, images), later[1:]
    rest = [_section(message, images) for message in later]
    # Only to the letter: anything else would not share the cached prefix.
    if task is not None and opening == task_text(task):
        instructions = [f"{INSTRUCTIONS}\n{_plain(system)}"] if system else []
        # Each picture once, in order.
        pictures = dict.fromkeys((*task.images, *images))
        return replace(task, own="\n".join((task.own, *instructions, *own, *rest)), images=tuple(pictures))
    shared = opening if _HEADING.search(opening) else f"{QUESTION}\n{opening}"
    digest = hashlib.blake2b("\x1f".join((shared, *(image.id for image in images))).encode(), digest_size=8).hexdigest()
    pictures = dict.fromkeys(images)
    # The client sets the id, the seed and the limits.
    return Request("chat", digest, system, shared, "\n".join((*own, *rest)), tuple(pictures))


def _section(message: LLMMessage, images: list[Source]) -> str:
    """One message as a section; pictures in it join `images`."""
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
    """The text of a message; its pictures are named where they stood, unless all of them follow the text."""
    if isinstance(message.content, str):
        return message.content
    sources = [part if isinstance(part, str) else source_of(part) for part in message.content]
    images += [part for part in sources if isinstance(part, Source)]
    # The request has the pictures anyway: those at the end stood in no place that has to be named.
    while sources and isinstance(sources[-1], Source):
        sources.pop()
    return "\n".join(part if isinstance(part, str) else f"[{part.id}]" for part in sources)


def _plain(text: str) -> str:
    """The text with headings indented, so that no line of it can pass for one of the request's."""
    return _HEADING.sub(" ", text)


def _arguments(text: str) -> Mapping[str, Any]:
    try:
        # Another client's model may have written anything here.
        arguments = json.loads(text)
    except ValueError:
        return {}
    return arguments if isinstance(arguments, dict) else {}
