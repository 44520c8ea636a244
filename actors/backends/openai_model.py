"""A model behind an endpoint with OpenAI's chat protocol: vLLM's server, Ray Serve LLM, Ollama, or a hosted one."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

import httpx2
from pydantic import SecretStr

from actors.backends.chat import SEEDS, chat, pictures_in_words
from actors.backends.model_settings import ModelSettings
from actors.backends.openai_probes import READY, Ask, follows_schemas, reads_pictures, returns_likelihoods
from actors.backends.openai_reply import EndpointFault, counted, read_reply
from actors.backends.rate_limit import RateLimit
from actors.backends.redaction import Redaction
from actors.errors import ModelError, ModelGone
from actors.messages import Abilities, Completion, Request, derive_seed
from actors.pictures import data_url

LOG = logging.getLogger(__name__)
CONNECT_S = 10.0
FIRST_PAUSE_S, FIRST_WAIT_S, LONGEST_PAUSE_S = 0.5, 2.0, 30.0
# Longest total wait of a request for an endpoint that limits its rate.
PATIENCE_S, PATIENCE_AT_START_S = 300.0, 30.0
RETRIES_AT_START = 2
# More than any reply with its likelihoods: a body without end must not fill the memory.
BODY_BYTES = 32_000_000
# Errors of chat templates without a system turn (Gemma's), or without one when there are pictures (Llama-3.2-Vision's).
NO_SYSTEM_TURN = re.compile(r"system[ _](message|prompt|role|turn|instruction)", re.IGNORECASE)
CHARACTERS_PER_TOKEN, TOKENS_PER_PICTURE = 3, 1000


class OpenAIModel:
    """One endpoint. Safe for any number of concurrent `complete` calls; callers bound them.

    Retries happen here and not in a client library, because each attempt counts against the rate limits, a requested
    wait delays all requests, and a malformed reply is a fault like any other.
    """

    def __init__(self, settings: ModelSettings, key: SecretStr | None = None) -> None:
        self.settings = settings
        self._key = key.get_secret_value().strip() if key else ""
        self._redaction = Redaction(self._key)
        self._line = self._redaction.line
        self._base = settings.base_url.rstrip("/")
        self._limit = RateLimit(settings.requests_per_minute, settings.tokens_per_minute)
        self._client: httpx2.AsyncClient | None = None
        self._missed_usage = False
        declared = settings.abilities.system_turn
        # Without pictures (False) and with pictures (True): some templates refuse a system turn only then.
        self._system_turn = dict.fromkeys((False, True), declared is not False)
        self._abilities: Abilities | None = None

    async def start(self) -> None:
        """Requests a few tokens with the settings of every later request, then tests the model's abilities.

        Raises:
            ValueError: the endpoint does not answer; the error names the reason and the remedy.
        """
        self._check()
        # At DEBUG it logs the headers of responses, in which an endpoint may repeat the key.
        logging.getLogger("httpcore2").setLevel(logging.INFO)
        self._client = httpx2.AsyncClient(
            # Uncompressed: a few bytes of a compressed body can become any number.
            headers={"Content-Type": "application/json", "Accept-Encoding": "identity"}
            | ({"Authorization": f"Bearer {self._key}"} if self._key else {}),
            # `_attempt` bounds the whole attempt; a read timeout would let an endpoint send slowly for ever.
            timeout=httpx2.Timeout(None, connect=CONNECT_S),
            # The pool's capacity bounds the requests in flight. No connection is reused: a reply that a proxy sends
            # twice would be taken for the next request's.
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=0),
        )
        try:
            problem = (await self._probe(READY)).error
            if not problem:
                self._abilities = await self._find_abilities()
        except (ModelError, ModelGone) as error:
            problem = str(error)
        if problem:
            names = sorted(model["id"] for model in await self._models())
            await self.close()
            line = self._line(f"no reply from model {self.settings.name!r} at {self._base}: {problem}")
            if names and self.settings.name not in names:
                others = f"{', '.join(names[:8])}{' and others' if len(names) > 8 else ''}"
                line = f"{line} {self._line(f'(it serves {others})')}"
            raise ValueError(line)

    async def abilities(self) -> Abilities:
        """Returns the model's abilities, as declared or as tested at the start."""
        if self._abilities is None:
            raise RuntimeError("OpenAIModel.abilities before start")
        # A template may reject a system turn later.
        return self.settings.abilities.over(replace(self._abilities, system_turn=self._system_turn[False]))

    async def _find_abilities(self) -> Abilities:
        declared = self.settings.abilities
        # Concurrently: an endpoint may take long for each.
        pictures, schema, likelihoods, context_tokens = await asyncio.gather(
            _unless_declared(declared.pictures, reads_pictures, self._probe),
            _unless_declared(declared.schema, follows_schemas, self._probe),
            _unless_declared(declared.likelihoods, returns_likelihoods, self._probe),
            self._context_tokens(),
        )
        # Every request has a seed, unless `extra` removes it.
        seeds = self.settings.extra.get("seed", 0) is not None
        return Abilities(pictures, schema, likelihoods, seeds=seeds, context_tokens=context_tokens)

    async def _probe(self, request: Request) -> Completion:
        return await self._asked(request, RETRIES_AT_START, PATIENCE_AT_START_S)

    async def _context_tokens(self) -> int | None:
        """Returns the context that the endpoint lists for the model, as vLLM's server does."""
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
            raise ValueError("base_url has a password or a query; put the key into the variable that key_env names")
        if not usable or self._base.endswith("/completions"):
            raise ValueError(f"base_url={self._line(self._base)!r}: expected an address like http://host:8000/v1")
        if not self.settings.name:
            raise ValueError(f"name is empty: expected the model's name at {self._base}")
        if not self._key.isascii() or not self._key.isprintable() or " " in self._key:
            raise ValueError("the key has characters that no key has; check the variable that key_env names")
        if ours := sorted({"model", "messages", "stream", "n"} & self.settings.extra.keys()):
            raise ValueError(f"extra has {', '.join(ours)}, which cannot be set there")

    async def complete(self, request: Request) -> Completion:
        """Answers one request. One that the endpoint refuses gets a completion with the reason.

        Cancelling the call closes its connection, on which servers stop generating.

        Raises:
            ModelError: all attempts met a fault.
            ModelGone: the endpoint accepts nothing from this account any more, or nothing listens at its address.
        """
        if self._client is None:
            raise RuntimeError("OpenAIModel.complete before start, or after close")
        return await self._asked(request, self.settings.retries, PATIENCE_S)

    async def _asked(self, request: Request, retries: int, patience_s: float) -> Completion:
        if self._abilities is not None and not (await self.abilities()).pictures:
            request = pictures_in_words(request)
        # The first refusal is remembered.
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
            # Reading and encoding pictures would block the event loop.
            body = await asyncio.to_thread(self._body, request, system_turn)
        except (OSError, ValueError) as error:
            return Completion(request.id, "", stop="error", error=self._line(str(error)))
        return await self._answer(request, body, retries, patience_s)

    def _body(self, request: Request, system_turn: bool) -> bytes:
        urls = [data_url(source.image) for source in request.images if source.image is not None]
        schema = {"name": "reply", "strict": True, "schema": json.loads(request.schema or "{}")}
        body = {
            "model": self.settings.name,
            "messages": chat(request, [{"type": "image_url", "image_url": {"url": url}} for url in urls], system_turn),
            "temperature": request.temperature,
            "max_tokens": request.max_tokens,
            "seed": request.seed % SEEDS,
            **({"response_format": {"type": "json_schema", "json_schema": schema}} if request.schema else {}),
            **({"logprobs": True} if request.likelihoods else {}),
            **self.settings.extra,
        }
        return json.dumps({name: value for name, value in body.items() if value is not None}).encode()

    async def _answer(self, request: Request, body: bytes, retries: int, patience_s: float) -> Completion:
        """Returns the reply, after up to `retries` faults and `patience_s` seconds of waiting for a rate limit."""
        faults, waits, waited_s = 0, 0, 0.0
        while True:
            outcome = await self._attempt(request, body)
            if isinstance(outcome, Completion):
                return outcome
            if outcome.closed:
                raise ModelGone(self._line(f"{self._base}: {outcome.reason}"))
            if outcome.limited:
                pause_s = outcome.wait_s or growing(FIRST_WAIT_S, waits, request)
                waits, waited_s = waits + 1, waited_s + pause_s
                if waited_s > patience_s:
                    wish = f"; it asks for a pause of {pause_s:.0f} s" if outcome.wait_s else ""
                    raise ModelError(self._line(f"{self._base} takes no more requests: {outcome.reason}{wish}"))
            else:
                pause_s = growing(FIRST_PAUSE_S, faults, request)
                faults += 1
                if faults > retries:
                    # Where nothing listens, all later requests would fail too, and be recorded as failed.
                    kind = ModelGone if outcome.unreachable else ModelError
                    raise kind(self._line(f"{self._base} failed {faults} times: {outcome.reason}"))
            LOG.info("%s: %s; asking again in %.1f s", request.id, self._line(outcome.reason), pause_s)
            if outcome.wait_s:
                self._limit.pause(pause_s)  # for all requests: the limit is the account's
            else:
                await asyncio.sleep(pause_s)

    async def _attempt(self, request: Request, body: bytes) -> Completion | EndpointFault:
        admission = await self._limit.admit(estimated_tokens(request))
        client = self._client
        if client is None:
            raise ModelError(f"the connections to {self._base} were closed")
        try:
            async with asyncio.timeout(self.settings.timeout_s):
                response = await _fetched(client, "POST", f"{self._base}/chat/completions", body)
        except TimeoutError:
            return EndpointFault(f"no reply within {self.settings.timeout_s:g} s")
        except _TooMuch as error:
            return EndpointFault(str(error))
        except httpx2.RequestError as error:
            reason = f"{type(error).__name__}: {str(error) or 'no details'}"
            return EndpointFault(reason, unreachable=isinstance(error, httpx2.ConnectError))
        # Reading and redacting a long reply would block the event loop.
        outcome = await asyncio.to_thread(read_reply, request, *response, time.time(), self._redaction.text)
        if not isinstance(outcome, Completion):
            return outcome
        if outcome.prompt_tokens and outcome.stop != "too_long":
            self._limit.correct(admission, outcome.prompt_tokens + outcome.completion_tokens)
        elif not outcome.error and not self._missed_usage:
            self._missed_usage = True
            LOG.warning("%s does not report the tokens of its replies: they count as 0", self._base)
        return replace(outcome, error=self._line(outcome.error))

    async def _models(self) -> list[dict[str, Any]]:
        """Returns the models that the endpoint lists, each with its `id`; none where the list has another form."""
        assert self._client is not None
        try:
            async with asyncio.timeout(CONNECT_S):
                _, _, content = await _fetched(self._client, "GET", f"{self._base}/models")
            return [model for model in json.loads(content)["data"] if isinstance(model["id"], str)]
        except (httpx2.RequestError, TimeoutError, _TooMuch, RecursionError, ValueError, LookupError, TypeError):
            return []

    async def close(self) -> None:
        """Closes the connections; requests in flight are lost. Closing twice does no harm."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()


class _TooMuch(Exception):
    """A body that is longer than any reply, or compressed against the request."""


async def _fetched(
    client: httpx2.AsyncClient, method: str, url: str, body: bytes | None = None
) -> tuple[int, httpx2.Headers, bytes]:
    """Returns a response's status, headers and whole body. Raises _TooMuch, and RequestError."""
    async with client.stream(method, url, content=body) as response:
        if (encoding := response.headers.get("content-encoding", "identity")) != "identity":
            raise _TooMuch(f"the reply is compressed ({encoding[:40]}), although it was requested uncompressed")
        content = bytearray()
        async for part in response.aiter_raw():
            content += part
            if len(content) > BODY_BYTES:
                raise _TooMuch(f"the reply has more than {BODY_BYTES:,} bytes and was cut off")
        return response.status_code, response.headers, bytes(content)


async def _unless_declared(declared: bool | None, find: Callable[[Ask], Awaitable[bool]], ask: Ask) -> bool:
    return await find(ask) if declared is None else declared


def growing(first_s: float, number: int, request: Request) -> float:
    """Returns a pause that doubles each time, and varies by request so that not all return at once."""
    spread = 0.75 + derive_seed(request.id, number) / 2**64
    return float(min(first_s * 2**number, LONGEST_PAUSE_S) * spread)


def estimated_tokens(request: Request) -> int:
    """Estimates the tokens of a request, for the rate limit, until its reply reports them."""
    parts = request.system, request.shared, request.own, request.rejected, request.correction
    characters = sum(map(len, parts))
    return characters // CHARACTERS_PER_TOKEN + TOKENS_PER_PICTURE * len(request.images) + request.max_tokens
