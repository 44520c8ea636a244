"""An endpoint that speaks OpenAI's chat protocol as a model backend."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from actors.backends.backend import Backend
from actors.backends.model_choice import ModelChoice
from actors.backends.openai_model import OpenAIModel, OpenAISettings
from actors.errors import UserError
from actors.models import Model

COMMON = ("base_url", "name", "timeout_s", "retries", "requests_per_minute", "tokens_per_minute", "extra")


class OpenAIBackend(Backend):
    name = "openai"
    description = "an endpoint that speaks OpenAI's chat protocol"

    def maker(self) -> Callable[[], Model]:
        model, key = self.settings, self.key
        if not model.name or not model.base_url:
            raise UserError(f"{key}=openai needs {key}.base_url=<http://host:port/v1> and {key}.name=<model>")
        if model.key_env and model.key_env not in os.environ:
            raise UserError(f"{key}.key_env={model.key_env}: there is no such environment variable; export it first")
        return partial(OpenAIModel, OpenAISettings(**self._common(), key=os.environ.get(model.key_env)))

    def dependencies(self) -> Mapping[str, Any]:
        return {"base_url": self.settings.base_url, "extra": self.settings.extra}

    def processes(self, cluster_gpus: float) -> tuple[int, float]:
        return 1, 0.0  # one process keeps the rate limits of the endpoint's account, and computes nothing

    def choice(self) -> ModelChoice:
        return ModelChoice(kind="openai", settings=self._common(), key_env=self.settings.key_env)

    def _common(self) -> dict[str, Any]:
        return {name: getattr(self.settings, name) for name in COMMON}
