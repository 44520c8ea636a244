"""Runs a model behind an endpoint with OpenAI's chat protocol: vLLM's server, Ray Serve LLM, Ollama, hosted ones."""

import asyncio
import json
import logging
import time
from collections.abc import Collection
from dataclasses import replace
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import httpx2
from pydantic import SecretStr

from actors.backends.model_settings import ModelSettings, Usual
from actors.backends.openai_layout import (
    CHANGES,
    MOST_PICTURES,
    PARTS,
    READY,
    SYSTEM,
    SYSTEM_WITH_PICTURES,
    Layout,
    Outcome,
    adapt,
    count_pictures,
    follows_schemas,
    is_named,
    returns_likelihoods,
)
from actors.backends.openai_reply import PROMPT_REFUSED, TOO_LARGE, EndpointFault, Why, counted, read_reply
from actors.backends.rate_limit import RateLimit
from actors.backends.redaction import Redaction
from actors.errors import ModelError, ModelGone
from actors.http_client import NoResponse, fetch, open_client
from actors.messages import Abilities, Completion, Request, derive_seed

LOG = logging.getLogger(__name__)
FIRST_PAUSE_S, FIRST_WAIT_S, LONGEST_PAUSE_S = 0.5, 2.0, 30.0
# Longest total wait of a request for an endpoint that limits its rate.
PATIENCE_S, PATIENCE_AT_START_S = 300.0, 30.0
RETRIES_AT_START = 2
# Of a request with a schema that is refused: some endpoints refuse a reply that does not keep to it.
SCHEMA_RETRIES = 2
# In place of a fingerprint, of a reply to a request in another layout than at the start.
ADAPTED = "adapted in the middle of a run"
ADAPTATIONS = 4
# A shorter prompt is never too long.
SHORT_CHARACTERS = 500
CHARACTERS_PER_TOKEN, TOKENS_PER_PICTURE = 3, 1000


