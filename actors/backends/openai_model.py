"""Runs a model behind an endpoint with OpenAI's chat protocol: vLLM's server, Ray Serve LLM, Ollama, hosted ones."""

import asyncio
import logging
from collections.abc import Collection
from dataclasses import replace
from functools import partial
from typing import Any

from pydantic import SecretStr

from actors.backends.model_settings import ModelSettings, Usual
from actors.backends.openai_abilities import (
    MOST_PICTURES,
    READY,
    count_pictures,
    follows_schemas,
    returns_likelihoods,
)
from actors.backends.openai_endpoint import Endpoint
from actors.backends.openai_layout import (
    CHANGES,
    MAX_TOKENS,
    PARTS,
    SYSTEM,
    SYSTEM_WITH_PICTURES,
    Layout,
    Outcome,
    adapt,
    is_named,
)
from actors.backends.openai_reply import PROMPT_REFUSED, TOO_LARGE, EndpointFault, Why, counted
from actors.errors import ModelError, ModelGone
from actors.http_client import NoResponse
from actors.messages import Abilities, Completion, Request

LOG = logging.getLogger(__name__)
# Longest total wait of a request for an endpoint that limits its rate.
PATIENCE_S = 300.0
PATIENCE_AT_START_S = 30.0
RETRIES_AT_START = 2
SLOW_PROBES_AT_START = 2  # which may each need all attempts, as a server loads a model at the first request
# Of a request with a schema that is refused: some endpoints refuse a reply that does not keep to it.
SCHEMA_RETRIES = 2
# In place of a fingerprint, of a reply to a request in another layout than at the start.
ADAPTED = "adapted in the middle of a run"
ADAPTATIONS = 4
# A shorter prompt is never too long.
SHORT_CHARACTERS = 500
LISTED_MODELS = 8  # in an error


