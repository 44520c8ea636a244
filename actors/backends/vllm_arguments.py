"""Settings and engine arguments of a vLLM model, checked within milliseconds: vLLM's source is read, not imported."""

from __future__ import annotations

import ast
import importlib.util
import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from actors.backends.model_files import is_missing_folder
from actors.backends.model_settings import DeclaredAbilities
from actors.lookup import near_miss

CPU_CACHE_BYTES = 4 * 2**30
# Arguments that VllmSettings sets; as engine arguments they would contradict it.
SETTINGS = {
    "model": "name",
    "tensor_parallel_size": "tensor_parallel",
    "max_model_len": "max_model_len",
    "dtype": "dtype",
}


@dataclass(slots=True)
class VllmSettings:
    """A model and its engine. On a CPU, use `dtype="float32"` and an `engine` block size that is a multiple of 32.

    name: a Hugging Face id or a local folder.
    max_model_len: tokens of prompt and reply together (None: the model's maximum).
    engine: passed to vLLM unchanged (`gpu_memory_utilization`, `limit_mm_per_prompt`, ...).
    hang_s: an engine that answers nothing for so long is given up. It must exceed the engine's longest step: one chunk
        of prompts (`max_num_batched_tokens`), or one token for each running request; on a CPU, where prompts are
        computed whole, all waiting prompts, up to the context together.
    abilities: declared ones, which take precedence over the engine's.
    """

    name: str
    tensor_parallel: int = 1
    max_model_len: int | None = None
    dtype: str = "auto"
    engine: dict[str, Any] = field(default_factory=dict)
    hang_s: float = 120.0
    abilities: DeclaredAbilities = field(default_factory=DeclaredAbilities)


def check_engine_arguments(engine: Mapping[str, Any]) -> None:
    """Raises ValueError for an argument that vLLM does not have, with the most similar one that it has.

    Without vLLM, names are not checked: loading the model will fail with that reason.
    """
    for key in engine:
        if key in SETTINGS:
            raise ValueError(f"engine argument {key!r}: use the model's setting {SETTINGS[key]!r} instead")
    known = known_arguments()
    for key in engine:
        if known and key not in known:
            raise ValueError(f"vLLM has no engine argument {key!r}.{near_miss(key, known)}")


def check_folder(name: str) -> None:
    """Raises ValueError for a path that does not exist: vLLM would take it for a Hugging Face id."""
    if is_missing_folder(name):
        raise ValueError(
            f"vLLM cannot load {name!r}: there is no such folder on {platform.node()}; give one or a Hugging Face id"
        )


def cache_bytes(engine: Mapping[str, Any]) -> int:
    """Returns the memory that an engine on a CPU reserves for its cache.

    vLLM's default would take nearly all memory of the machine, or end where other programs use some of it.
    """
    given = os.environ.get("VLLM_CPU_KVCACHE_SPACE", "")
    if given.isdigit():
        return int(given) * 2**30
    return int(engine.get("kv_cache_memory_bytes") or CPU_CACHE_BYTES)


def cpu_arguments(engine: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the further arguments of an engine on a CPU."""
    # A seeded request whose prompt is computed in several chunks kills the engine (vLLM 0.32).
    arguments: dict[str, Any] = {"enable_chunked_prefill": False}
    # A configured share of the memory takes precedence.
    if "gpu_memory_utilization" not in engine:
        arguments["kv_cache_memory_bytes"] = cache_bytes(engine)
    return arguments


def known_arguments() -> list[str]:
    """Lists the fields of the installed vLLM's AsyncEngineArgs; empty without vLLM. Its import takes ten seconds."""
    spec = importlib.util.find_spec("vllm")
    if spec is None or spec.origin is None:
        return []
    source = Path(spec.origin).parent / "engine" / "arg_utils.py"
    if not source.is_file():
        return []
    return [
        field.target.id
        for definition in ast.parse(source.read_text(encoding="utf-8")).body
        if isinstance(definition, ast.ClassDef) and definition.name in ("EngineArgs", "AsyncEngineArgs")
        for field in definition.body
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
    ]
