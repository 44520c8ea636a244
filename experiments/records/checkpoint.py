"""A learner's state on disk with the sizes of the record files at that moment, so that a killed run can be resumed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from actors.errors import UserError
from experiments.records.atomic import write_atomically


@dataclass(frozen=True)
class Checkpoint:
    """`state` after `step` training steps of `stage`; `sizes` are the bytes of each record file at that moment."""

    stage: int
    step: int
    state: dict[str, Tensor]
    sizes: dict[str, int]

    def write(self, path: Path) -> None:
        """Replaces `path` whole: a reader, or a run killed here, finds the old checkpoint or the new one."""
        # Cloned, because safetensors refuses tensors that share memory.
        state = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in self.state.items()}
        about = {"stage": self.stage, "step": self.step, "sizes": self.sizes, "digest": digest(state)}
        # One entry: safetensors writes several in an order that changes from process to process.
        write_atomically(path, save(state, {"about": json.dumps(about)}))

    @staticmethod
    def read(path: Path) -> Checkpoint:
        """Raises UserError when the file is damaged, in its header or in any byte of a tensor."""
        try:
            with safe_open(path, framework="pt") as file:
                about = json.loads((file.metadata() or {})["about"])
                state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
            if digest(state) != about["digest"]:
                raise ValueError("its tensors have changed")
            return Checkpoint(about["stage"], about["step"], state, about["sizes"])
        # Everything that a damaged header, missing field or wrong type can raise becomes one advice.
        except (SafetensorError, ValueError, KeyError, TypeError, OSError) as error:
            raise UserError(
                f"{path} is not an intact checkpoint ({error}); delete this file and resume to learn again from the "
                "start (answers already recorded are kept), or restore it from a copy"
            ) from error


def digest(state: Mapping[str, Tensor]) -> str:
    """Hash of names, types, shapes and bytes.

    safetensors itself notices a file that was cut short, but no changed byte.
    """
    hasher = hashlib.blake2b(digest_size=16)
    # Sorted: a state read back may list its tensors in another order.
    for name in sorted(state):
        tensor = state[name]
        hasher.update(f"{name}\x1f{tensor.dtype}\x1f{tuple(tensor.shape)}\x1f".encode())
        hasher.update(save({name: tensor}))
    return hasher.hexdigest()