class OpenAIModel:
    """One endpoint. Safe for any number of concurrent `complete` calls; callers bound them.

    A refused request is explained by what the endpoint answers to less: a tiny request, fewer pictures, one field less.
    """

    def __init__(self, settings: ModelSettings, key: SecretStr | None = None, usual: Usual | None = None) -> None:
        self.settings = settings
        usual = usual or Usual()
        self._most_pictures = min(max(1, usual.pictures), MOST_PICTURES)
        self._ready = replace(READY, temperature=usual.temperature, max_tokens=usual.max_tokens)
        key = key or SecretStr("")
        self._endpoint = Endpoint(settings, key.get_secret_value().strip())
        self._layout = Layout(settings.base_url.rstrip("/"))
        if settings.abilities.system_turn is False:
            self._layout = self._layout.changed(SYSTEM)
        if settings.abilities.pictures is False:
            self._layout = replace(self._layout, most_pictures=0)
        self._layout_at_start = self._layout
        self._adapted: dict[str, str] = {}  # the reason of each setting
        self._explaining = asyncio.Lock()
        self._abilities: Abilities | None = None

    async def start(self) -> None:
        """Sends a tiny request, adapts to refusals, and tests the abilities. Raises ValueError with the reason and
        remedy."""
        try:
            self._endpoint.open()
            ready = await self._fitted(self._ready)
            if isinstance(ready, Completion) and ready.stop != "error":
                self._endpoint.expect(ready.served)
                self._abilities = await self._test_abilities(ready)
                self._layout_at_start = self._layout
                return
            problem = ready.error if isinstance(ready, Completion) else self._remedied(ready)
        except (ModelError, ModelGone, NoResponse) as error:
            problem = str(error)

        names = sorted(model["id"] for model in await self._endpoint.models(self._layout.base))
        await self.close()
        line = self._endpoint.line(f"no reply from model {self.settings.name!r} at {self._layout.base}: {problem}")
        if names and self.settings.name not in names:
            more = " and others" if len(names) > LISTED_MODELS else ""
            served = self._endpoint.line(f"(it serves {', '.join(names[:LISTED_MODELS])}{more})")
            line = f"{line} {served}"
        raise ValueError(line)

    def _remedied(self, fault: EndpointFault) -> str:
        """Returns a fault's reason, with the settings whose fields it names."""
        settings = [f"extra.{name}" for name in self.settings.extra if is_named(name, fault)]
        if is_named(MAX_TOKENS, fault):
            settings.append("agents.max_tokens")
        if not settings:
            return fault.reason
        return f"{fault.reason}; change {' or '.join(settings)}"

    async def abilities(self) -> Abilities:
        """Returns the model's abilities, as declared or as tested at the start."""
        if self._abilities is None:
            raise RuntimeError("OpenAIModel.abilities before start")
        return self._abilities

    async def _test_abilities(self, ready: Completion) -> Abilities:
        """Tests the abilities that are not declared. All at once: an endpoint may take long for each."""
        if ready.stop == "length" and not ready.text.strip():
            tokens = ready.completion_tokens or self._ready.max_tokens
            setting = "thinking=false, or a larger agents.max_tokens, as every turn may fail"
            self._adapted[setting] = f"its thoughts took all {tokens} tokens of a reply"
        declared = self.settings.abilities
        layout = self._layout
        _, schema_test, likelihoods_test, context_tokens = await asyncio.gather(
            self._test_pictures(),
            self._test_schema(layout),
            self._test_likelihoods(layout, ready.prompt_tokens),
            self._listed_context(layout),
        )
        schema, schema_refusal = schema_test
        likelihoods, likelihoods_refusal, drops_text = likelihoods_test
        # In one order, whichever test ends first: they are part of a cache's keys.
        if drops_text:
            self._adapt(PARTS, "its chat template drops a text that is no list")
        if schema_refusal:
            self._adapted["abilities.schema=false"] = schema_refusal
        if likelihoods_refusal:
            self._adapted["abilities.likelihoods=false"] = likelihoods_refusal
        layout = self._layout
        return declared.over(
            Abilities(
                pictures=layout.most_pictures != 0,
                schema=schema,
                likelihoods=likelihoods,
                system_turn=SYSTEM not in layout.changes,
                # Every request has a seed, unless `extra` removes it.
                seeds=self.settings.extra.get("seed", 0) is not None and "seed" not in layout.changes,
                context_tokens=context_tokens,
                most_pictures=layout.most_pictures or None,
                served=ready.served,
                adapted=tuple((setting, self._endpoint.line(reason)) for setting, reason in self._adapted.items()),
            )
        )

    async def _test_pictures(self) -> None:
        if self.settings.abilities.pictures is None:
            await self._limit_pictures(self._most_pictures)

    async def _test_schema(self, layout: Layout) -> tuple[bool, str]:
        if self.settings.abilities.schema is not None:
            return self.settings.abilities.schema, ""
        return await follows_schemas(self._probe, self._ready, layout)

    async def _test_likelihoods(self, layout: Layout, ready_tokens: int) -> tuple[bool, str, bool]:
        if self.settings.abilities.likelihoods is not None:
            return self.settings.abilities.likelihoods, "", False
        return await returns_likelihoods(self._probe, self._ready, layout, ready_tokens)

    async def _listed_context(self, layout: Layout) -> int | None:
        """Returns the model's context, which the servers of vLLM and llama.cpp list."""
        if self.settings.abilities.context_tokens is None:
            for model in await self._endpoint.models(layout.base):
                if model["id"] == self.settings.name:
                    return counted(model.get("max_model_len")) or slot_context(model.get("meta")) or None
        return None

    async def _limit_pictures(self, pictures: int, minimum: int = 0) -> None:
        """Finds how many pictures the endpoint takes, and sends no more. A number below `minimum` changes nothing."""
        fitted = partial(self._fitted, only=(SYSTEM_WITH_PICTURES,))
        limit, reason = await count_pictures(fitted, self._ready, pictures)
        if reason and limit >= minimum:
            self._layout = replace(self._layout, most_pictures=limit)
            setting = f"retrieval.pictures={limit}" if limit else "abilities.pictures=false"
            self._adapted[setting] = reason

    async def _probe(self, request: Request, layout: Layout) -> Outcome:
        return await self._endpoint.answer(request, layout, RETRIES_AT_START, PATIENCE_AT_START_S)

    async def _fitted(self, request: Request, only: Collection[str] = CHANGES) -> Outcome:
        """Returns the reply to a probe. Adapts the layout where the endpoint refuses it as it is."""
        outcome = await self._probe(request, self._layout)
        if isinstance(outcome, Completion):
            return outcome
        adaptation = await adapt(self._probe, request, self.settings, self._layout, outcome, only)
        if adaptation is None:
            return outcome
        reply, cured = adaptation
        # Another probe may have changed it in between.
        for change, fault in cured.items():
            self._adapt(change, fault.reason)
        return reply

    def _adapt(self, change: str, reason: str) -> None:
        self._layout = self._layout.changed(change)
        setting = CHANGES[change].format(base=self._layout.base, max_tokens=self._ready.max_tokens)
        self._adapted[setting] = reason

    async def complete(self, request: Request) -> Completion:
        """Answers one request. One that the endpoint refuses, or fails too often, gets a completion with the reason.

        Cancelling the call closes its connection. Raises ModelGone where the endpoint accepts nothing from this account
        any more, or nothing listens at its address.
        """
        if not self._endpoint.is_open:
            raise RuntimeError("OpenAIModel.complete before start, or after close")
        for _ in range(ADAPTATIONS):
            layout = self._layout
            replies = self._endpoint.replies
            outcome = await self._endpoint.answer(request, layout, self.settings.retries, PATIENCE_S)
            if isinstance(outcome, Completion):
                if layout == self._layout_at_start:
                    return outcome
                # A cache's keys have the layout of the start.
                return replace(outcome, served=(*outcome.served[:2], ADAPTED))
            fault = outcome
            if fault.why in (Why.CLOSED, Why.UNREACHABLE):
                raise self._gone(fault)

            async with self._explaining:
                if layout != self._layout:  # another request was faster and has changed it
                    continue
                explained = await self._explain(request, fault, answered=self._endpoint.replies > replies)
            if isinstance(explained, Completion):
                return explained
            if explained is not None:
                break
        return Completion(request.id, "", stop="error", error=self._endpoint.line(fault.reason))

    async def _explain(self, request: Request, fault: EndpointFault, answered: bool) -> Outcome | None:
        """Returns the outcome of a request that failed for good, or None once the layout suits it.

        answered: whether the endpoint has answered others since. Raises ModelGone where it now refuses a tiny request
        as well.
        """
        if fault.why is Why.PASSING:
            return fault
        layout = self._layout
        is_sized = fault.prompt_tokens > fault.limit_tokens > 0
        ready = replace(self._ready, temperature=request.temperature, max_tokens=request.max_tokens)
        if not is_sized and (not answered or any(is_named(name, fault) for name in CHANGES)):
            tiny = await self._fitted(ready)
            if isinstance(tiny, EndpointFault):
                if tiny.why is Why.PASSING:
                    return fault
                raise self._gone(tiny)

        pictures = len([source for source in request.images if source.image is not None])
        if layout.most_pictures is not None:
            pictures = min(pictures, layout.most_pictures)
        if pictures and fault.why is Why.REFUSED and layout == self._layout:
            outcome = await self._fitted(replace(ready, images=request.images), (SYSTEM_WITH_PICTURES,))
            if isinstance(outcome, EndpointFault) and outcome.why is Why.REFUSED:
                # The turn's failure: at the start the endpoint took pictures, and takes the next turn's.
                await self._limit_pictures(pictures, minimum=1)
                if layout == self._layout and not is_sized and fault.status != TOO_LARGE:
                    return fault
        if layout != self._layout:
            LOG.warning("the endpoint now refuses what it took: %s", "; ".join(map(": ".join, self._adapted.items())))
            return None

        if request.schema and not is_sized and fault.why is Why.REFUSED:
            for _ in range(SCHEMA_RETRIES):
                outcome = await self._endpoint.answer(request, layout, 0, 0)
                if isinstance(outcome, Completion):
                    return outcome
        # A prompt is too long if it is refused and a much shorter one is answered.
        is_long = len(request.system) + len(request.shared) + len(request.own) > SHORT_CHARACTERS
        if fault.status in PROMPT_REFUSED and (is_sized or pictures or is_long):
            return Completion(
                request.id,
                "",
                prompt_tokens=fault.prompt_tokens,
                stop="too_long",
                error=self._endpoint.line(fault.reason),
                limit_tokens=fault.limit_tokens,
            )
        return fault

    def _gone(self, fault: EndpointFault) -> ModelGone:
        return ModelGone(self._endpoint.line(f"{self._layout.base} takes no more requests: {fault.reason}"))

    async def close(self) -> None:
        """Closes the connections; requests in flight are lost. Closing twice does no harm."""
        await self._endpoint.close()


def longest_start_s(settings: ModelSettings) -> float:
    """Returns how long the requests at the start may take, in seconds, before the endpoint counts as silent."""
    return SLOW_PROBES_AT_START * (RETRIES_AT_START + 1) * settings.timeout_s


def slot_context(meta: Any) -> int:
    """Returns the context of one request in what llama.cpp's server lists of a model. 0 where it names none."""
    return counted(meta.get("n_ctx")) if isinstance(meta, dict) else 0
