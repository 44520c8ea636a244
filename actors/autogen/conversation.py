"""Lays an AutoGen conversation out as one request, whose beginning a prefix cache serves.

Tools are listed in the prompt and called in the reply, as plain text. Pictures are converted.
"""

import hashlib
import json
import os
import re
import tempfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from autogen_core import Image
from autogen_core.models import AssistantMessage, LLMMessage, SystemMessage, UserMessage
from PIL import Image as Pillow

from actors.messages import Kind, Request, Source
from actors.own_folder import own_folder
from actors.pictures import read_picture
from actors.prompting.prompt import QUESTION
from actors.whole_files import whole_file

TOOLS = "## Tools"
TOOL_CALL = "## Tool call"
TOOL_RESULT = "## Tool result"
INSTRUCTIONS = "## Instructions"
FORMAT = "## Format"
MESSAGE = "## Message"
CALL = "Call:"

_HOW = f"""Before you answer you may use these tools. To use some, reply with nothing else but one line for each call:
{CALL} {{"tool": "<its name>", "arguments": {{<its arguments as JSON>}}}}
What they return is then shown to you. Where nothing more has to be looked up, answer as you were asked to."""
_MUST = f"""Now use one of these tools: reply with nothing but one line for each call:
{CALL} {{"tool": "<its name>", "arguments": {{<its arguments as JSON>}}}}"""

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
    """Returns a picture's source. A new one has a file named after its content, which is written once.

    Raises OSError where the folder of these files could be another user's.
    """
    if isinstance(image, SourceImage):
        return image.source
    pixels = image.image
    digest = hashlib.blake2b(f"{pixels.mode}{pixels.size}".encode() + pixels.tobytes(), digest_size=16).hexdigest()
    # The user's folder, kept between processes: replicas on this machine read the file later.
    folder = own_folder(Path(tempfile.gettempdir()) / f"agora-pictures-{os.getuid()}", "TMPDIR")
    path = folder / f"{digest}.png"
    if not path.exists():
        with whole_file(path) as unfinished:
            pixels.save(unfinished, format="PNG")
    identity = f"picture-{digest[:8]}"
    return Source(identity, identity, Kind.IMAGE, "", "", str(path))


def task_text(request: Request) -> str:
    """Returns a request as one message, for agents with their own client."""
    return f"{request.system}\n{request.shared}\n{request.own}"


def laid_out(messages: Sequence[LLMMessage], form: Sequence[str], task: Request | None = None) -> Request:
    """Returns a conversation as a request, without seed and limits.

    System messages become `system`, the user's first message becomes `shared`, and the rest follows `form`, sections
    about the form of the reply. A conversation that opens with `task` keeps that request's system, shared and own part.
    """
    system = "\n".join(message.content for message in messages if isinstance(message, SystemMessage))
    conversation = [message for message in messages if not isinstance(message, SystemMessage)]
    opening = ""
    images: list[Source] = []
    if conversation and isinstance(conversation[0], UserMessage):
        opening = _text(conversation[0], images)
        del conversation[0]
    sections = [*form, *(_section(message, images) for message in conversation)]
    # Only an equal text shares the cached prefix.
    if task is not None and opening == task_text(task):
        if system:
            sections.insert(0, f"{INSTRUCTIONS}\n{_indented(system)}")
        pictures = dict.fromkeys((*task.images, *images))
        return replace(task, own="\n".join((task.own, *sections)), images=tuple(pictures))

    shared = opening if _HEADING.search(opening) else f"{QUESTION}\n{opening}"
    identity = "\x1f".join((shared, *(image.id for image in images)))
    return Request(
        id="chat",
        prefix=hashlib.blake2b(identity.encode(), digest_size=8).hexdigest(),
        system=system,
        shared=shared,
        own="\n".join(sections),
        images=tuple(dict.fromkeys(images)),
    )