class OpenAIModel:
    """One endpoint. Safe for any number of concurrent `complete` calls; callers bound them.

    Retries happen here and not in a client library: each attempt counts against the rate limits, and a requested wait
    delays all requests. A refused request is explained by what the endpoint answers to less: a tiny request, fewer
    pictures, one field less.
    """

    def __init__(self, settings: ModelSettings, key: SecretStr | None = None, usual: Usual | None = None) -> None:
        self.settings = settings
        usual = usual or Usual()
        self._most_pictures = min(max(1, usual.pictures), MOST_PICTURES)
        self._ready = replace(READY, temperature=usual.temperature, max_tokens=usual.max_tokens)
        self._key = key.get_secret_value().strip() if key else ""
        self._redaction = Redaction(self._key)
        self._line = self._redaction.line
        declared = settings.abilities
        self._layout = Layout(
            settings.base_url.rstrip("/"),
            frozenset({SYSTEM} if declared.system_turn is False else ()),
            0 if declared.pictures is False else None,
        )
        self._settled = self._layout
        self._adapted: dict[str, str] = {}
        self._learning = asyncio.Lock()
        self._answered = 0
        self._limit = RateLimit(settings.requests_per_minute, settings.tokens_per_minute)
        self._client: httpx2.AsyncClient | None = None
        self._missed_usage = False
        self._abilities: Abilities | None = None
        self._served: set[tuple[str, str, str]] = set()

    async def start(self) -> None:
        """Sends a tiny request, adapts to refusals, and tests the abilities. Raises ValueError with the reason and
        remedy."""
        self._check()
        try:
            self._client = open_client({"Authorization": f"Bearer {self._key}"} if self._key else {})
            ready = await self._fitted(self._ready)
            if isinstance(ready, Completion) and ready.stop != "error":
                self._abilities = await self._find_abilities(ready)
                self._settled = self._layout
                return
            if isinstance(ready, Completion):
                problem = ready.error
            else:  # with the settings whose fields the refusal names
                named = [f"extra.{name}" for name in self.settings.extra if is_named(name, ready)]
                named += ["agents.max_tokens"] if is_named("max_tokens", ready) else []
                problem = f"{ready.reason}; change {' or '.join(named)}" if named else ready.reason
        except (ModelError, ModelGone, NoResponse) as error:
            problem = str(error)
        names = sorted(model["id"] for model in await self._models())
        await self.close()
        line = self._line(f"no reply from model {self.settings.name!r} at {self._layout.base}: {problem}")
        if names and self.settings.name not in names:
            others = f"{', '.join(names[:8])}{' and others' if len(names) > 8 else ''}"
            line = f"{line} {self._line(f'(it serves {others})')}"
        raise ValueError(line)

    async def abilities(self) -> Abilities:
        """Returns the model's abilities, as declared or as tested at the start."""
        if self._abilities is None:
            raise RuntimeError("OpenAIModel.abilities before start")
        return self._abilities

    async def _find_abilities(self, ready: Completion) -> Abilities:
        """Tests the abilities that are not declared. All at once: an endpoint may take long for each."""
        declared, settled = self.settings.abilities, self._layout
        self._served.add(ready.served)
        if ready.stop == "length" and not ready.text.strip():
            filled = f"its thoughts took all {ready.completion_tokens or self._ready.max_tokens} tokens of a reply"
            self._adapted["thinking=false, or a larger agents.max_tokens, as every turn may fail"] = filled

        async def known(*values: Any) -> Any:
            return values

        schema, chance, ask, length = declared.schema, declared.likelihoods, self._probe, ready.prompt_tokens
        _, schemas, (*chances, drops_text), models = await asyncio.gather(
            self._find_pictures(self._most_pictures) if declared.pictures is None else known(),
            follows_schemas(ask, self._ready, settled) if schema is None else known(schema, ""),
            returns_likelihoods(ask, self._ready, settled, length) if chance is None else known(chance, "", False),
            self._models() if declared.context_tokens is None else known(),
        )
        if drops_text:
            self._adapt(PARTS, "its chat template drops a text that is no list")
        # vLLM's server lists the context with the model.
        contexts = [counted(model.get("max_model_len")) for model in models if model["id"] == self.settings.name]
        for name, (_, refusal) in (("schema", schemas), ("likelihoods", chances)):
            if refusal:
                self._adapted[f"abilities.{name}=false"] = refusal
        layout = self._layout
        return declared.over(
            Abilities(
                layout.most_pictures != 0,
                schemas[0],
                chances[0],
                SYSTEM not in layout.changes,
                # Every request has a seed, unless `extra` removes it.
                self.settings.extra.get("seed", 0) is not None and "seed" not in layout.changes,
                next(filter(None, contexts), None),
                layout.most_pictures or None,
                ready.served,
                tuple((setting, self._line(reason)) for setting, reason in self._adapted.items()),
            )
        )

    async def _find_pictures(self, most: int, least: int = 0) -> None:
        """Finds how many pictures the endpoint takes, and sends no more. A number below `least` changes nothing."""
        fitted = partial(self._fitted, only=(SYSTEM_WITH_PICTURES,))
        taken, reason = await count_pictures(fitted, self._ready, most)
        if reason and taken >= least:
            self._layout = replace(self._layout, most_pictures=taken)
            setting = f"retrieval.pictures={taken}" if taken else "abilities.pictures=false"
            self._adapted[setting] = reason

    async def _probe(self, request: Request, layout: Layout) -> Outcome:
        return await self._answer(request, layout, RETRIES_AT_START, PATIENCE_AT_START_S)

    async def _fitted(self, request: Request, only: Collection[str] = CHANGES) -> Outcome:
        """Returns the reply to a probe. Adapts the layout where the endpoint refuses it as it is."""
        outcome = await self._probe(request, self._layout)
        if isinstance(outcome, Completion):
            return outcome
        adapted = await adapt(self._probe, request, self.settings, self._layout, outcome, only)
        if adapted is None:
            return outcome
        reply, cured = adapted
        # Other probes may have changed it meanwhile.
        for change, fault in cured.items():
            self._adapt(change, fault.reason)
        return reply

    def _adapt(self, change: str, reason: str) -> None:
        self._layout = self._layout.changed(change)
        setting = CHANGES[change].format(base=self._layout.base, max_tokens=self._ready.max_tokens)
        self._adapted[setting] = reason

    def _check(self) -> None:
        base = self._layout.base
        try:
            address = urlsplit(base)
            usable = address.scheme in ("http", "https") and address.hostname and (address.port or 80)
        except ValueError:
            usable = None
        if "@" in base or "?" in base:
            raise ValueError("base_url has a password or a query; put the key into the variable that key_env names")
        if not usable or base.endswith("/completions"):
            raise ValueError(f"base_url={self._line(base)!r}: expected an address like http://host:8000/v1")
        if not self.settings.name:
            raise ValueError(f"name is empty: expected the model's name at {base}")
        if not self._key.isascii() or not self._key.isprintable() or " " in self._key:
            raise ValueError("the key has characters that no key has; check the variable that key_env names")
        if ours := sorted({"model", "messages", "stream", "n"} & self.settings.extra.keys()):
            raise ValueError(f"extra has {', '.join(ours)}, which cannot be set there")

    async def complete(self, request: Request) -> Completion:
        """Answers one request. One that the endpoint refuses, or fails too often, gets a completion with the reason.

        Cancelling the call closes its connection. Raises ModelGone where the endpoint accepts nothing from this account
        any more, or nothing listens at its address.
        """
        if self._client is None:
            raise RuntimeError("OpenAIModel.complete before start, or after close")
        for _ in range(ADAPTATIONS):
            layout, answered = self._layout, self._answered
            reply = await self._answer(request, layout, self.settings.retries, PATIENCE_S)
            if isinstance(reply, Completion):
                # A cache's keys have the layout of the start.
                return reply if layout == self._settled else replace(reply, served=(*reply.served[:2], ADAPTED))
            outcome = reply
            if outcome.why in (Why.CLOSED, Why.UNREACHABLE):
                raise self._gone(outcome)
            async with self._learning:
                # Another request may have changed the layout meanwhile.
                final = await self._explained(request, outcome, answered) if layout == self._layout else None
            if isinstance(final, Completion):
                return final
            if final is not None:
                break
        return Completion(request.id, "", stop="error", error=self._line(outcome.reason))

    async def _explained(self, request: Request, fault: EndpointFault, answered: int) -> Outcome | None:
        """Returns the outcome of a request that failed for good, or None once the layout suits it.

        `answered` counts the endpoint's replies before the request: later ones show that it still answers. Raises
        ModelGone where it now refuses a tiny request as well.
        """
        layout, sized = self._layout, fault.prompt_tokens > fault.limit_tokens > 0
        ready = replace(self._ready, temperature=request.temperature, max_tokens=request.max_tokens)
        named = any(is_named(name, fault) for name in CHANGES)
        if fault.why is Why.PASSING:
            return fault
        if not sized and (named or self._answered == answered):
            tiny = await self._fitted(ready)
            if isinstance(tiny, EndpointFault):
                if tiny.why is Why.PASSING:
                    return fault
                raise self._gone(tiny)
        pictures = sum(source.image is not None for source in request.images)
        if layout.most_pictures is not None:
            pictures = min(pictures, layout.most_pictures)
        if pictures and fault.why is Why.REFUSED and layout == self._layout:
            alone = await self._fitted(replace(ready, images=request.images), (SYSTEM_WITH_PICTURES,))
            if isinstance(alone, EndpointFault) and alone.why is Why.REFUSED:
                # The turn's failure: at the start the endpoint took pictures, and takes the next turn's.
                await self._find_pictures(pictures, least=1)
                if layout == self._layout and not sized and fault.status != TOO_LARGE:
                    return fault
        if layout != self._layout:
            LOG.warning("the endpoint now refuses what it took: %s", "; ".join(map(": ".join, self._adapted.items())))
            return None
        for _ in range(SCHEMA_RETRIES if request.schema and not sized and fault.why is Why.REFUSED else 0):
            again = await self._answer(request, layout, 0, 0)
            if isinstance(again, Completion):
                return again
        # What is refused although much less is answered is too long.
        size = len(request.system) + len(request.shared) + len(request.own)
        if fault.status in PROMPT_REFUSED and (sized or pictures or size > SHORT_CHARACTERS):
            reason, limit = self._line(fault.reason), fault.limit_tokens
            return Completion(request.id, "", fault.prompt_tokens, stop="too_long", error=reason, limit_tokens=limit)
        return fault

    def _gone(self, fault: EndpointFault) -> ModelGone:
        return ModelGone(self._line(f"{self._layout.base} takes no more requests: {fault.reason}"))

    async def _answer(self, request: Request, layout: Layout, retries: int, patience_s: float) -> Outcome:
        """Returns the reply, after up to `retries` faults. Waits `patience_s` seconds at most for a rate limit."""
        try:
            # Reading and encoding pictures would block the event loop.
            body = await asyncio.to_thread(lambda: json.dumps(layout.body(request, self.settings)).encode())
        except (OSError, ValueError) as error:
            return Completion(request.id, "", stop="error", error=self._line(str(error)))
        faults, waits, waited_s = 0, 0, 0.0
        while True:
            outcome = await self._attempt(request, layout, body)
            if isinstance(outcome, Completion) or outcome.why in (Why.REFUSED, Why.CLOSED):
                return outcome
            if outcome.why is Why.LIMITED:
                first_s = FIRST_WAIT_S if outcome.wait_s is None else FIRST_PAUSE_S
                # Growing in any case: with a tiny Retry-After the number of requests would have no bound.
                pause_s = max(outcome.wait_s or 0.0, growing(first_s, waits, request))
                waits, waited_s = waits + 1, waited_s + pause_s
                if waited_s > patience_s:
                    wish = f"; it asks for a pause of {pause_s:.0f} s" if outcome.wait_s else ""
                    return replace(outcome, reason=f"{outcome.reason}{wish}")
            else:
                pause_s = growing(FIRST_PAUSE_S, faults, request)
                faults += 1
                if faults > retries:
                    return replace(outcome, reason=f"{outcome.reason} (failed {faults} times at {layout.base})")
            LOG.info("%s: %s; asking again in %.1f s", request.id, self._line(outcome.reason), pause_s)
            if outcome.wait_s:
                self._limit.pause(pause_s)  # for all requests: the limit is the account's
            else:
                await asyncio.sleep(pause_s)

    async def _attempt(self, request: Request, layout: Layout, body: bytes) -> Outcome:
        admission = await self._limit.admit(estimated_tokens(request))
        client = self._client
        if client is None:
            raise ModelError(f"the connections to {layout.base} were closed")
        try:
            response = await fetch(client, "POST", f"{layout.base}/chat/completions", body, self.settings.timeout_s)
        except NoResponse as error:
            return EndpointFault(Why.UNREACHABLE if error.unreachable else Why.PASSING, str(error))
        # Reading and redacting a long reply would block the event loop.
        outcome = await asyncio.to_thread(read_reply, request, *response, time.time(), self._redaction.text)
        if not isinstance(outcome, Completion):
            return outcome
        self._answered += 1
        if outcome.prompt_tokens:
            self._limit.correct(admission, outcome.prompt_tokens + outcome.completion_tokens)
        elif not outcome.error and not self._missed_usage:
            self._missed_usage = True
            LOG.warning("%s does not report the tokens of its replies: they count as 0", layout.base)
        if self._served and not outcome.error and outcome.served not in self._served:
            self._served.add(outcome.served)
            LOG.warning("another model answers at %s: %s", layout.base, " ".join(filter(None, outcome.served)))
        return replace(outcome, error=self._line(outcome.error))

    async def _models(self) -> list[dict[str, Any]]:
        """Returns the models that the endpoint lists, each with its `id`. None where the list has another form."""
        if self._client is None:
            return []
        try:
            _, _, content = await fetch(self._client, "GET", f"{self._layout.base}/models")
            return [model for model in json.loads(content)["data"] if isinstance(model["id"], str)]
        except (NoResponse, RecursionError, ValueError, LookupError, TypeError):
            return []

    async def close(self) -> None:
        """Closes the connections; requests in flight are lost. Closing twice does no harm."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()


def growing(first_s: float, number: int, request: Request) -> float:
    """Returns a pause that doubles each time. It varies by request, so that not all return at once."""
    spread = 0.75 + derive_seed(request.id, number) / 2**64
    return float(min(first_s * 2**number, LONGEST_PAUSE_S) * spread)


def estimated_tokens(request: Request) -> int:
    """Estimates the tokens of a request, for the rate limit, until its reply reports them."""
    characters = sum(map(len, (request.system, request.shared, request.own, request.rejected, request.correction)))
    return characters // CHARACTERS_PER_TOKEN + TOKENS_PER_PICTURE * len(request.images) + request.max_tokens
