"""Inspects a model's files without loading it: size and type of its weights, its tokenizer."""

from __future__ import annotations

import json
import logging
import struct
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from actors.prompting.safe_text import one_line

LOG = logging.getLogger(__name__)
LENGTH = struct.Struct("<Q")
LONGEST_HEADER = 100_000_000
WIDTHS = {"F64": 8, "F32": 4, "BF16": 2, "F16": 2}
LOADED = {"float32": 4, "bfloat16": 2, "float16": 2}
BFLOAT16_ARITHMETIC = ("avx512_bf16", "amx_bf16", "bf16")  # Intel and AMD, Intel, Arm


@dataclass(frozen=True, slots=True)
class Weights:
    """Size of a model's weights, in all and for each number type as safetensors names it (`F32`, `BF16`, `I8`, ...).

    `bytes_of` is empty where the types are unknown.
    """

    size_bytes: int
    bytes_of: Mapping[str, int]

    @property
    def type(self) -> str:
        """The type of most floating-point numbers; empty without any. A quantised model computes in this type."""
        numbers = {name: size // WIDTHS[name] for name, size in self.bytes_of.items() if name in WIDTHS}
        return max(numbers, key=lambda name: numbers[name], default="")


def weights_of(name: str) -> Weights | None:
    """Measures the weights of a local folder or of a downloaded Hugging Face id; None for any other name."""
    folder = Path(name) if Path(name).is_dir() else _downloaded(name)
    if folder is None:
        return None
    files = sorted(folder.glob("*.safetensors")) or sorted(folder.glob("*.bin"))
    if not files:
        return None
    return Weights(sum(file.stat().st_size for file in files), _bytes_of(files))


def loaded_bytes(name: str, dtype: str) -> int | None:
    """Returns the size of a model's weights once loaded as `dtype` (`auto`: their type); None if not downloaded."""
    weights = weights_of(name)
    if weights is None:
        return None
    if dtype not in LOADED:
        return weights.size_bytes
    widths = {name: LOADED[dtype] / width for name, width in WIDTHS.items()}  # quantised numbers keep their size
    return weights.size_bytes + sum(int(size * (widths.get(name, 1) - 1)) for name, size in weights.bytes_of.items())


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
    The reason for None goes to the log.

    Args:
        name: a Hugging Face id or a local folder.
        engine: engine arguments, which may name another tokenizer.
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


def _bytes_of(files: Sequence[Path]) -> Mapping[str, int]:
    """Reads the headers of safetensors files: eight bytes with the header's length, then JSON."""
    sizes: Counter[str] = Counter()
    for file in files:
        try:
            with file.open("rb") as opened:
                (length,) = LENGTH.unpack(opened.read(LENGTH.size))
                header = json.loads(opened.read(min(length, LONGEST_HEADER)))
            for tensor, entry in header.items():
                if tensor != "__metadata__":
                    begin, end = entry["data_offsets"]
                    sizes[str(entry["dtype"])] += int(end) - int(begin)
        except (OSError, ValueError, LookupError, TypeError, AttributeError, OverflowError, struct.error):
            return {}
    return sizes