def _section(message: LLMMessage, images: list[Source]) -> str:
    """One message as a section. Its pictures are added to `images`."""
    if isinstance(message, SystemMessage):
        return f"{INSTRUCTIONS}\n{_indented(message.content)}"
    if isinstance(message, UserMessage):
        return f"{MESSAGE}\n[{message.source}] {_indented(_text(message, images))}"
    if isinstance(message, AssistantMessage):
        thought = ""
        if message.thought:
            thought = f"{MESSAGE}\n[you] {_indented(message.thought)}\n"
        if isinstance(message.content, str):
            return f"{thought}{MESSAGE}\n[you] {_indented(message.content)}"
        lines = [f"{thought}{TOOL_CALL}"]
        for call in message.content:
            try:
                arguments = json.loads(call.arguments)
            except ValueError:
                arguments = {}
            lines.append(call_line(call.name, arguments if isinstance(arguments, dict) else {}))
        return "\n".join(lines)
    lines = [TOOL_RESULT]
    for result in message.content:
        error = "Error: " if result.is_error else ""
        lines.append(f"[{result.name}] {error}{_indented(result.content)}")
    return "\n".join(lines)


def _text(message: UserMessage, images: list[Source]) -> str:
    """Returns the text of a message, with the ids of its pictures in place."""
    if isinstance(message.content, str):
        return message.content
    lines = []
    length = 0
    for part in message.content:
        if isinstance(part, str):
            lines.append(part)
            length = len(lines)
        else:
            source = source_of(part)
            images.append(source)
            lines.append(f"[{source.id}]")
    # The request has all pictures: those at the end need no place in the text.
    return "\n".join(lines[:length])


def _indented(text: str) -> str:
    """The text with headings indented, so that none is taken for the request's."""
    return _HEADING.sub(" ", text)


def tools_part(tools: Sequence[Mapping[str, Any]], required: bool = False) -> str:
    """Writes the section of tools. A tool's line is `[name] description`, a space, the schema of its arguments as JSON.

    tools: `name`, and where there are any `description` and `parameters`, a JSON schema.
    """
    lines = [TOOLS, _MUST if required else _HOW]
    for tool in tools:
        # Sorted keys: equal tools give equal prompts, and so equal seeds and cached completions.
        schema = json.dumps(tool.get("parameters", {}), sort_keys=True, ensure_ascii=False)
        # One line a tool however its description is laid out, since the list is read line by line.
        lines.append(f"[{tool['name']}] {' '.join(tool.get('description', '').split())} {schema}")
    return "\n".join(lines)


def call_line(tool: str, arguments: Mapping[str, Any]) -> str:
    """Writes a call as `parse_calls` reads it."""
    return f"{CALL} {json.dumps({'tool': tool, 'arguments': arguments}, ensure_ascii=False)}"


def parse_calls(text: str, names: Collection[str]) -> tuple[str, tuple[tuple[str, Mapping[str, Any]], ...]]:
    """Returns the text before the calls, and (tool, arguments) of each. No calls where anything about them is wrong.

    A reply that names an unknown tool, has broken JSON, or goes on after its calls is plain text: no call is made up
    from half of one.
    """
    # Models put calls in code fences without being asked to.
    lines = [line for line in text.strip().splitlines() if not line.strip().startswith("```")]
    call_numbers = [number for number, line in enumerate(lines) if line.strip().startswith(CALL)]
    if not call_numbers:
        return text, ()
    thought = "\n".join(lines[: call_numbers[0]]).strip()
    rest = "\n".join(lines[call_numbers[0] :]).strip()
    decoder = json.JSONDecoder()
    calls = []
    while rest:
        if not rest.startswith(CALL):
            return text, ()
        rest = rest.removeprefix(CALL).lstrip()
        try:
            # Not line by line: a model may write the arguments on several lines.
            parsed, end = decoder.raw_decode(rest)
        except (ValueError, RecursionError):  # the latter for brackets that are nested too deeply
            return text, ()
        if not isinstance(parsed, dict) or parsed.keys() != {"tool", "arguments"}:
            return text, ()
        tool = parsed["tool"]
        arguments = parsed["arguments"]
        if not isinstance(tool, str) or tool not in names or not isinstance(arguments, dict):
            return text, ()
        calls.append((tool, arguments))
        rest = rest[end:].lstrip()
    return thought, tuple(calls)
