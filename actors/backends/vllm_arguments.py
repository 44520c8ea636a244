"""Engine arguments of a vLLM model, checked within milliseconds: vLLM's source is read, not imported."""

import ast
import importlib.util
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from actors.lookup import near_miss

CPU_CACHE_BYTES = 4 * 2**30
# Arguments that settings of the model set; as engine arguments they would contradict it.
SETTINGS = {
    "model": "name",
    "tensor_parallel_size": "tensor_parallel",
    "max_model_len": "max_model_len",
    "dtype": "dtype",
}


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


def cpu_arguments(engine: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the further arguments of an engine on a CPU, among them the memory that it reserves for its cache.

    vLLM's default would take nearly all memory of the machine, or end where other programs use some of it.
    """
    # A seeded request whose prompt is computed in several chunks kills the engine (vLLM 0.32).
    arguments: dict[str, Any] = {"enable_chunked_prefill": False}
    # A configured share of the memory takes precedence.
    if "gpu_memory_utilization" not in engine:
        given = os.environ.get("VLLM_CPU_KVCACHE_SPACE", "")
        configured = int(engine.get("kv_cache_memory_bytes") or CPU_CACHE_BYTES)
        arguments["kv_cache_memory_bytes"] = int(given) * 2**30 if given.isdigit() else configured
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
