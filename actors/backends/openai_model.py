"""A model behind an endpoint that speaks OpenAI's chat protocol: vLLM, Ray Serve LLM, Ollama, or a hosted one."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlsplit

import httpx2

from actors.backends.chat import SEEDS, chat, pictures_in_words
from actors.backends.data_url import data_url
from actors.backends.openai_probes import READY, Ask, keeps_to_schemas, reads_pictures, tells_likelihoods
from actors.backends.openai_reply import Closed, Fault, counted, read_reply
from actors.backends.rate_limit import RateLimit
from actors.backends.redaction import Redaction
from actors.backends.settings import DeclaredAbilities
from actors.errors import ModelError, ModelGone
from actors.messages import Abilities, Completion, Request, derive_seed

LOG = logging.getLogger(__name__)
CONNECT_S = 10.0
FIRST_PAUSE_S, FIRST_WAIT_S, LONGEST_PAUSE_S = 0.5, 2.0, 30.0
# The longest that a request waits in all for an endpoint that gets too many.
PATIENCE_S, PATIENCE_AT_START_S = 300.0, 30.0
RETRIES_AT_START = 2
# More than any reply has, with its likelihoods: a body without end must not fill the memory.
BODY_BYTES = 32_000_000
# Errors of chat templates that take no system turn (Gemma's), or none beside pictures (Llama-3.2-Vision's).
NO_SYSTEM_TURN = re.compile(r"system[ _](message|prompt|role|turn|instruction)", re.IGNORECASE)
CHARACTERS_PER_TOKEN, TOKENS_PER_PICTURE = 3, 1000


@dataclass(slots=True)
class OpenAISettings:
    """An endpoint and how it is used. `base_url` goes up to and including the version: `http://host:8000/v1`.

    `timeout_s` is for one attempt, the reply read to its end; `retries` for attempts after one that met a fault (a
    rate limit is waited out and takes none of them). `extra` goes into the body of every request and wins over what
    is there; null takes a field out (`extra.seed=null`). `abilities` are those that need not be found out.
    """

    base_url: str
    name: str
    timeout_s: float = 120.0
    retries: int = 4
    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    extra: dict[str, Any] = field(default_factory=dict)
    abilities: DeclaredAbilities = field(default_factory=DeclaredAbilities)
    key: str | None = field(default=None, repr=False)


class OpenAIModel:
    """One endpoint. Safe for any number of concurrent `complete` calls; callers bound them.

    Retries happen here and not in a client library, because each attempt counts against the rate limits, a wait that
    the endpoint asks for holds back all requests, and a reply that makes no sense is a fault like any other.
    """

    def __init__(self, settings: OpenAISettings) -> None:
        self.settings = settings
        self._key = (settings.key or "").strip()
        self._redaction = Redaction(self._key)
        self._base = settings.base_url.rstrip("/")
        self._limit = RateLimit(settings.requests_per_minute, settings.tokens_per_minute)
        self._client: httpx2.AsyncClient | None = None
        self._missed_usage = False
        declared = settings.abilities.system_turn
        # Without pictures (False) and beside them (True): some templates refuse one only there.
        self._system_turn = dict.fromkeys((False, True), declared is not False)
        self._abilities: Abilities | None = None

    async def start(self) -> None:
        """Asks for a few tokens with the settings of every later request, so that mistakes show before the run, and
        then finds out what the model can do.

        Raises ValueError, which names the request, the reply, and what to do.
        """
        self._check()
        # At DEBUG it logs the headers of responses, in which an endpoint may repeat what it was sent.
        logging.getLogger("httpcore2").setLevel(logging.INFO)
        self._client = httpx2.AsyncClient(
            # Not compressed: a few bytes of a compressed body can become any number.
            headers={"Content-Type": "application/json", "Accept-Encoding": "identity"}
            | ({"Authorization": f"Bearer {self._key}"} if self._key else {}),
            # `_attempt` bounds the whole attempt; a read timeout would let an endpoint trickle for ever.
            timeout=httpx2.Timeout(None, connect=CONNECT_S),
            # Requests in flight are bounded by the pool's capacity; the client's own bound would only queue them. Each
            # has a connection of its own: on one that is used again, a reply that a proxy sends twice would be taken
            # for that to the next request.
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=0),
        )
        try:
            problem = (await self._probe(READY)).error
            if not problem:
                self._abilities = await self._find_abilities()
        except (ModelError, ModelGone) as error:
            problem = str(error)
        if problem:
            listed = self._others_listed(await self._models())
            await self.close()
            raise ValueError(
                f"{self._line(f'no reply from model {self.settings.name!r} at {self._base}: {problem}')}{listed}"
            )

    async def abilities(self) -> Abilities:
        """What the model can do, as declared or found out at the start."""
        if self._abilities is None:
            raise RuntimeError("OpenAIModel.abilities before start")
        # A template may turn out later to take no system turn.
        return self.settings.abilities.over(replace(self._abilities, system_turn=self._system_turn[False]))

    async def _find_abilities(self) -> Abilities:
        declared = self.settings.abilities
        # All at once: an endpoint may take long for each.
        pictures, schema, likelihoods, context_tokens = await asyncio.gather(
            _unless_declared(declared.pictures, reads_pictures, self._probe),
            _unless_declared(declared.schema, keeps_to_schemas, self._probe),
            _unless_declared(declared.likelihoods, tells_likelihoods, self._probe),
            self._context_tokens(),
        )
        # Every request has a seed, unless it is taken out.
        seeds = self.settings.extra.get("seed", 0) is not None
        return Abilities(pictures, schema, likelihoods, seeds=seeds, context_tokens=context_tokens)

    async def _probe(self, request: Request) -> Completion:
        return await self._asked(request, RETRIES_AT_START, PATIENCE_AT_START_S)

    async def _context_tokens(self) -> int | None:
        """The context that the endpoint lists for the model, as vLLM's server does."""
        if self.settings.abilities.context_tokens is not None:
            return None
        for model in await self._models():
            if model["id"] == self.settings.name and (tokens := counted(model.get("max_model_len"))):
                return tokens
        return None

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
        return await self._asked(request, self.settings.retries, PATIENCE_S)

    async def _asked(self, request: Request, retries: int, patience_s: float) -> Completion:
        if self._abilities is not None and not (await self.abilities()).pictures:
            request = pictures_in_words(request)
        # What the first refusal showed is remembered.
        pictures = any(source.image for source in request.images)
        system_turn = self._system_turn[pictures]
        reply = await self._laid_out(request, system_turn, retries, patience_s)
        if system_turn and reply.stop == "error" and NO_SYSTEM_TURN.search(reply.error):
            without = await self._laid_out(request, False, retries, patience_s)
            if without.stop != "error":
                self._system_turn[pictures] = False
                return without
        return reply

    async def _laid_out(self, request: Request, system_turn: bool, retries: int, patience_s: float) -> Completion:
        try:
            # Pictures are read and encoded, which would hold up the event loop.
            body = await asyncio.to_thread(self._body, request, system_turn)
        except (OSError, ValueError) as error:
            return Completion(request.id, "", stop="error", error=self._line(str(error)))
        return await self._answer(request, body, retries, patience_s)

    def _body(self, request: Request, system_turn: bool) -> bytes:
        urls = [data_url(source) for source in request.images if source.image is not None]
        body = {
            "model": self.settings.name,
            "messages": chat(request, [{"type": "image_url", "image_url": {"url": url}} for url in urls], system_turn),
            "temperature": request.temperature,
            "max_tokens": request.max_tokens,
            "seed": request.seed % SEEDS,
            **(_constraint(request.schema) if request.schema else {}),
            **({"logprobs": True} if request.likelihoods else {}),
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
                response = await _fetched(client, "POST", f"{self._base}/chat/completions", body)
        except TimeoutError:
            return Fault(f"no reply within {self.settings.timeout_s:g} s")
        except _TooMuch as error:
            return Fault(str(error))
        except httpx2.RequestError as error:
            reason = f"{type(error).__name__}: {str(error) or 'no more is known'}"
            return Fault(reason, unreachable=isinstance(error, httpx2.ConnectError))
        # Reading and redacting a long reply would hold up the event loop.
        outcome = await asyncio.to_thread(
            read_reply,
            request,
            response.status,
            response.headers,
            response.content,
            time.time(),
            self._redaction.text,
        )
        if not isinstance(outcome, Completion):
            return outcome
        if outcome.prompt_tokens and outcome.stop != "too_long":
            self._limit.correct(admission, outcome.prompt_tokens + outcome.completion_tokens)
        elif not outcome.error and not self._missed_usage:
            self._missed_usage = True
            LOG.warning("%s does not say how many tokens its replies took: they count as 0", self._base)
        return replace(outcome, error=self._line(outcome.error))

    async def _models(self) -> list[dict[str, Any]]:
        """The models that the endpoint lists, each with its `id`; none where it lists none in the usual form."""
        assert self._client is not None
        try:
            async with asyncio.timeout(CONNECT_S):
                response = await _fetched(self._client, "GET", f"{self._base}/models")
            return [model for model in json.loads(response.content)["data"] if isinstance(model["id"], str)]
        except (httpx2.RequestError, TimeoutError, _TooMuch, RecursionError, ValueError, LookupError, TypeError):
            return []

    def _others_listed(self, models: Sequence[Mapping[str, Any]]) -> str:
        """The models that the endpoint has, where that explains why it did not answer; else nothing."""
        names = sorted(model["id"] for model in models)
        if not names or self.settings.name in names:
            return ""
        return " " + self._line(f"(it serves {', '.join(names[:8])}{' and others' if len(names) > 8 else ''})")

    def _line(self, text: str) -> str:
        """One line without the key: endpoints quote what they were sent, whole or with its middle starred out."""
        return self._redaction.line(text)

    async def close(self) -> None:
        """Closes the connections; requests in flight are lost. Closing twice does no harm."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()


@dataclass(frozen=True, slots=True)
class _Response:
    status: int
    headers: Mapping[str, str]
    content: bytes


class _TooMuch(Exception):
    """A body that is longer than any reply, or that is compressed although it was not to be."""


async def _fetched(client: httpx2.AsyncClient, method: str, url: str, body: bytes | None = None) -> _Response:
    """A response with its whole body. Raises _TooMuch, TimeoutError where the caller sets one, and RequestError."""
    async with client.stream(method, url, content=body) as response:
        if (encoding := response.headers.get("content-encoding", "identity")) != "identity":
            raise _TooMuch(f"the reply is compressed ({encoding[:40]}), which it was asked not to be")
        content = bytearray()
        async for part in response.aiter_raw():
            content += part
            if len(content) > BODY_BYTES:
                raise _TooMuch(f"the reply has more than {BODY_BYTES:,} bytes and was cut off")
        return _Response(response.status_code, response.headers, bytes(content))


async def _unless_declared(declared: bool | None, find: Callable[[Ask], Awaitable[bool]], ask: Ask) -> bool:
    return await find(ask) if declared is None else declared


def _constraint(schema: str) -> dict[str, Any]:
    """The field of a request that keeps the reply to a JSON schema."""
    named = {"name": "reply", "strict": True, "schema": json.loads(schema)}
    return {"response_format": {"type": "json_schema", "json_schema": named}}


def growing(first_s: float, number: int, request: Request) -> float:
    """A pause that doubles each time, and differs between requests so that they do not all come back at once."""
    spread = 0.75 + derive_seed(request.id, number) / 2**64
    return float(min(first_s * 2**number, LONGEST_PAUSE_S) * spread)


def estimated_tokens(request: Request) -> int:
    """The tokens that a request may take, for the rate limit, until its reply reports them."""
    parts = request.system, request.shared, request.own, request.rejected, request.correction
    characters = sum(map(len, parts))
    return characters // CHARACTERS_PER_TOKEN + TOKENS_PER_PICTURE * len(request.images) + request.max_tokens
