"""Tests the abilities of a model behind an endpoint, with one small request for each.

A model lacks an ability whose request the endpoint refuses or ignores. A persistent fault is an error.
"""

from __future__ import annotations

import asyncio
import json
import re
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

from PIL import Image

from actors.errors import ModelError
from actors.messages import Completion, Kind, Request, Source

Ask = Callable[[Request], Awaitable[Completion]]

READY = Request("start", "", "You are about to be asked questions.", "Are you ready?", "Say yes.", max_tokens=16)
# Uses all features of the schemas of replies: an endpoint that accepts this one accepts those of turns.
SCHEMA = {
    "type": "object",
    "properties": {
        "colour": {"type": "string", "enum": ["red", "green", "blue"]},
        "share": {"anyOf": [{"type": "number", "minimum": 0, "maximum": 1}, {"type": "null"}]},
        "numbers": {
            "type": "array",
            "items": {"type": "integer", "minimum": 1, "maximum": 999},
            "minItems": 1,
            "maxItems": 2,
        },
        "calls": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"tool": {"type": "string", "enum": ["texts", "web"]}, "query": {"type": "string"}},
                "required": ["tool", "query"],
                "additionalProperties": False,
            },
            "maxItems": 1,
        },
    },
    "required": ["colour", "share", "numbers", "calls"],
    "additionalProperties": False,
}
# A small model may write blanks or numbers without end: then the beginning of the reply is enough.
BEGINNING = re.compile(r'\s*\{\s*(?:$|"colour"\s*:\s*"(?:red|green|blue)"\s*,)')
SCHEMA_TOKENS = 48
# For a model that thinks before it answers.
THINKING_TOKENS = 2048
PICTURE_SIDE = 32
# Some servers fail with 5xx instead of 4xx (llama.cpp for pictures: "image input is not supported").
UNSUPPORTED = re.compile(r"not support|unsupported|multimodal", re.IGNORECASE)


async def reads_pictures(ask: Ask) -> bool:
    """Tests whether a picture is accepted. One that is silently ignored passes, too."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "red.png"
        await asyncio.to_thread(Image.new("RGB", (PICTURE_SIDE, PICTURE_SIDE), "red").save, path)
        picture = Source("1", "1", Kind.IMAGE, "Picture", "", str(path))
        reply = await _asked(ask, replace(READY, id="start/pictures", images=(picture,)))
    # "Too long" for a picture of a thousand pixels is no reply either.
    return reply is not None and reply.stop in ("stop", "length")


async def follows_schemas(ask: Ask) -> bool:
    """Tests whether a model that is asked to say yes replies in JSON where a schema demands it."""
    request = replace(READY, id="start/schema", schema=json.dumps(SCHEMA), max_tokens=SCHEMA_TOKENS)
    reply = await _asked(ask, request)
    if reply is None or reply.stop == "error":
        return False
    if reply.stop == "length":
        return BEGINNING.match(reply.text) is not None
    try:
        said = json.loads(reply.text)
    except ValueError:
        return False
    return isinstance(said, dict) and said.keys() == SCHEMA["properties"].keys()  # type: ignore[attr-defined]


async def returns_likelihoods(ask: Ask) -> bool:
    """Tests whether replies come with their tokens' probabilities."""
    reply = await _asked(ask, replace(READY, id="start/likelihoods", likelihoods=True))
    return reply is not None and bool(reply.tokens)


async def _asked(ask: Ask, request: Request) -> Completion | None:
    """The reply; None where the endpoint's error shows that it will never give one."""
    try:
        reply = await ask(request)
        if reply.stop == "length" and not reply.text:
            reply = await ask(replace(request, max_tokens=THINKING_TOKENS))
    except ModelError as error:
        if UNSUPPORTED.search(str(error)):
            return None
        raise
    return reply
