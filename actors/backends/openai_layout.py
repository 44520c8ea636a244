"""Writes the requests that an endpoint takes, and finds their layout.

From a refusal one field at a time is left out, renamed or moved until the endpoint answers. No wording of a refusal
counts.
"""

import json
import re
from collections.abc import Awaitable, Callable, Container, Mapping
from dataclasses import dataclass, replace
from typing import Any

from actors.backends.chat import SEEDS, chat, picture_urls, pictures_in_words
from actors.backends.model_settings import ModelSettings, thinking_arguments
from actors.backends.openai_reply import PROMPT_REFUSED, EndpointFault
from actors.messages import Completion, Request

VERSION = "base_url"
SYSTEM = "system_turn"
SYSTEM_WITH_PICTURES = "system_turn_with_pictures"
PARTS = "content"
MAX_TOKENS = "max_tokens"
# Parts of a request that differ between endpoints, with the setting of each.
CHANGES: Mapping[str, str] = {
    VERSION: "base_url={base}",
    SYSTEM: "abilities.system_turn=false",
    MAX_TOKENS: "extra.max_tokens=null extra.max_completion_tokens={max_tokens}",
    "temperature": "extra.temperature=null",
    "seed": "extra.seed=null",
    "chat_template_kwargs": "extra.chat_template_kwargs=null",
    "reasoning_effort": "extra.reasoning_effort=null",
    SYSTEM_WITH_PICTURES: "abilities.system_turn=false",
    PARTS: "texts as lists of parts",
}
FEW_TOKENS = 16
_ROLE = re.compile(r"\b(?:system|roles?)\b", re.IGNORECASE)

Outcome = Completion | EndpointFault


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
        max_tokens = "max_completion_tokens" if MAX_TOKENS in self.changes else MAX_TOKENS
        body: dict[str, Any] = {
            "model": settings.name,
            "messages": self._messages(pictures_in_words(request, self.most_pictures)),
            "temperature": request.temperature,
            max_tokens: request.max_tokens,
            "seed": request.seed % SEEDS,
            **thinking_arguments(settings.thinking),
        }
        if request.schema:
            schema = {"name": "reply", "strict": True, "schema": json.loads(request.schema)}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        if request.likelihoods:
            body["logprobs"] = True
        body |= settings.extra
        omitted = self.changes - {MAX_TOKENS}
        return {name: value for name, value in body.items() if value is not None and name not in omitted}

    def _messages(self, request: Request) -> list[dict[str, Any]]:
        pictures = picture_urls(request)
        has_system_turn = SYSTEM not in self.changes
        if pictures and SYSTEM_WITH_PICTURES in self.changes:
            has_system_turn = False
        messages = chat(request, pictures, has_system_turn)
        if PARTS in self.changes:  # some chat templates read only lists
            for message in messages:
                if isinstance(message["content"], str):
                    message["content"] = [{"type": "text", "text": message["content"]}]
        return messages


Ask = Callable[[Request, Layout], Awaitable[Outcome]]


def possible_changes(request: Request, settings: ModelSettings, layout: Layout, fault: EndpointFault) -> list[str]:
    """Lists the changes that could help against a refusal. Those whose field it names come first."""
    candidates = set()
    if fault.status in PROMPT_REFUSED or fault.status >= 500:
        candidates = {"temperature", MAX_TOKENS, "seed", *thinking_arguments(settings.thinking)} - settings.extra.keys()
        if settings.abilities.system_turn is None and SYSTEM not in layout.changes:
            system = SYSTEM_WITH_PICTURES if request.images else SYSTEM
            candidates.add(system)
    if not re.search(r"/v\d", layout.base):
        candidates.add(VERSION)
    changes = [name for name in CHANGES if name in candidates - layout.changes]
    return sorted(changes, key=lambda name: not is_named(name, fault))


def is_named(name: str, fault: EndpointFault) -> bool:
    """True for a field, or a role, that the endpoint's refusal names."""
    if name in (SYSTEM, SYSTEM_WITH_PICTURES):
        return _ROLE.search(fault.reason) is not None
    return re.search(rf"\b{re.escape(name)}\b", fault.reason) is not None


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
    cured; None where no changes help.
    """
    cured: dict[str, EndpointFault] = {}
    known_reasons = {_without_numbers(fault)}
    outcome: Outcome = fault
    while isinstance(outcome, EndpointFault):
        if not outcome.depends_on_request:
            return None
        for change in possible_changes(request, settings, layout, outcome):
            if change not in only:
                continue
            if change == MAX_TOKENS and isinstance(
                await ask(replace(request, max_tokens=FEW_TOKENS), layout), Completion
            ):
                continue  # the endpoint knows the field, and the number is too large
            next_outcome = await ask(request, layout.changed(change))
            if isinstance(next_outcome, EndpointFault):
                reason = _without_numbers(next_outcome)
                if reason in known_reasons:
                    continue
                known_reasons.add(reason)
            cured[change] = outcome
            layout = layout.changed(change)
            outcome = next_outcome
            break
        else:
            return None

    # A step may have changed nothing but the words of the fault.
    if len(cured) > 1:
        for change in list(cured):
            smaller = replace(layout, changes=layout.changes - {change})
            repeated = await ask(request, smaller)
            if isinstance(repeated, Completion):
                outcome = repeated
                layout = smaller
                del cured[change]
    return outcome, cured


def _without_numbers(fault: EndpointFault) -> str:
    return re.sub(r"\S*\d\S*", "", fault.reason)
