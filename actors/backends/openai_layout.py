"""Finds the layout of requests that an endpoint takes, and its model's abilities.

Both are tested with tiny requests. From a refusal one field at a time is left out, renamed or moved until the endpoint
answers. No wording of a refusal counts.
"""

import json
import re
import tempfile
from collections.abc import Awaitable, Callable, Container, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from PIL import Image

from actors.backends.chat import SEEDS, chat, picture_urls, pictures_in_words
from actors.backends.model_settings import ModelSettings, thinking_arguments
from actors.backends.openai_reply import PROMPT_REFUSED, EndpointFault
from actors.errors import ModelError
from actors.messages import Completion, Field, FieldKind, Kind, Request, Source, Value
from actors.prompting.form import Form, schema

VERSION, SYSTEM, SYSTEM_WITH_PICTURES, PARTS = "base_url", "system_turn", "system_turn_with_pictures", "content"
# What can differ in the requests to an endpoint, with the setting that says so.
CHANGES: Mapping[str, str] = {
    VERSION: "base_url={base}",
    SYSTEM: "abilities.system_turn=false",
    "max_tokens": "extra.max_tokens=null extra.max_completion_tokens={max_tokens}",
    "temperature": "extra.temperature=null",
    "seed": "extra.seed=null",
    "chat_template_kwargs": "extra.chat_template_kwargs=null",
    "reasoning_effort": "extra.reasoning_effort=null",
    SYSTEM_WITH_PICTURES: "abilities.system_turn=false",
    PARTS: "texts as lists of parts",
}
ROLE = re.compile(r"\b(?:system|roles?)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Layout:
    """Writes requests for one endpoint.

    root: the address as it was set. changes: names in `CHANGES`.
    most_pictures: of one request (None: any number); further ones are described in words.
    """

    root: str
    changes: frozenset[str] = frozenset()
    most_pictures: int | None = None

    @property
    def base(self) -> str:
        """The address with the version."""
        return f"{self.root}/v1" if VERSION in self.changes else self.root

    def changed(self, name: str) -> "Layout":
        """Returns the layout with one more change."""
        return replace(self, changes=self.changes | {name})

    def body(self, request: Request, settings: ModelSettings) -> dict[str, Any]:
        """Returns a request's body. Raises OSError, which names the picture, where one cannot be read."""
        request = pictures_in_words(request, self.most_pictures)
        pictures = picture_urls(request)
        system_turn = SYSTEM not in self.changes and not (pictures and SYSTEM_WITH_PICTURES in self.changes)
        messages = chat(request, pictures, system_turn)
        for message in messages if PARTS in self.changes else ():  # some chat templates read only lists
            if isinstance(text := message["content"], str):
                message["content"] = [{"type": "text", "text": text}]
        schema = {"name": "reply", "strict": True, "schema": json.loads(request.schema or "{}")}
        limit = "max_completion_tokens" if "max_tokens" in self.changes else "max_tokens"
        body = {
            "model": settings.name,
            "messages": messages,
            "temperature": request.temperature,
            limit: request.max_tokens,
            "seed": request.seed % SEEDS,
            **thinking_arguments(settings.thinking),
            **({"response_format": {"type": "json_schema", "json_schema": schema}} if request.schema else {}),
            **({"logprobs": True} if request.likelihoods else {}),
            **settings.extra,
        }
        left_out = self.changes - {"max_tokens"}
        return {name: value for name, value in body.items() if value is not None and name not in left_out}


def possible_changes(request: Request, settings: ModelSettings, layout: Layout, fault: EndpointFault) -> list[str]:
    """Lists the changes that could help against a refusal. Those whose field it names come first."""
    able = []
    if VERSION not in layout.changes and not re.search(r"/v\d", layout.base):
        able.append(VERSION)
    if fault.status in PROMPT_REFUSED or fault.status >= 500:
        sent = {"temperature", "max_tokens", "seed", *thinking_arguments(settings.thinking)} - settings.extra.keys()
        if settings.abilities.system_turn is None and SYSTEM not in layout.changes:
            sent.add(SYSTEM_WITH_PICTURES if request.images else SYSTEM)
        able += [name for name in CHANGES if name in sent - layout.changes]
    return sorted(able, key=lambda name: not is_named(name, fault))


def is_named(name: str, fault: EndpointFault) -> bool:
    """True for a field, or a role, that the endpoint's refusal names."""
    pattern = ROLE if name in (SYSTEM, SYSTEM_WITH_PICTURES) else re.compile(rf"\b{re.escape(name)}\b")
    return pattern.search(fault.reason) is not None


Outcome = Completion | EndpointFault
Ask = Callable[[Request, Layout], Awaitable[Outcome]]

READY = Request("start", "", "You are about to be asked questions.", "Are you ready?", "Say yes.")
FEW_TOKENS = 16
MORE_WORDS = 40  # that a longer prompt has
PICTURE_SIDE = 224
MOST_PICTURES = 20  # that are tried
# Uses all features of the schemas of replies: an endpoint that accepts this one accepts those of turns.
SCHEMA = schema(
    Form(
        (
            Field(FieldKind.ACTION, "", ("red", "green", "blue"), label="Colour"),
            Field(FieldKind.CONFIDENCE, "", value=Value.SHARE, optional=True, label="Share"),
            Field(FieldKind.SELECTED, "", value=Value.NUMBERS, most=2, label="Numbers"),
            Field(FieldKind.STEP, "", (), True, True, 1, ("texts", "web"), Value.CALL, "Calls"),
        )
    )
)
# A small model may write blanks or numbers without end: then the beginning of the reply is enough.
BEGINNING = re.compile(r'\s*\{\s*(?:$|"colour"\s*:\s*"(?:red|green|blue)"\s*,)')
SCHEMA_TOKENS = 48
THINKING_TOKENS = 2048


async def adapt(
    ask: Ask,
    request: Request,
    settings: ModelSettings,
    layout: Layout,
    fault: EndpointFault,
    only: Container[str] = CHANGES,
) -> tuple[Completion, dict[str, EndpointFault]] | None:
    """Searches for the fewest changes, of those in `only`, with which a refused request is answered.

    A change that brings another fault is a step on the way. Returns the reply, and the fault that each change has
    cured;
    None where no changes help.
    """
    cured: dict[str, EndpointFault] = {}
    seen, now = {_stable(fault)}, layout
    reply: Outcome = fault
    while isinstance(reply, EndpointFault):
        if not reply.depends_on_request:
            return None
        for change in possible_changes(request, settings, now, reply):
            if change not in only:
                continue
            if change == "max_tokens" and isinstance(
                await ask(replace(request, max_tokens=FEW_TOKENS), now), Completion
            ):
                continue  # the endpoint knows the field, and the number is too large
            other = await ask(request, now.changed(change))
            if isinstance(other, Completion) or _stable(other) not in seen:
                cured[change], reply, now = reply, other, now.changed(change)
                seen.add(_stable(other) if isinstance(other, EndpointFault) else "")
                break
        else:
            return None
    # A step may have changed nothing but the words of the fault.
    for change in list(cured) if len(cured) > 1 else ():
        fewer = replace(now, changes=now.changes - {change})
        if isinstance(again := await ask(request, fewer), Completion):
            reply, now = again, fewer
            del cured[change]
    return reply, cured


def _stable(fault: EndpointFault) -> str:
    return re.sub(r"\S*\d\S*", "", fault.reason)


async def count_pictures(fitted: Callable[[Request], Awaitable[Outcome]], ready: Request, most: int) -> tuple[int, str]:
    """Returns how many of `most` pictures an endpoint takes at once, and why no more.

    A picture that is silently ignored counts, too. Raises ModelError where the endpoint does not answer.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "red.png"
        Image.new("RGB", (PICTURE_SIDE, PICTURE_SIDE), "red").save(path)
        pictures = tuple(Source(f"{n + 1}", f"{n + 1}", Kind.IMAGE, "Picture", "", str(path)) for n in range(most))
        taken, too_many, number, refused = 0, most + 1, most, None
        while too_many - taken > 1:
            outcome = await fitted(replace(ready, id=f"start/pictures/{number}", images=pictures[:number]))
            if isinstance(outcome, Completion):
                taken = number
            else:
                too_many, refused = number, outcome
            number = 1 if number == most else (taken + too_many) // 2
    if refused and not refused.depends_on_request:
        raise ModelError(refused.reason)
    return taken, refused.reason if refused else ""


async def follows_schemas(ask: Ask, ready: Request, layout: Layout) -> tuple[bool, str]:
    """Tests whether a model replies in JSON where a schema demands it. Returns a refusal's reason too."""
    reply = await _asked(ask, replace(ready, id="start/schema", schema=SCHEMA, max_tokens=SCHEMA_TOKENS), layout)
    if isinstance(reply, EndpointFault):
        return False, reply.reason
    if reply.stop == "length":
        return BEGINNING.match(reply.text) is not None, ""
    try:
        said = json.loads(reply.text)
    except ValueError:
        return False, ""
    return isinstance(said, dict) and said.keys() == json.loads(SCHEMA)["properties"].keys(), ""


async def returns_likelihoods(ask: Ask, ready: Request, layout: Layout, ready_tokens: int) -> tuple[bool, str, bool]:
    """Tests whether replies come with their tokens' probabilities. Returns a refusal's reason too, and whether the
    chat template drops a question that is sent as text, and reads lists of parts alone.

    ready_tokens: of `ready` as a prompt. The prompt of this test is longer, unless its text is dropped.
    """
    longer = replace(ready, id="start/likelihoods", shared=f"{ready.shared} {'Please say so. ' * (MORE_WORDS // 3)}")
    reply = await _asked(ask, replace(longer, likelihoods=True), layout)
    if isinstance(reply, EndpointFault):
        return False, reply.reason, False
    tokens, drops = reply.prompt_tokens, False
    if tokens and ready_tokens and tokens - ready_tokens < MORE_WORDS // 2:
        as_parts = await ask(longer, layout.changed(PARTS))
        drops = isinstance(as_parts, Completion) and as_parts.prompt_tokens - tokens >= MORE_WORDS // 2
    return bool(reply.tokens), "", drops


async def _asked(ask: Ask, request: Request, layout: Layout) -> Outcome:
    """The reply, or the fault of an endpoint that will never give one. Raises ModelError where it may."""
    reply = await ask(request, layout)
    if isinstance(reply, Completion) and reply.stop == "length" and not reply.text:
        reply = await ask(replace(request, max_tokens=THINKING_TOKENS), layout)
    if isinstance(reply, EndpointFault) and not reply.depends_on_request:
        raise ModelError(reply.reason)
    return reply
