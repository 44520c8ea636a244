"""vLLM engines as a model backend: one in each replica's process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from actors.backends.backend import Backend, TokenCounting
from actors.backends.model_choice import ModelChoice
from actors.backends.settings import common_fields, layout
from actors.backends.tokenizer import token_counter
from actors.backends.vllm_arguments import check_engine_arguments
from actors.backends.vllm_model import VllmModel, VllmSettings
from actors.errors import UserError
from actors.models import Model

SERVER = "http://localhost:8000/v1"  # where `vllm serve` listens unless it is told otherwise


class VllmBackend(Backend):
    name = "vllm"
    description = "vLLM engines of the run's own"

    def maker(self) -> Callable[[], Model]:
        if not self.settings.name:
            raise UserError(f"{self.key}=vllm needs {self.key}.name=<Hugging Face id or local folder>")
        try:
            check_engine_arguments(self.settings.engine)
        except ValueError as error:
            raise UserError(f"{self.key}.engine: {error}") from error
        return partial(VllmModel, VllmSettings(**common_fields(VllmSettings, self.settings)))

    def dependencies(self) -> Mapping[str, Any]:
        """Of a local folder also its files: a model that was trained on is another one."""
        model = self.settings
        known: dict[str, Any] = {"dtype": model.dtype, "max_model_len": model.max_model_len, "engine": model.engine}
        known |= layout(model.abilities)
        folder = Path(model.name)
        if not folder.is_dir():
            return known
        states = ((path.name, path.stat()) for path in sorted(folder.iterdir()))
        return {**known, "files": [(name, state.st_size, state.st_mtime_ns) for name, state in states]}

    def processes(self, cluster_gpus: float) -> tuple[int, float]:
        if self.settings.gpus is None and cluster_gpus:
            return self.settings.replicas, float(self.settings.tensor_parallel)
        return super().processes(cluster_gpus)

    def counting(self) -> TokenCounting | None:
        text = token_counter(self.settings.name, self.settings.engine)
        return TokenCounting(f"the tokenizer of {self.settings.name}", text) if text else None

    def choice(self) -> ModelChoice:
        """A server that the team's user starts on the same machine with `vllm serve <name>`."""
        settings = {"base_url": SERVER, "name": self.settings.name}
        return ModelChoice(kind="openai", settings=settings, key_env=self.settings.key_env)
