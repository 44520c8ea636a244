"""Defines the interface of every model (embedded reader, vLLM, endpoint, pool of replicas) and how it is asked."""

import asyncio
from collections.abc import Callable
from typing import NamedTuple, Protocol

from actors.errors import ModelError
from actors.messages import Abilities, Completion, Request, Usage


class Model(Protocol):
    """Completes requests.

    Optional methods: `async start()`, awaited before the first request; `async abilities()`, which returns what the
    model can do once it is started (without it, `Abilities()`); `async close()`, awaited after the last request.
    """

    async def complete(self, request: Request) -> Completion:
        """Completes one request.

        For a request that it can never serve, a model returns a completion with `stop="too_long"` if the prompt is
        longer than its context, else `stop="error"` and the reason.

        Raises:
            ModelError: the call itself failed (ModelLost: and so will all others).
            ModelGone: a pool of models has none left.
        """


class ModelResponse(NamedTuple):
    """A completion with its cost.

    calls: number of completions that it counts for in a message.
    usage: calls and tokens that were used for it, failed calls included.
    """

    completion: Completion
    calls: int
    usage: Usage


async def started(make_model: Callable[[], Model]) -> Model:
    """Makes a model that takes requests. Raises what its `start` raises."""
    model = make_model()
    start = getattr(model, "start", None)
    if start is not None:
        await start()
    return model


class LazyModel:
    """Makes and starts a model with the first request, in that request's event loop."""

    def __init__(self, make_model: Callable[[], Model]) -> None:
        self._make_model = make_model
        self._loop: asyncio.AbstractEventLoop | None = None
        self._starting: asyncio.Task[Model] | None = None

    async def started(self) -> Model:
        """Returns the model, once it is started. Raises what making and starting it raises."""
        loop = asyncio.get_running_loop()
        # A model's connections belong to the loop that opened them, and AutoGen teams may run in several loops.
        if self._starting is None or self._loop is not loop:
            self._loop = loop
            self._starting = loop.create_task(started(self._make_model))
        starting = self._starting
        try:
            # Shielded: a cancelled request must not cancel the start for the others.
            return await asyncio.shield(starting)
        except Exception:
            if self._starting is starting:
                self._starting = None  # a model that does not start now is tried again by the next request
            raise

    async def abilities(self) -> Abilities:
        """Returns the model's abilities. Raises as `started`."""
        return await abilities_of(await self.started())

    async def complete(self, request: Request) -> Completion:
        model = await self.started()
        return await model.complete(request)

    async def close(self) -> None:
        """Closes the model. The next request starts it again."""
        starting = self._starting
        self._starting = None
        if starting is not None:
            close = getattr(await starting, "close", None)
            if close is not None:
                await close()


async def abilities_of(model: Model) -> Abilities:
    """Returns the abilities that the model reports, or the defaults of every model."""
    report_abilities = getattr(model, "abilities", None)
    return Abilities() if report_abilities is None else await report_abilities()


async def complete_with_retries(model: Model, request: Request, retries: int) -> ModelResponse:
    """Asks a model, and again after each of the first `retries` failed calls.

    The completion after the last failure has `stop="error"` and its reason, and counts for no call. ModelGone is
    raised, and ends the run.

    The tokens of a failed call are not known: it counts in the usage as a call without any. A prompt that does not fit
    is no call, as nothing is computed for it.
    """
    reason = ""
    # Without a pause: a pool waits for its replicas, and an endpoint's client makes its own pauses.
    for failures in range(retries + 1):
        try:
            completion = await model.complete(request)
        except ModelError as error:
            reason = str(error)
            continue
        if completion.stop == "too_long":
            return ModelResponse(completion, 0, Usage(calls=failures))
        return ModelResponse(completion, 1, Usage.of(completion) + Usage(calls=failures))
    failed = Completion(request.id, "", stop="error", error=reason)
    return ModelResponse(failed, 0, Usage(calls=retries + 1))
