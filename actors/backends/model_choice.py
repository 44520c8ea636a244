"""Describes a model as data, for files that make it again elsewhere: the embedded reader, or an endpoint."""

import json
from functools import cache
from typing import Any, Literal

from pydantic import BaseModel, SecretStr

from actors.backends.model_settings import DeclaredAbilities, ModelSettings
from actors.backends.openai_model import OpenAIModel
from actors.messages import Completion, Request
from actors.models import LazyModel, Model
from actors.reader.reader import Reader, ReaderSettings
from actors.secrets import secret


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


class LazyEndpoint(LazyModel):
    """An endpoint that is started with the first request. Where it does not answer, that is the request's error."""

    def __init__(self, settings: ModelSettings, key_env: str) -> None:
        super().__init__(lambda: OpenAIModel(settings, SecretStr(secret(key_env) or "")))

    async def complete(self, request: Request) -> Completion:
        try:
            return await super().complete(request)
        except ValueError as error:
            return Completion(request.id, "", stop="error", error=str(error))
