"""The files of a model's folder, and its weights: their size and the type of their numbers, without loading them."""

from __future__ import annotations

import json
import struct
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LENGTH = struct.Struct("<Q")
LONGEST_HEADER = 100_000_000


@dataclass(frozen=True, slots=True)
class Weights:
    """`bytes_of` each type of numbers, as safetensors names it (`F32`, `BF16`, `I8`, ...); empty if that is not
    known."""

    size_bytes: int
    bytes_of: Mapping[str, int]

    @property
    def type(self) -> str:
        """That of most floating-point numbers; empty without any. Where others are quantised, a model computes in
        it."""
        numbers = {name: size // WIDTHS[name] for name, size in self.bytes_of.items() if name in WIDTHS}
        return max(numbers, key=lambda name: numbers[name], default="")


WIDTHS = {"F64": 8, "F32": 4, "BF16": 2, "F16": 2}
LOADED = {"float32": 4, "bfloat16": 2, "float16": 2}


def loaded_bytes(name: str, dtype: str) -> int | None:
    """The size of a model's weights once they are loaded as a type such as `float32` (`auto`: their own); None where
    they are not here yet."""
    weights = weights_of(name)
    if weights is None:
        return None
    if dtype not in LOADED:
        return weights.size_bytes
    widths = {name: LOADED[dtype] / width for name, width in WIDTHS.items()}  # numbers that are quantised stay so
    return weights.size_bytes + sum(int(size * (widths.get(name, 1) - 1)) for name, size in weights.bytes_of.items())


def weights_of(name: str) -> Weights | None:
    """The weights of a local folder, or of a Hugging Face id that was downloaded before; None for any other."""
    folder = Path(name) if Path(name).is_dir() else _downloaded(name)
    if folder is None:
        return None
    files = sorted(folder.glob("*.safetensors")) or sorted(folder.glob("*.bin"))
    if not files:
        return None
    return Weights(sum(file.stat().st_size for file in files), _bytes_of(files))


def is_missing_folder(name: str) -> bool:
    """True for a path that does not exist, which would be taken for an id of Hugging Face."""
    return name.startswith(("/", "./", "../", "~")) and not Path(name).exists()


def files_of(name: str) -> dict[str, Any]:
    """The files of a local folder, by which a model that was trained on is told apart; nothing for any other name."""
    folder = Path(name)
    if not folder.is_dir():
        return {}
    states = ((path.name, path.stat()) for path in sorted(folder.iterdir()))
    return {"files": [(file, state.st_size, state.st_mtime_ns) for file, state in states]}


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
    # What is not there is None or a marker.
    return Path(config).parent if isinstance(config, str) else None


def _bytes_of(files: Sequence[Path]) -> Mapping[str, int]:
    """By the headers of safetensors files: eight bytes with its length, then JSON."""
    sizes: Counter[str] = Counter()
    for file in files:
        try:
            with file.open("rb") as opened:
                (length,) = LENGTH.unpack(opened.read(LENGTH.size))
                header = json.loads(opened.read(min(length, LONGEST_HEADER)))
            for tensor, about in header.items():
                if tensor != "__metadata__":
                    begin, end = about["data_offsets"]
                    sizes[str(about["dtype"])] += int(end) - int(begin)
        except (OSError, ValueError, LookupError, TypeError, AttributeError, OverflowError, struct.error):
            return {}
    return sizes
