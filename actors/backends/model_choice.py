"""Describes a model as data, for files that make it again elsewhere: the embedded reader, or an endpoint."""

import asyncio
import json
import os
from functools import cache
from typing import Any, Literal

from pydantic import BaseModel, SecretStr

from actors.backends.model_settings import DeclaredAbilities, ModelSettings
from actors.backends.openai_model import OpenAIModel
from actors.messages import Abilities, Completion, Request
from actors.models import Model
from actors.reader.reader import Reader, ReaderSettings


class ModelChoice(BaseModel):
    """A model that can be made again from a file.

    `settings` are fields of `ReaderSettings` or `ModelSettings`. The environment variable `key_env` holds an endpoint's
    key (empty: no key), and no file does.
    """

    kind: Literal["reader", "openai"] = "reader"
    settings: dict[str, Any] = {}
    key_env: str = ""

    def model(self) -> Model:
        """Returns the model, the same object for equal choices. Raises ValueError for settings that do not fit its
        kind."""
        if "key" in self.settings:
            raise ValueError(f"a key has no place in a file: set {self.key_env} in the environment")
        try:
            # As text, since a dictionary cannot be a cache's key.
            return _made(self.kind, json.dumps(self.settings, sort_keys=True), self.key_env)
        except TypeError as error:
            raise ValueError(f"model {self.kind}: {error}") from error


@cache
def _made(kind: str, settings: str, key_env: str) -> Model:
    fields = json.loads(settings)
    if kind == "reader":
        return Reader(ReaderSettings(**fields))
    abilities = DeclaredAbilities(**fields.pop("abilities", {}))
    return LazyEndpoint(ModelSettings(**fields, abilities=abilities), key_env)


class LazyEndpoint:
    """Starts an endpoint with the first request, in that request's event loop. None exists before."""

    def __init__(self, settings: ModelSettings, key_env: str) -> None:
        self._settings = settings
        self._key_env = key_env
        self._loop: asyncio.AbstractEventLoop | None = None
        self._started: asyncio.Task[OpenAIModel] | None = None

    async def complete(self, request: Request) -> Completion:
        try:
            model = await self._model()
        except ValueError as error:
            return Completion(request.id, "", stop="error", error=str(error))
        return await model.complete(request)

    async def abilities(self) -> Abilities:
        """Returns the model's abilities. Raises ValueError where the endpoint does not answer."""
        return await (await self._model()).abilities()

    async def _model(self) -> OpenAIModel:
        loop = asyncio.get_running_loop()
        # A client's connections belong to the loop that opened them, and AutoGen teams may run in several loops.
        if self._started is None or self._loop is not loop:
            self._loop = loop
            self._started = loop.create_task(self._start())
        started = self._started
        try:
            # Shielded: a cancelled request must not cancel the start for the others.
            return await asyncio.shield(started)
        except ValueError:
            if self._started is started:
                self._started = None  # an endpoint that is down now is asked again by the next request
            raise

    async def _start(self) -> OpenAIModel:
        model = OpenAIModel(self._settings, SecretStr(os.environ.get(self._key_env, "")))
        await model.start()
        return model

    async def close(self) -> None:
        """Closes the connections; the next request opens them again."""
        started = self._started
        self._started = None
        if started is not None:
            await (await started).close()
