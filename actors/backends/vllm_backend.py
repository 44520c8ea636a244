"""vLLM engines as a kind of model: one engine in each replica's process."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from actors.backends.backend import Backend, TokenCounting
from actors.backends.model_choice import ModelChoice
from actors.backends.model_files import computes_bfloat16, declared_type, files_of, token_counter
from actors.backends.model_settings import declared_layout
from actors.backends.vllm_arguments import check_engine_arguments
from actors.backends.vllm_model import VllmModel
from actors.errors import UserError
from actors.models import Model

# vLLM needs these on a CPU, and no answer depends on them.
ON_A_CPU: Mapping[str, Any] = {"block_size": 32, "enforce_eager": True}
# A step there may be a whole context of prompts; two cores compute some 45 tokens a second (1.5 billion weights).
HANG_ON_A_CPU_S = 1800

GPU_SHARE = 0.9  # vLLM's default of gpu_memory_utilization
SERVER = "http://localhost:8000/v1"  # default address of `vllm serve`


class VllmBackend(Backend):
    name = "vllm"
    description = "vLLM engines that the run starts"
    usual_replicas = 1
    start_timeout_s = 600.0

    def maker(self) -> Callable[[], Model]:
        if not self.settings.name:
            raise UserError(f"{self.key}=vllm needs {self.key}.name=<Hugging Face id or local folder>")
        try:
            check_engine_arguments(self.settings.engine)
        except ValueError as error:
            raise UserError(f"{self.key}.engine: {error}") from error
        return partial(VllmModel, self.settings)

    def dependencies(self) -> Mapping[str, Any]:
        """Includes the files of a local folder, which change with further training."""
        model = self.settings
        known = {"dtype": model.dtype, "max_model_len": model.max_model_len, "engine": model.engine}
        return {**known, **declared_layout(model), **files_of(model.name)}

    def on(self, cluster_gpus: float) -> tuple[Backend, str]:
        """Fills in what vLLM needs on a CPU.

        It needs another block size than its default, compiles for minutes by default, and has steps of many
        minutes. It runs float32 weights safely in no other type, and others fast in bfloat16 only where the processor
        supports it (this machine's is taken for all nodes').
        """
        if cluster_gpus:
            return self, ""
        model, declared = self.settings, declared_type(self.settings.name)
        engine = {key: value for key, value in ON_A_CPU.items() if key not in model.engine}
        taken = {f"engine.{key}": value for key, value in engine.items()}
        dtype = model.dtype
        if dtype == "auto" and declared:
            dtype = "bfloat16" if declared != "float32" and computes_bfloat16() else "float32"
            taken["dtype"] = dtype
        hang_s = model.hang_s
        if hang_s is None:
            hang_s = taken["hang_s"] = HANG_ON_A_CPU_S
        if model.replicas is None:
            taken["replicas"] = self.replicas
        if not taken:
            return self, ""
        settings = replace(model, dtype=dtype, hang_s=hang_s, engine={**model.engine, **engine})
        # As on the command line.
        shown = " ".join(
            f"{self.key}.{name}={value if isinstance(value, str) else json.dumps(value)}"
            for name, value in sorted(taken.items())
        )
        return replace(self, settings=settings), f"vLLM on a CPU, with what was not set: {shown}"

    def gpu_share(self) -> float:
        return float(self.settings.engine.get("gpu_memory_utilization", GPU_SHARE))

    @property
    def gpus_each(self) -> float:
        return float(self.settings.tensor_parallel) if self.settings.gpus is None else self.settings.gpus

    def processes(self, cluster_gpus: float) -> tuple[int, float]:
        model = self.settings
        gpus = self.gpus_each if cluster_gpus or model.gpus is not None else 0.0
        if model.replicas or not gpus:
            return self.replicas, gpus
        # At least one, which is refused with the reason where it cannot be placed.
        return max(1, int(cluster_gpus // gpus)), gpus

    def counting(self) -> TokenCounting | None:
        text = token_counter(self.settings.name, self.settings.engine)
        return TokenCounting(f"the tokenizer of {self.settings.name}", text) if text else None

    def choice(self) -> ModelChoice:
        """Returns a server that the team's user starts on the same machine with `vllm serve <name>`."""
        settings = {"base_url": SERVER, "name": self.settings.name}
        return ModelChoice(kind="openai", settings=settings, key_env=self.settings.key_env)
