"""Asks a run's completion cache for the replies to rebuilt requests, and keeps both.

The cache finds a reply under a digest of everything in the request. A reply from the cache so proves that the prompt is
byte for byte the one that the model got.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from actors.backends.backend import Backend
from actors.completions.cache import CachedModel, Reuse
from actors.completions.completion_store import file_name
from actors.errors import ModelError
from actors.messages import Abilities, Completion, Request
from actors.models import Model
from actors.settings import CompletionSettings
from experiments.running.launching import COMPLETIONS


@dataclass(frozen=True)
class Call:
    """One request, and its reply with where that is from. None where there is none."""

    request: Request
    completion: Completion | None = None
    source: Literal["cache", "computed"] | None = None


class NotKept(Exception):
    """The cache has no reply, and none can be computed."""


class KeptReplies:
    """A model that answers from a run's completion cache, or else computes the reply where that costs nothing.

    calls: those of one turn, in order. missing: why replies cannot be found at all; empty where they can.
    """

    def __init__(self, backend: Backend, abilities: Abilities, kept: CompletionSettings, cache: Path) -> None:
        self.calls: list[Call] = []
        self._abilities = abilities
        folder, self.missing = cache / COMPLETIONS, ""
        if not kept.reuse:
            self.missing = "the run kept no replies (completions.reuse=false)"
        # Opening the cache would make it.
        elif not (folder.is_dir() and (folder / file_name(folder)).is_file()):
            self.missing = f"there is no completion cache in {folder}: put it back, or start with cache=<folder>"
        # A model that runs on GPUs is another one without: settings that were left open were filled in for these.
        identities = dict.fromkeys(backend.on(gpus)[0].identity() for gpus in (0.0, 1.0))
        reuse = [Reuse(str(folder), identity, kept.disk_gb, 0) for identity in identities]
        self._caches = [] if self.missing else [CachedModel(self, each) for each in reuse]
        # The embedded reader alone needs no network, no weights and no time.
        self._live: Model | None = backend.maker()() if backend.settings.kind == "reader" else None

    async def abilities(self) -> Abilities:
        return self._abilities

    async def complete(self, request: Request) -> Completion:
        """Returns the reply. Raises NotKept."""
        call = Call(request)
        try:
            found = [kept for cache in self._caches if (kept := await cache.kept(request))]
            if found:
                call = Call(request, found[0], "cache")
            elif self._live:
                call = Call(request, await self._live.complete(request), "computed")
        except (OSError, ModelError) as error:  # a picture that cannot be read any more
            self.missing = str(error)
        self.calls.append(call)
        if call.completion is None:
            raise NotKept
        return call.completion

    def close(self) -> None:
        for cache in self._caches:
            cache.close()
