"""Caches completions, so that equal requests are computed once across agents, discussions, runs and trials.

A key depends on the model with its settings, the model that answers at its address, the layout of its requests, the
prompt, the contents of the pictures, and the sampling. It does not depend on the request's id, so that all equal
requests share it, nor on a picture's path, so that a copy of a data set serves as well.

Concurrent equal requests of one process are joined: one is computed, and the rest wait for it. Processes share finished
completions alone, through the disk within about a second: two that make the same request at once both pay.
"""

import asyncio
import hashlib
import os
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from sys import getsizeof

from actors.completions.completion_store import CompletionStore
from actors.messages import Abilities, Completion, Request
from actors.models import Model, abilities_of
from actors.pictures import identity
from actors.wire import replace

DIGEST_BYTES = 16
CACHED_STOPS = ("stop", "length")
ENTRY_BYTES = 500  # of memory without the text, measured
TOKEN_BYTES = 150  # a token's text, its log-probability and the pair
MAX_FILES = 50_000
WRITE_S = 0.2  # completions of this time are written together

FileVersion = tuple[str, int, int]  # path, bytes, and nanoseconds of its last change


@dataclass(frozen=True, slots=True)
class Reuse:
    """Settings of one model's cache, which drops the least recently used completions.

    `model` identifies the model and all settings that an answer depends on. The `folder` takes at most `disk_gb`, and
    each process `memory_mb`.
    """

    folder: str
    model: str
    disk_gb: float
    memory_mb: float


class CachedModel:
    """Puts a cache before a model. Belongs to one event loop; `close` leaves the model open."""

    def __init__(self, model: Model, reuse: Reuse) -> None:
        self._model = model
        self._identity = reuse.model
        self._abilities: Abilities | None = None
        self._memory: OrderedDict[bytes, Completion] = OrderedDict()  # the least recently used first
        self._free_bytes = int(reuse.memory_mb * 1e6)
        self._disk = CompletionStore(reuse.folder, int(reuse.disk_gb * 1e9))
        self._unwritten: dict[bytes, Completion] = {}
        self._digests: dict[FileVersion, bytes] = {}  # of pictures
        self._computing: dict[bytes, asyncio.Future[Completion | None]] = {}

    async def complete(self, request: Request) -> Completion:
        """Returns a cached completion, marked `reused`, or the model's own.

        Completions without an answer (`too_long`, `error`, an empty text), or from another model or layout than at the
        start, go to all that wait for them, but are not cached. An exception goes to the caller that asked; then
        another one asks.
        """
        try:
            key, abilities = await self._key(request)
        except (OSError, ValueError):
            return await self._model.complete(request)
        while (computing := self._computing.get(key)) is not None:
            await asyncio.wait([computing])  # awaiting the future itself, a cancelled waiter would cancel it for all
            if (computed := computing.result()) is not None:
                return _reused(computed, request.id)
        if cached := self._memory.get(key) or self._unwritten.get(key) or self._disk.get(key):
            self._remember(key, cached)
            return _reused(cached, request.id)

        future: asyncio.Future[Completion | None] = asyncio.get_running_loop().create_future()
        self._computing[key] = future
        completion = None
        try:
            completion = await self._model.complete(request)
            has_answer = completion.stop in CACHED_STOPS and completion.text.strip()
            if has_answer and completion.served == abilities.served:
                self._remember(key, completion)
                self._write_soon(key, completion)
            return completion
        finally:
            del self._computing[key]
            future.set_result(completion)  # None where the model raised

    def _write_soon(self, key: bytes, completion: Completion) -> None:
        if not self._disk.writable:
            return
        if not self._unwritten:
            asyncio.get_running_loop().call_later(WRITE_S, self._write)
        self._unwritten[key] = completion

    def _write(self) -> None:
        completions = self._unwritten
        self._unwritten = {}
        if completions:
            self._disk.put_all(completions.items())

    def _remember(self, key: bytes, completion: Completion) -> None:
        """Keeps a completion in memory, as the most recently used one."""
        if (replaced := self._memory.pop(key, None)) is not None:
            self._free_bytes += _size(replaced)
        self._memory[key] = completion
        self._free_bytes -= _size(completion)
        while self._free_bytes < 0:
            self._free_bytes += _size(self._memory.popitem(last=False)[1])

    async def _key(self, request: Request) -> tuple[bytes, Abilities]:
        """Returns the request's key and the model's abilities. Raises OSError or ValueError for an unreadable
        picture."""
        digests = await self._picture_digests([source.image for source in request.images])
        if self._abilities is None:
            self._abilities = await self.abilities()
        abilities = self._abilities
        layout = (
            abilities.pictures,
            abilities.most_pictures,
            abilities.system_turn,
            abilities.served,
            [name for name, _ in abilities.adapted],
        )
        return completion_key(request, f"{self._identity}{layout}", digests), abilities

    async def _picture_digests(self, paths: Sequence[str | None]) -> list[bytes | None]:
        """Returns the digests of files. Raises OSError or ValueError for an unreadable one."""
        # Before reading: a file that changes while it is read is read again next time.
        versions = [None if path is None else _version(path) for path in paths]
        new_versions = [version for version in versions if version is not None and version not in self._digests]
        if new_versions:
            new_digests = await asyncio.to_thread(_file_digests, new_versions)
            self._digests.update(new_digests)
        digests = [None if version is None else self._digests[version] for version in versions]
        if len(self._digests) > MAX_FILES:
            self._digests = {}
        return digests

    async def abilities(self) -> Abilities:
        """Returns the abilities of the model behind the cache."""
        return await abilities_of(self._model)

    def close(self) -> None:
        """Writes what was computed to disk. Later calls work, but write nothing."""
        self._write()
        self._disk.close()


def completion_key(request: Request, model: str, files: Sequence[bytes | None]) -> bytes:
    """Returns the digest of everything that a completion may depend on. `files` are digests of the pictures' files.

    Id, title and description of a picture count too, since models differ in what they use. The request's `parts` repeat
    its text, and do not count.
    """
    parts = [
        request.own,
        repr(float(request.temperature)),
        str(request.max_tokens),
        str(request.seed),
        str(request.likelihoods),
        request.rejected,
        request.correction,
    ]
    for source in request.images:
        parts += [source.id, source.title, source.text]
    encoded = [part.encode("utf-8", "surrogatepass") for part in parts]
    encoded += map(_digest, (model, request.system, request.shared, request.schema))
    encoded += [file or b"" for file in files]
    # The lengths come first, so that no two requests are the same bytes, divided differently.
    lengths = " ".join(map(str, map(len, encoded)))
    return hashlib.blake2b(b"".join([lengths.encode(), b"\n", *encoded]), digest_size=DIGEST_BYTES).digest()


@lru_cache(maxsize=1024)
def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=DIGEST_BYTES).digest()


def _reused(completion: Completion, request_id: str) -> Completion:
    return replace(completion, id=request_id, cached_tokens=0, reused=True, replica=0)


def _version(path: str) -> FileVersion:
    status = os.stat(path)
    return path, status.st_size, status.st_mtime_ns


def _file_digests(versions: Sequence[FileVersion]) -> dict[FileVersion, bytes]:
    return {version: hashlib.blake2b(identity(version[0])).digest()[:DIGEST_BYTES] for version in versions}


def _size(completion: Completion) -> int:
    return getsizeof(completion.text) + ENTRY_BYTES + TOKEN_BYTES * len(completion.tokens)
