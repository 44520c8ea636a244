"""The kinds of models that `model=` and `judge=` name. A new one is a file beside these and an entry in `BACKENDS`."""

from __future__ import annotations

from typing import Any

from actors.backends.backend import Backend
from actors.backends.local import LocalBackend
from actors.backends.openai import OpenAIBackend
from actors.backends.own import OwnBackend
from actors.backends.reader import ReaderBackend
from actors.backends.settings import ModelSettings
from actors.backends.vllm import VllmBackend
from actors.lookup import find
from actors.reader.reader import ReaderSettings


class Replay(Backend):
    name = "replay"
    description = "what the run `replay.run` recorded, read from its folder"


class NoModel(Backend):
    name = "none"
    description = "nobody, for `judge`"


BACKENDS: tuple[type[Backend], ...] = (
    ReaderBackend,
    VllmBackend,
    LocalBackend,
    OpenAIBackend,
    Replay,
    NoModel,
)


def find_backend(key: str, settings: ModelSettings, reader: ReaderSettings) -> Backend:
    """The backend of `settings.kind`: one of `BACKENDS`, or one of the user's own.

    Args:
        key: the group of settings, `model` or `judge`, for errors.

    Raises:
        UserError: there is no such kind, or it cannot be imported.
    """
    known = {backend.name: backend for backend in BACKENDS}
    named: Any = find(settings.kind, known, "models", key)
    # By name and not by type: a reference of the user's own may name one of these classes.
    if settings.kind in known:
        return known[settings.kind](key, settings, reader)
    return OwnBackend(key, settings, reader, factory=named)
