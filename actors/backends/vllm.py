"""vLLM engines as a model backend: one in each replica's process."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from actors.backends.backend import Backend, TokenCounting
from actors.backends.model_choice import ModelChoice
from actors.backends.settings import common_fields, layout
from actors.backends.tokenizer import token_counter
from actors.backends.vllm_arguments import cache_bytes, check_engine_arguments
from actors.backends.vllm_model import VllmModel, VllmSettings
from actors.backends.weights import files_of, weights_of
from actors.errors import UserError
from actors.models import Model

# What vLLM needs on a CPU, and no answer depends on.
ON_A_CPU: Mapping[str, Any] = {"block_size": 32, "enforce_eager": True}
# The least that an engine's three processes take beside weights and cache, measured with a model of hardly any weights.
PROCESSES_BYTES = 2 * 10**9

SERVER = "http://localhost:8000/v1"  # where `vllm serve` listens unless it is told otherwise


class VllmBackend(Backend):
    name = "vllm"
    description = "vLLM engines of the run's own"
    usual_replicas = 1
    start_timeout_s = 600.0

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
        known = {"dtype": model.dtype, "max_model_len": model.max_model_len, "engine": model.engine}
        return {**known, **layout(model.abilities), **files_of(model.name)}

    def on(self, cluster_gpus: float) -> tuple[Backend, str]:
        """On a CPU, vLLM needs another block size than its own, compiles for minutes unless it is told not to, and runs
        weights of float32 safely in no other type."""
        if cluster_gpus:
            return self, ""
        model, weights = self.settings, weights_of(self.settings.name)
        engine = {key: value for key, value in ON_A_CPU.items() if key not in model.engine}
        taken = {f"engine.{key}": value for key, value in engine.items()}
        dtype = model.dtype
        if dtype == "auto" and weights is not None and weights.type:
            dtype = taken["dtype"] = "float32" if weights.type == "F32" else "bfloat16"
        if model.replicas is None:
            taken["replicas"] = self.replicas
        if not taken:
            return self, ""
        settings = replace(model, dtype=dtype, engine={**model.engine, **engine})
        shown = " ".join(f"{self.key}.{name}={_shown(value)}" for name, value in sorted(taken.items()))
        return replace(self, settings=settings), f"vLLM on a CPU, with what was not set: {shown}"

    def check_memory(self, replicas: int, available_bytes: int) -> None:
        weights = weights_of(self.settings.name)
        if weights is None:
            return
        each = weights.size_bytes * (2 if self.settings.dtype == "float32" and weights.type in ("BF16", "F16") else 1)
        beside = cache_bytes(self.settings.engine) + PROCESSES_BYTES
        needed = replicas * (each + beside)
        if needed > available_bytes:
            raise UserError(
                f"{self.key}.name={self.settings.name} needs {_gb(needed)} of memory at least ({_gb(each)} of weights "
                f"and {_gb(beside)} beside them, {replicas} of each) and {_gb(available_bytes)} are free: use a "
                f"smaller model, fewer {self.key}.replicas or a smaller cache (VLLM_CPU_KVCACHE_SPACE=<GiB>), or close "
                "other programs"
            )

    def processes(self, cluster_gpus: float) -> tuple[int, float]:
        model = self.settings
        gpus = model.gpus
        if gpus is None:
            gpus = float(model.tensor_parallel) if cluster_gpus else 0.0
        if model.replicas or not gpus:
            return self.replicas, gpus
        # One at least, which is refused with the reason where it cannot be placed.
        return max(1, int(cluster_gpus // gpus)), gpus

    def counting(self) -> TokenCounting | None:
        text = token_counter(self.settings.name, self.settings.engine)
        return TokenCounting(f"the tokenizer of {self.settings.name}", text) if text else None

    def choice(self) -> ModelChoice:
        """A server that the team's user starts on the same machine with `vllm serve <name>`."""
        settings = {"base_url": SERVER, "name": self.settings.name}
        return ModelChoice(kind="openai", settings=settings, key_env=self.settings.key_env)


def _shown(value: Any) -> str:
    """As on the command line."""
    return value if isinstance(value, str) else json.dumps(value)


def _gb(size_bytes: int) -> str:
    return f"{size_bytes / 1e9:.1f} GB"
