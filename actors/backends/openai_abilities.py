"""Tests the abilities of an endpoint's model with tiny requests."""

import json
import re
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

from PIL import Image

from actors.backends.openai_layout import PARTS, Ask, Layout, Outcome
from actors.backends.openai_reply import EndpointFault
from actors.errors import ModelError
from actors.messages import Completion, Field, FieldKind, Kind, Request, Source, Value
from actors.prompting.form import Form, schema

READY = Request("start", "", "You are about to be asked questions.", "Are you ready?", "Say yes.")
# Makes a prompt longer by this number of words.
LONGER = "Please say so. " * 13
LONGER_WORDS = 40
PICTURE_SIDE = 224
MOST_PICTURES = 20  # that are tried
# Uses all features of the schemas of replies: an endpoint that accepts this one accepts those of turns.
SCHEMA = schema(
    Form(
        (
            Field(FieldKind.ACTION, "", ("red", "green", "blue"), label="Colour"),
            Field(FieldKind.CONFIDENCE, "", value=Value.SHARE, optional=True, label="Share"),
            Field(FieldKind.SELECTED, "", value=Value.NUMBERS, most=2, label="Numbers"),
            Field(
                FieldKind.STEP,
                "",
                many=True,
                optional=True,
                most=1,
                tools=("texts", "web"),
                value=Value.CALL,
                label="Calls",
            ),
        )
    )
)
# A small model may write blanks or numbers without end: then the beginning of the reply is enough.
BEGINNING = re.compile(r'\s*\{\s*(?:$|"colour"\s*:\s*"(?:red|green|blue)"\s*,)')
SCHEMA_TOKENS = 48
THINKING_TOKENS = 2048


async def count_pictures(
    fitted: Callable[[Request], Awaitable[Outcome]], ready: Request, pictures: int
) -> tuple[int, str]:
    """Returns how many of so many `pictures` an endpoint takes at once, and why no more.

    A picture that is silently ignored counts, too. Raises ModelError where the endpoint does not answer.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "red.png"
        Image.new("RGB", (PICTURE_SIDE, PICTURE_SIDE), "red").save(path)
        sources = []
        for number in range(1, pictures + 1):
            sources.append(Source(str(number), str(number), Kind.IMAGE, "Picture", "", str(path)))

        limit = 0
        too_many = pictures + 1
        number = pictures
        refusal = None
        while too_many - limit > 1:
            outcome = await fitted(replace(ready, id=f"start/pictures/{number}", images=tuple(sources[:number])))
            if isinstance(outcome, Completion):
                limit = number
            else:
                too_many = number
                refusal = outcome
            # Few endpoints take some pictures and not all: one is tried before numbers in between.
            number = 1 if number == pictures else (limit + too_many) // 2

    if refusal is None:
        return limit, ""
    if not refusal.depends_on_request:
        raise ModelError(refusal.reason)
    return limit, refusal.reason


async def follows_schemas(ask: Ask, ready: Request, layout: Layout) -> tuple[bool, str]:
    """Tests whether a model replies in JSON where a schema demands it. Returns a refusal's reason too."""
    request = replace(ready, id="start/schema", schema=SCHEMA, max_tokens=SCHEMA_TOKENS)
    outcome = await _ask(ask, request, layout)
    if isinstance(outcome, EndpointFault):
        return False, outcome.reason
    if outcome.stop == "length":
        return BEGINNING.match(outcome.text) is not None, ""
    try:
        reply = json.loads(outcome.text)
    except ValueError:
        return False, ""
    return isinstance(reply, dict) and reply.keys() == json.loads(SCHEMA)["properties"].keys(), ""


async def returns_likelihoods(ask: Ask, ready: Request, layout: Layout, ready_tokens: int) -> tuple[bool, str, bool]:
    """Tests whether replies come with their tokens' probabilities. Returns a refusal's reason too, and whether the
    chat template drops a question that is sent as text, and reads lists of parts alone.

    ready_tokens: of `ready` as a prompt. The prompt of this test is longer, unless its text is dropped.
    """
    longer = replace(ready, id="start/likelihoods", shared=f"{ready.shared} {LONGER}")
    outcome = await _ask(ask, replace(longer, likelihoods=True), layout)
    if isinstance(outcome, EndpointFault):
        return False, outcome.reason, False
    tokens = outcome.prompt_tokens
    drops_text = False
    if tokens and ready_tokens and tokens - ready_tokens < LONGER_WORDS // 2:
        in_parts = await ask(longer, layout.changed(PARTS))
        drops_text = isinstance(in_parts, Completion) and in_parts.prompt_tokens - tokens >= LONGER_WORDS // 2
    return bool(outcome.tokens), "", drops_text


async def _ask(ask: Ask, request: Request, layout: Layout) -> Outcome:
    """Returns the reply, or the fault of an endpoint that will never give one. Raises ModelError where it may."""
    outcome = await ask(request, layout)
    if isinstance(outcome, Completion) and outcome.stop == "length" and not outcome.text:
        outcome = await ask(replace(request, max_tokens=THINKING_TOKENS), layout)
    if isinstance(outcome, EndpointFault) and not outcome.depends_on_request:
        raise ModelError(outcome.reason)
    return outcome
