"""A model behind an endpoint that speaks OpenAI's chat protocol: vLLM, Ray Serve LLM, Ollama, or a hosted one."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlsplit

import httpx2

from actors.backends.chat import SEEDS, chat
from actors.backends.data_url import data_url
from actors.backends.openai_reply import Closed, Fault, read_reply
from actors.backends.rate_limit import RateLimit
from actors.errors import ModelError, ModelGone
from actors.messages import Completion, Request, derive_seed
from actors.prompting.text import one_line

LOG = logging.getLogger(__name__)
CONNECT_S = 10.0
FIRST_PAUSE_S, FIRST_WAIT_S, LONGEST_PAUSE_S = 0.5, 2.0, 30.0
# The longest that a request waits in all for an endpoint that gets too many.
PATIENCE_S, PATIENCE_AT_START_S = 300.0, 30.0
RETRIES_AT_START = 2
LINE_CHARACTERS = 600
# A shorter key is a word such as EMPTY, for an endpoint that wants none, and may be part of replies.
KEY_CHARACTERS = 12
# Errors of chat templates that take no system turn beside pictures, such as Llama-3.2-Vision's.
NO_SYSTEM_TURN = re.compile(r"system[ _](message|prompt|role|turn|instruction)", re.IGNORECASE)
CHARACTERS_PER_TOKEN, TOKENS_PER_PICTURE = 3, 1000


@dataclass(slots=True)
class OpenAISettings:
    """An endpoint and how it is used. `base_url` goes up to and including the version: `http://host:8000/v1`.

    `timeout_s` is for one attempt, the reply read to its end; `retries` for attempts after one that met a fault (a
    rate limit is waited out and takes none of them). `extra` goes into the body of every request and wins over what
    is there; null takes a field out (`extra.seed=null`).
    """

    base_url: str
    name: str
    timeout_s: float = 120.0
    retries: int = 4
    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    extra: dict[str, Any] = field(default_factory=dict)
    key: str | None = field(default=None, repr=False)


class OpenAIModel:
    """One endpoint. Safe for any number of concurrent `complete` calls; callers bound them.

    Retries happen here and not in a client library, because each attempt counts against the rate limits, a wait that
    the endpoint asks for holds back all requests, and a reply that makes no sense is a fault like any other.
    """

    def __init__(self, settings: OpenAISettings) -> None:
        self.settings = settings
        self._key = (settings.key or "").strip()
        self._base = settings.base_url.rstrip("/")
        self._limit = RateLimit(settings.requests_per_minute, settings.tokens_per_minute)
        self._client: httpx2.AsyncClient | None = None
        self._missed_usage = False
        self._system_turn = True

    async def start(self) -> None:
        """Asks for a few tokens with the settings of every later request, so that mistakes show before the run.

        Raises ValueError, which names the request, the reply, and what to do.
        """
        self._check()
        # At DEBUG it logs the headers of responses, in which an endpoint may repeat what it was sent.
        logging.getLogger("httpcore2").setLevel(logging.INFO)
        self._client = httpx2.AsyncClient(
            headers={"Content-Type": "application/json"}
            | ({"Authorization": f"Bearer {self._key}"} if self._key else {}),
            # `_attempt` bounds the whole attempt; a read timeout would let an endpoint trickle for ever.
            timeout=httpx2.Timeout(None, connect=CONNECT_S),
            # Requests in flight are bounded by the pool's capacity; the client's own bound would only queue them.
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=100),
        )
        probe = Request(
            "start", "", "You are about to be asked questions.", "Are you ready?", "Say yes.", max_tokens=16
        )
        try:
            problem = (await self._answer(probe, self._body(probe), RETRIES_AT_START, PATIENCE_AT_START_S)).error
        except (ModelError, ModelGone) as error:
            problem = str(error)
        if problem:
            listed = await self._listed()
            await self.close()
            raise ValueError(
                f"{self._line(f'no reply from model {self.settings.name!r} at {self._base}: {problem}')}{listed}"
            )

    def _check(self) -> None:
        try:
            address = urlsplit(self._base)
            usable = address.scheme in ("http", "https") and address.hostname and (address.port or 80)
        except ValueError:
            usable = None
        if "@" in self._base or "?" in self._base:
            raise ValueError("base_url has a password or a query; a key goes into the variable that key_env names")
        if not usable or self._base.endswith("/completions"):
            raise ValueError(f"base_url={self._line(self._base)!r}: expected an address like http://host:8000/v1")
        if not self.settings.name:
            raise ValueError(f"name is empty: expected the model's name at {self._base}")
        if not self._key.isascii() or not self._key.isprintable() or " " in self._key:
            raise ValueError("the key has characters that no key has; check the variable that key_env names")
        if ours := sorted({"model", "messages", "stream", "n"} & self.settings.extra.keys()):
            raise ValueError(f"extra has {', '.join(ours)}, which cannot be chosen there")

    async def complete(self, request: Request) -> Completion:
        """Answers one request. One that the endpoint refuses gets a completion that says why.

        Cancelling the call closes its connection, on which servers stop generating.

        Raises:
            ModelError: all attempts met a fault.
            ModelGone: the endpoint takes nothing from this account any more, or is not there.
        """
        if self._client is None:
            raise RuntimeError("OpenAIModel.complete before start, or after close")
        # Templates that refuse a system turn do so beside pictures only; what the first refusal showed is remembered.
        system_turn = self._system_turn or not any(source.image for source in request.images)
        reply = await self._laid_out(request, system_turn)
        if system_turn and request.images and reply.stop == "error" and NO_SYSTEM_TURN.search(reply.error):
            without = await self._laid_out(request, False)
            if without.stop != "error":
                self._system_turn = False
                return without
        return reply

    async def _laid_out(self, request: Request, system_turn: bool) -> Completion:
        try:
            # Pictures are read and encoded, which would hold up the event loop.
            body = await asyncio.to_thread(self._body, request, system_turn)
        except (OSError, ValueError) as error:
            return Completion(request.id, "", stop="error", error=self._line(str(error)))
        return await self._answer(request, body, self.settings.retries, PATIENCE_S)

    def _body(self, request: Request, system_turn: bool = True) -> bytes:
        urls = [data_url(source) for source in request.images if source.image is not None]
        body = {
            "model": self.settings.name,
            "messages": chat(request, [{"type": "image_url", "image_url": {"url": url}} for url in urls], system_turn),
            "temperature": request.temperature,
            "max_tokens": request.max_tokens,
            "seed": request.seed % SEEDS,
            **self.settings.extra,
        }
        return json.dumps({name: value for name, value in body.items() if value is not None}).encode()

    async def _answer(self, request: Request, body: bytes, retries: int, patience_s: float) -> Completion:
        """The reply, after up to `retries` faults and `patience_s` seconds of waiting for a rate limit."""
        faults, waits, waited_s = 0, 0, 0.0
        while True:
            outcome = await self._attempt(request, body)
            if isinstance(outcome, Completion):
                return outcome
            if isinstance(outcome, Closed):
                raise ModelGone(self._line(f"{self._base}: {outcome.reason}"))
            if outcome.limited:
                pause_s = outcome.wait_s or growing(FIRST_WAIT_S, waits, request)
                waits, waited_s = waits + 1, waited_s + pause_s
                if waited_s > patience_s:
                    wish = f"; it asks to be left alone for {pause_s:.0f} s" if outcome.wait_s else ""
                    raise ModelError(self._line(f"{self._base} takes no more requests: {outcome.reason}{wish}"))
            else:
                pause_s = growing(FIRST_PAUSE_S, faults, request)
                faults += 1
                if faults > retries:
                    # With nobody there, all later requests would fail as this one, and be recorded as failed.
                    kind = ModelGone if outcome.unreachable else ModelError
                    raise kind(self._line(f"{self._base} failed {faults} times: {outcome.reason}"))
            LOG.info("%s: %s; asking again in %.1f s", request.id, self._line(outcome.reason), pause_s)
            if outcome.wait_s:
                self._limit.pause(pause_s)  # for all requests: the limit is the account's
            else:
                await asyncio.sleep(pause_s)

    async def _attempt(self, request: Request, body: bytes) -> Completion | Fault | Closed:
        admission = await self._limit.admit(estimated_tokens(request))
        client = self._client
        if client is None:
            raise ModelError(f"the connections to {self._base} were closed")
        try:
            async with asyncio.timeout(self.settings.timeout_s):
                response = await client.post(f"{self._base}/chat/completions", content=body)
        except TimeoutError:
            return Fault(f"no reply within {self.settings.timeout_s:g} s")
        except httpx2.RequestError as error:
            reason = f"{type(error).__name__}: {str(error) or 'no more is known'}"
            return Fault(reason, unreachable=isinstance(error, httpx2.ConnectError))
        content = response.content
        # Before it is parsed, so that the key is in no completion either.
        if len(self._key) >= KEY_CHARACTERS:
            content = content.replace(self._key.encode(), b"[key]")
        outcome = read_reply(request, response.status_code, response.headers, content, time.time())
        if not isinstance(outcome, Completion):
            return outcome
        if outcome.prompt_tokens and outcome.stop != "too_long":
            self._limit.correct(admission, outcome.prompt_tokens + outcome.completion_tokens)
        elif not outcome.error and not self._missed_usage:
            self._missed_usage = True
            LOG.warning("%s does not say how many tokens its replies took: they count as 0", self._base)
        return replace(outcome, error=self._line(outcome.error))

    async def _listed(self) -> str:
        """The models that the endpoint lists, where that explains why it did not answer; else nothing."""
        assert self._client is not None
        try:
            response = await self._client.get(f"{self._base}/models", timeout=CONNECT_S)
            names = sorted(str(model["id"]) for model in response.json()["data"])
        except (httpx2.RequestError, ValueError, LookupError, TypeError):
            return ""
        if not names or self.settings.name in names:
            return ""
        return " " + self._line(f"(it serves {', '.join(names[:8])}{' and others' if len(names) > 8 else ''})")

    def _line(self, text: str) -> str:
        """One line without the key: endpoints quote what they were sent, whole or with its middle starred out."""
        if self._key:
            text = text.replace(self._key, "[key]")
        # Endpoints quote a key as `sk-abc***wxyz`; its ends are secret, too.
        if len(self._key) >= KEY_CHARACTERS:
            text = re.sub(rf"\S*({re.escape(self._key[:6])}|{re.escape(self._key[-4:])})\S*", "[key]", text)
        return one_line(re.sub(r"\S*\*{3,}\S*", "[key]", text))[:LINE_CHARACTERS]

    async def close(self) -> None:
        """Closes the connections; requests in flight are lost. Closing twice does no harm."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()


def growing(first_s: float, number: int, request: Request) -> float:
    """A pause that doubles each time, and differs between requests so that they do not all come back at once."""
    spread = 0.75 + derive_seed(request.id, number) / 2**64
    return float(min(first_s * 2**number, LONGEST_PAUSE_S) * spread)


def estimated_tokens(request: Request) -> int:
    """The tokens that a request may take, for the rate limit, until its reply reports them."""
    characters = len(request.system) + len(request.shared) + len(request.own)
    return characters // CHARACTERS_PER_TOKEN + TOKENS_PER_PICTURE * len(request.images) + request.max_tokens
