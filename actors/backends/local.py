"""Models that Hugging Face `transformers` runs in each replica's own process, for machines without vLLM."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import partial
from math import ceil
from typing import Any

from actors.backends.backend import OF_PROCESSES, Backend, Memory, TokenCounting
from actors.backends.local_model import DTYPES, LocalModel, LocalSettings
from actors.backends.settings import common_fields
from actors.backends.tokenizer import token_counter
from actors.backends.weights import files_of, loaded_bytes
from actors.errors import UserError
from actors.models import Model

PROCESS_BYTES = 5 * 10**8  # torch and transformers, once they are imported


class LocalBackend(Backend):
    name = "transformers"
    reads = (*OF_PROCESSES, *(f.name for f in fields(LocalSettings)))
    description = "a small text model in this machine's own processes, without vLLM"

    def maker(self) -> Callable[[], Model]:
        model, key = self.settings, self.key
        if not model.name:
            raise UserError(f"{key}=transformers needs {key}.name=<Hugging Face id or local folder>")
        if model.dtype not in DTYPES:
            raise UserError(f"{key}.dtype={model.dtype}: {key}=transformers takes one of {', '.join(DTYPES)}")
        if model.engine or model.tensor_parallel != 1:
            raise UserError(f"{key}.engine and {key}.tensor_parallel are for {key}=vllm: leave them out")
        replicas, _ = self.processes(0)
        return partial(LocalModel, LocalSettings(**common_fields(LocalSettings, model), sharing=replicas))

    def dependencies(self) -> Mapping[str, Any]:
        """Of a local folder also its files: a model that was trained on is another one."""
        known = {"dtype": self.settings.dtype, "max_model_len": self.settings.max_model_len}
        return {**known, **files_of(self.settings.name)}

    def processes(self, cluster_gpus: float) -> tuple[int, float]:
        """A GPU for each replica, or an equal part of one where there are fewer: small models share it."""
        replicas, gpus = super().processes(cluster_gpus)
        if self.settings.gpus is None and cluster_gpus:
            return replicas, 1 / ceil(replicas / cluster_gpus)
        return replicas, gpus

    def memory(self) -> Memory | None:
        size = loaded_bytes(self.settings.name, self.settings.dtype)
        return None if size is None else Memory(size, PROCESS_BYTES)

    def gpu_bytes(self) -> int | None:
        return loaded_bytes(self.settings.name, self.settings.dtype)

    def counting(self) -> TokenCounting | None:
        text = token_counter(self.settings.name, {})
        return TokenCounting(f"the tokenizer of {self.settings.name}", text) if text else None
