"""Sends requests to an endpoint with OpenAI's chat protocol, within its rate limits, and again after a fault."""

import asyncio
import json
import logging
import time
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

import httpx2

from actors.backends.model_settings import ModelSettings
from actors.backends.openai_layout import Layout, Outcome
from actors.backends.openai_reply import EndpointFault, Why, read_reply
from actors.backends.rate_limit import RateLimit
from actors.backends.redaction import Redaction
from actors.errors import ModelError
from actors.http_client import NoResponse, fetch, open_client
from actors.messages import Completion, Request, derive_seed

LOG = logging.getLogger(__name__)
FIRST_PAUSE_S = 0.5
FIRST_WAIT_S = 2.0  # for a rate limit
LONGEST_PAUSE_S = 30.0
CHARACTERS_PER_TOKEN = 3
TOKENS_PER_PICTURE = 1000
SLOW = "a slow server needs a larger timeout_s, or a smaller capacity where it answers few requests at once"
NOT_FROM_SETTINGS = {"model", "messages", "stream", "n"}  # fields that `extra` may not have


def check_endpoint(settings: ModelSettings, key: str) -> None:
    """Raises ValueError for settings or a key that no endpoint can have."""
    base = settings.base_url
    if "@" in base or "?" in base:
        raise ValueError("base_url has a password or a query; put the key into the variable that key_env names")
    try:
        address = urlsplit(base)
        is_usable = address.scheme in ("http", "https") and bool(address.hostname) and address.port != 0
    except ValueError:
        is_usable = False
    if not is_usable or base.rstrip("/").endswith("/completions"):
        redacted_address = Redaction(key).line(base)
        raise ValueError(f"base_url={redacted_address!r}: expected an address like http://host:8000/v1")
    if not settings.name:
        raise ValueError(f"name is empty: expected the model's name at {base}")
    if not key.isascii() or not key.isprintable() or " " in key:
        raise ValueError("the key has characters that no key has; check the variable that key_env names")
    if not_allowed := sorted(NOT_FROM_SETTINGS & settings.extra.keys()):
        raise ValueError(f"extra has {', '.join(not_allowed)}, which cannot be set there")


class Endpoint:
    """The connection to one endpoint.

    Retries happen here and not in a client library: each attempt counts against the rate limits, and a requested wait
    delays all requests.

    replies: number of the endpoint's replies so far.
    """

    def __init__(self, settings: ModelSettings, key: str) -> None:
        self.replies = 0
        self._settings = settings
        self._key = key
        self._redaction = Redaction(key)
        self.line = self._redaction.line
        self._limit = RateLimit(settings.requests_per_minute, settings.tokens_per_minute)
        self._client: httpx2.AsyncClient | None = None
        self._missed_usage = False
        self._served: set[tuple[str, str, str]] = set()

    @property
    def is_open(self) -> bool:
        return self._client is not None

    def open(self) -> None:
        """Raises ValueError for settings that no endpoint can have, and NoResponse where no connection can be made."""
        check_endpoint(self._settings, self._key)
        headers = {}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        self._client = open_client(headers)

    async def close(self) -> None:
        """Closes the connections; requests in flight are lost. Closing twice does no harm."""
        client = self._client
        self._client = None
        if client is not None:
            await client.aclose()

    def expect(self, served: tuple[str, str, str]) -> None:
        """Warns from now on of replies that name another model."""
        self._served.add(served)

    async def answer(self, request: Request, layout: Layout, retries: int, patience_s: float) -> Outcome:
        """Returns the reply, after up to `retries` faults. Waits `patience_s` seconds at most for a rate limit."""
        try:
            # Reading and encoding pictures would block the event loop.
            body = await asyncio.to_thread(lambda: json.dumps(layout.body(request, self._settings)).encode())
        except (OSError, ValueError) as error:
            return Completion(request.id, "", stop="error", error=self.line(str(error)))

        faults = 0
        waits = 0
        waited_s = 0.0
        while True:
            outcome = await self._attempt(request, layout, body)
            if isinstance(outcome, Completion) or outcome.why in (Why.REFUSED, Why.CLOSED):
                return outcome

            if outcome.why is Why.LIMITED:
                first_s = FIRST_WAIT_S if outcome.wait_s is None else FIRST_PAUSE_S
                # Growing in any case: with a tiny Retry-After the number of requests would have no bound.
                pause_s = max(outcome.wait_s or 0.0, growing(first_s, waits, request))
                waits += 1
                waited_s += pause_s
                if waited_s > patience_s:
                    wish = f"; it asks for a pause of {pause_s:.0f} s" if outcome.wait_s else ""
                    return replace(outcome, reason=f"{outcome.reason}{wish}")
            else:
                pause_s = growing(FIRST_PAUSE_S, faults, request)
                faults += 1
                if faults > retries:
                    return replace(outcome, reason=f"{outcome.reason} (failed {faults} times at {layout.base})")

            LOG.info("%s: %s; asking again in %.1f s", request.id, self.line(outcome.reason), pause_s)
            if outcome.wait_s:
                self._limit.pause(pause_s)  # for all requests: the limit is the account's
            else:
                await asyncio.sleep(pause_s)

    async def _attempt(self, request: Request, layout: Layout, body: bytes) -> Outcome:
        admission = await self._limit.admit(estimated_tokens(request))
        if self._client is None:
            raise ModelError(f"the connections to {layout.base} were closed")
        url = f"{layout.base}/chat/completions"
        try:
            response = await fetch(self._client, "POST", url, body, self._settings.timeout_s)
        except NoResponse as error:
            why = Why.UNREACHABLE if error.unreachable else Why.PASSING
            reason = str(error)
            if isinstance(error.__cause__, TimeoutError):
                reason = f"{reason}; {SLOW}"
            return EndpointFault(why, reason)
        # Reading and redacting a long reply would block the event loop.
        outcome = await asyncio.to_thread(read_reply, request, *response, time.time(), self._redaction.text)
        if isinstance(outcome, EndpointFault):
            return outcome

        self.replies += 1
        if outcome.prompt_tokens:
            self._limit.correct(admission, outcome.prompt_tokens + outcome.completion_tokens)
        elif not outcome.error and not self._missed_usage:
            self._missed_usage = True
            LOG.warning("%s does not report the tokens of its replies: they count as 0", layout.base)
        if self._served and not outcome.error and outcome.served not in self._served:
            self._served.add(outcome.served)
            LOG.warning("another model answers at %s: %s", layout.base, " ".join(filter(None, outcome.served)))
        return replace(outcome, error=self.line(outcome.error))

    async def models(self, base: str) -> list[dict[str, Any]]:
        """Returns the models that the endpoint lists, each with its `id`. None where the list has another form."""
        if self._client is None:
            return []
        try:
            _, _, content = await fetch(self._client, "GET", f"{base}/models")
            return [model for model in json.loads(content)["data"] if isinstance(model["id"], str)]
        except (NoResponse, RecursionError, ValueError, LookupError, TypeError):
            return []


def growing(first_s: float, number: int, request: Request) -> float:
    """Returns a pause that doubles each time. It varies by request, so that not all return at once."""
    factor = 0.75 + derive_seed(request.id, number) / 2**64
    return float(min(first_s * 2**number, LONGEST_PAUSE_S) * factor)


def estimated_tokens(request: Request) -> int:
    """Estimates the tokens of a request, for the rate limit, until its reply reports them."""
    texts = (request.system, request.shared, request.own, request.rejected, request.correction)
    characters = sum(map(len, texts))
    return characters // CHARACTERS_PER_TOKEN + TOKENS_PER_PICTURE * len(request.images) + request.max_tokens
