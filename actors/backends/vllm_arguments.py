"""Checks a vLLM model's settings within milliseconds: vLLM's source is read, not imported."""

from __future__ import annotations

import ast
import importlib.util
import os
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from actors.backends.weights import is_missing_folder
from actors.lookup import near_miss

CPU_CACHE_BYTES = 4 * 2**30

# Set by VllmSettings itself; as engine arguments they would contradict it.
SETTINGS = {
    "model": "name",
    "tensor_parallel_size": "tensor_parallel",
    "max_model_len": "max_model_len",
    "dtype": "dtype",
}


def check_engine_arguments(engine: Mapping[str, Any]) -> None:
    """Raises ValueError for an argument that vLLM does not have, with the nearest one that it has.

    Where vLLM is missing, names are not checked: loading the model will fail and say so.
    """
    for key in engine:
        if key in SETTINGS:
            raise ValueError(f"engine argument {key!r}: use the model's setting {SETTINGS[key]!r} instead")
    known = known_arguments()
    for key in engine:
        if known and key not in known:
            raise ValueError(f"vLLM has no engine argument {key!r}.{near_miss(key, known)}")


def cache_bytes(engine: Mapping[str, Any]) -> int:
    """The memory that an engine on a CPU sets aside for its cache.

    vLLM itself would take nearly all memory of the machine, or end where other programs have some of it.
    """
    given = os.environ.get("VLLM_CPU_KVCACHE_SPACE", "")
    if given.isdigit():
        return int(given) * 2**30
    return int(engine.get("kv_cache_memory_bytes") or CPU_CACHE_BYTES)


def check_folder(name: str) -> None:
    """Raises ValueError for a path that does not exist: vLLM would take it for an id of Hugging Face."""
    if is_missing_folder(name):
        raise ValueError(
            f"vLLM cannot load {name!r}: there is no such folder on {platform.node()}; give one or a Hugging Face id"
        )


def known_arguments() -> list[str]:
    """The fields of the installed vLLM's AsyncEngineArgs; empty without vLLM. Importing it would take ten seconds."""
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
