"""Keeps a learner's state, from which a killed run resumes, with the sizes of its record files."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import Field
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from actors.errors import UserError
from experiments.records.records import Count, Record
from experiments.records.run_files import write_atomically

LEARNING = "learning.jsonl"
MOST_BYTES = 2**30  # far above any learner's state; a sparse file may have a size that no memory holds
# The only files that a checkpoint vouches for; resuming cuts them, so a received checkpoint may name no others.
TrainingFile = Annotated[str, Field(pattern=r"^(learning|traces/train-[1-9][0-9]{0,5})\.jsonl$")]


@dataclass(frozen=True)
class Checkpoint:
    """`state` after `step` training steps of `stage`, with bytes (`sizes`) and hashes of the record files."""

    stage: int
    step: int
    state: dict[str, np.ndarray]
    sizes: dict[str, int]
    digests: dict[str, str] = field(default_factory=dict)

    def write(self, path: Path) -> None:
        """Replaces `path` atomically."""
        # Row by row: safetensors writes an array's memory as it is, whatever its strides.
        state = {name: np.asarray(array, order="C") for name, array in self.state.items()}
        about = {"stage": self.stage, "step": self.step, "sizes": self.sizes, "digests": self.digests}
        # One entry: safetensors writes several in an order that changes from process to process.
        metadata = {"about": json.dumps(about | {"digest": digest(state, about)})}
        write_atomically(path, save(state, metadata))

    @staticmethod
    def read(path: Path) -> "Checkpoint":
        """Raises UserError when the file is damaged, in its header or in any byte of an array."""
        try:
            if path.stat().st_size > MOST_BYTES:
                raise ValueError(f"it has more than {MOST_BYTES:,} bytes")
            with safe_open(path, framework="np") as file:
                about = asdict(_About.decode((file.metadata() or {})["about"]))
                state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
            if about.pop("digest") != digest(state, about):
                raise ValueError("its content has changed")
            return Checkpoint(state=state, **about)
        # Everything that a damaged header, missing field or wrong type can raise has one remedy.
        except (SafetensorError, ValueError, KeyError, TypeError, OSError) as error:
            raise UserError(
                f"{path} is not an intact checkpoint ({error}); delete this file and resume to learn again from the "
                "start (recorded answers are kept), or restore it from a copy"
            ) from error


@dataclass(frozen=True, slots=True)
class _About(Record):
    stage: Count
    step: Count
    sizes: dict[TrainingFile, Count]
    digests: dict[TrainingFile, str]
    digest: str


def digest(state: Mapping[str, np.ndarray], about: Mapping[str, object]) -> str:
    """Hashes a checkpoint: safetensors itself notices a file that was cut short, but no changed byte."""
    hasher = hashlib.blake2b(json.dumps(about, sort_keys=True).encode(), digest_size=16)
    # Sorted: a state read back may list its arrays in another order.
    for name in sorted(state):
        array = state[name]
        hasher.update(f"{name}\x1ftorch.{array.dtype}\x1f{array.shape}\x1f".encode())  # PyTorch's names, as ever
        hasher.update(save({name: array}))
    return hasher.hexdigest()
