"""Inspects a model's files without loading it: its files, the type of its numbers, its tokenizer."""

import json
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from actors.prompting.safe_text import one_line

LOG = logging.getLogger(__name__)
BFLOAT16_ARITHMETIC = ("avx512_bf16", "amx_bf16", "bf16")  # Intel and AMD, Intel, Arm


def declared_type(name: str) -> str:
    """Returns the number type that the `config.json` of a local folder or downloaded Hugging Face id names, or ""."""
    folder = Path(name) if Path(name).is_dir() else _downloaded(name)
    try:
        config = json.loads((folder / "config.json").read_bytes()) if folder else {}
    except (OSError, ValueError) as error:
        LOG.warning("the type of %r is not known: %s", name, one_line(str(error)))
        return ""
    # A model that reads pictures may have it in the configuration of its text part alone.
    parts = [config, config.get("text_config")] if isinstance(config, dict) else []
    named = [part.get("dtype") or part.get("torch_dtype") for part in parts if isinstance(part, dict)]
    return next((name for name in named if isinstance(name, str)), "")


def files_of(name: str) -> dict[str, Any]:
    """Lists name, size and date of a local folder's files, which change with further training; empty for an id."""
    folder = Path(name)
    if not folder.is_dir():
        return {}
    states = ((path.name, path.stat()) for path in sorted(folder.iterdir()))
    return {"files": [(file, state.st_size, state.st_mtime_ns) for file, state in states]}


def token_counter(name: str, engine: Mapping[str, Any]) -> Callable[[str], int] | None:
    """Returns a function from a text to its number of tokens, special ones excluded; None without a tokenizer.

    The tokenizer is searched where vLLM would: in a local folder, or on Hugging Face (its cache, or the network).
    `engine` may name another one than the model's. The reason for None goes to the log.
    """
    try:
        from transformers import AutoTokenizer
    except ImportError as error:
        LOG.warning("tokens cannot be counted: %s", one_line(str(error)))
        return None
    try:
        tokenizer = AutoTokenizer.from_pretrained(
            engine.get("tokenizer") or name,
            revision=engine.get("tokenizer_revision") or engine.get("revision"),
            cache_dir=engine.get("download_dir"),
            trust_remote_code=engine.get("trust_remote_code", False),
        )
    except Exception as error:  # a tokenizer may bring code, which may raise anything
        LOG.warning("tokens cannot be counted: no tokenizer of %r: %s", name, one_line(str(error)))
        return None

    def count(text: str) -> int:
        return len(tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])

    return count


def computes_bfloat16() -> bool:
    """Tests whether this machine's processor multiplies matrices of bfloat16 directly.

    Without such instructions a CPU converts every number before it multiplies: prompts took seven times as long as in
    float32 (EPYC of the third generation).
    """
    import torch

    able = torch.cpu.get_capabilities()
    return any(able.get(name) for name in BFLOAT16_ARITHMETIC)


def _downloaded(name: str) -> Path | None:
    try:
        from huggingface_hub import try_to_load_from_cache
        from huggingface_hub.errors import HFValidationError
    except ImportError:
        return None
    try:
        config = try_to_load_from_cache(name, "config.json")
    except HFValidationError:
        return None
    # A missing file is None or a marker object.
    return Path(config).parent if isinstance(config, str) else None
