"""An endpoint that speaks OpenAI's chat protocol as a model backend."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import partial
from typing import Any

from actors.backends.backend import Backend
from actors.backends.model_choice import ModelChoice
from actors.backends.openai_model import OpenAIModel, OpenAISettings
from actors.backends.settings import common_fields, layout
from actors.errors import UserError
from actors.models import Model


class OpenAIBackend(Backend):
    name = "openai"
    # One process, which needs no GPU, has the endpoint's rate limits.
    reads = ("capacity", "cpus", "key_env", *(f.name for f in fields(OpenAISettings)))
    description = "an endpoint that speaks OpenAI's chat protocol"

    def maker(self) -> Callable[[], Model]:
        model, key = self.settings, self.key
        if not model.name or not model.base_url:
            raise UserError(f"{key}=openai needs {key}.base_url=<http://host:port/v1> and {key}.name=<model>")
        if model.key_env and model.key_env not in os.environ:
            # Its name is not shown: by mistake it may be the key itself.
            raise UserError(f"{key}.key_env: there is no environment variable of that name; export the key under it")
        settings = OpenAISettings(**common_fields(OpenAISettings, model), key=os.environ.get(model.key_env))
        return partial(OpenAIModel, settings)

    def dependencies(self) -> Mapping[str, Any]:
        model = self.settings
        return {"base_url": model.base_url, "extra": model.extra, **layout(model.abilities)}

    @property
    def replicas(self) -> int:
        return 1

    @property
    def gpus_each(self) -> float:
        return 0.0

    def choice(self) -> ModelChoice:
        model = self.settings
        settings = common_fields(OpenAISettings, model) | {"abilities": model.abilities.declared()}
        return ModelChoice(kind="openai", settings=settings, key_env=model.key_env)
