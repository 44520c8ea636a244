"""Lets a CUDA build of torchvision import beside a CPU build of torch, on which vision-language processors depend.

`import torchvision` fails there because two compiled operators are missing; declaring them is enough for resizing and
normalising, which is all that processors use. Python imports this file by its name in every process that has this
folder on PYTHONPATH, and so it reaches the engine's own processes too.
"""

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

OPERATORS = ("nms", "qnms")
SIGNATURE = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"


class DeclareOperators(MetaPathFinder):
    """Declares the operators just before torchvision registers shapes for them, then gets out of the way."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname == "torchvision._meta_registrations":
            sys.meta_path.remove(self)
            import torch
            import torchvision.extension

            if not torchvision.extension._has_ops():
                for name in OPERATORS:
                    torch.library.define(f"torchvision::{name}", SIGNATURE)
        return None


sys.meta_path.insert(0, DeclareOperators())
