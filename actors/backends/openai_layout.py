"""Writes requests as bodies of OpenAI's protocol, in the layout that one endpoint takes."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from actors.backends.chat import SEEDS, chat, picture_urls, pictures_in_words
from actors.backends.model_settings import ModelSettings, thinking_arguments
from actors.backends.openai_reply import PROMPT_REFUSED, EndpointFault
from actors.messages import Request

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

    base: the address with the version. changes: names in `CHANGES`.
    most_pictures: of one request (None: any number); further ones are described in words.
    """

    base: str
    changes: frozenset[str] = frozenset()
    most_pictures: int | None = None

    def changed(self, name: str) -> "Layout":
        """Returns the layout with one more change."""
        base = f"{self.base}/v1" if name == VERSION else self.base
        return replace(self, base=base, changes=self.changes | {name})

    def without(self, name: str) -> "Layout":
        """Returns the layout with one change taken back."""
        base = self.base.removesuffix("/v1") if name == VERSION else self.base
        return replace(self, base=base, changes=self.changes - {name})

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
    if layout.base == settings.base_url.rstrip("/") and not re.search(r"/v\d", layout.base):
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
