"""A model from a package of the user's own as a model backend."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from actors.backends.backend import Backend
from actors.backends.settings import ModelSettings
from actors.errors import UserError
from actors.models import Model


@dataclass(frozen=True)
class OwnBackend(Backend):
    """What `model=package.module:MyModel` names, or an entry point of the group `agora_mm.models`.

    factory: a class or function that is called with the settings in each replica's process and gives a `Model`.
        Where that has `async start()`, it is awaited before the first request.
    """

    factory: Callable[[ModelSettings], Model]

    def maker(self) -> Callable[[], Model]:
        if not callable(self.factory):
            raise UserError(f"{self.key}={self.settings.kind} is neither a class nor a function that makes a model")
        return partial(make, self.factory, self.settings)

    def dependencies(self) -> Mapping[str, Any]:
        """With a digest of the source file: completions of an earlier version are not those of this one."""
        # The module that defines it: a package may only pass on the name.
        module = getattr(self.factory, "__module__", "")
        file = getattr(sys.modules.get(module), "__file__", None)
        code = Path(file).read_bytes() if file else b""
        return {
            "reference": f"{module}:{getattr(self.factory, '__qualname__', '')}",
            "extra": self.settings.extra,
            "engine": self.settings.engine,
            "code": hashlib.blake2b(code, digest_size=16).hexdigest(),
        }


def make(factory: Callable[[ModelSettings], Model], settings: ModelSettings) -> Model:
    """The model. Raises ValueError where it has no `complete`."""
    model = factory(settings)
    if not callable(getattr(model, "complete", None)):
        raise ValueError(f"{settings.kind} gave {type(model).__name__}, which has no method `complete`")
    return model
