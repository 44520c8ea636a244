"""A model replica that runs on Hugging Face `transformers`, in the replica's own process; it reads text only.

It answers one request at a time, in a thread of its own, so that a reply depends on its request alone and the event
loop lives. What uses torch and transformers is in actors/backends/local_engine.py, which is imported by that thread.
"""

from __future__ import annotations

import asyncio
import logging
import platform
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from actors.backends.weights import is_missing_folder
from actors.errors import ModelError, ModelLost
from actors.messages import Abilities, Completion, Request
from actors.prompting.text import one_line

if TYPE_CHECKING:
    from actors.backends.local_engine import LocalEngine

DTYPES = ("auto", "float32", "bfloat16", "float16")

LOG = logging.getLogger(__name__)


@dataclass(slots=True)
class LocalSettings:
    """A model and the cores that it computes with.

    `name` is a Hugging Face id or a local folder; `max_model_len` counts tokens of prompt and reply together (None:
    the model's own context). `dtype=auto` is that of the weights; on a CPU without bfloat16 arithmetic, float32.
    `cpus` are the threads; with less than one, all cores are shared by as many replicas as `sharing` says.
    """

    name: str
    max_model_len: int | None = None
    dtype: str = "auto"
    cpus: float = 0.5
    sharing: int = 1


class LocalModel:
    """One model in this process. Any number of concurrent `complete` calls are served first come, first served."""

    def __init__(self, settings: LocalSettings) -> None:
        self.settings = settings
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="transformers")
        self._engine: LocalEngine | None = None
        self._closed = False

    async def start(self) -> None:
        """Loads the model; takes seconds to minutes.

        Raises ModuleNotFoundError without transformers and ValueError when the model is not usable.
        """
        name = self.settings.name
        if is_missing_folder(name):
            raise ValueError(f"there is no folder {name!r} on {platform.node()}; give one or a Hugging Face id")
        LOG.info("loading %s", name)
        began = time.monotonic()
        self._engine = await asyncio.get_running_loop().run_in_executor(self._worker, self._load)
        LOG.info("%s is loaded after %.0f s", name, time.monotonic() - began)

    def _load(self) -> LocalEngine:
        try:
            import transformers  # noqa: F401
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(f"no transformers here ({error}): pip install '.[transformers]'") from error
        from actors.backends.local_engine import load

        try:
            return load(self.settings)
        except Exception as error:  # whatever a folder's files and its chat template may raise
            reason = str(error) if isinstance(error, OSError | ValueError | RuntimeError) else repr(error)
            raise ValueError(f"transformers cannot run {self.settings.name!r}: {one_line(reason)}") from error

    async def abilities(self) -> Abilities:
        """What the loaded model can do."""
        return self._loaded().abilities

    async def complete(self, request: Request) -> Completion:
        """Answers one request. Cancelling the call ends the work on it after the token or the chunk in hand.

        Raises:
            ModelError: generating failed, for want of memory for instance (ModelLost: the model was closed).
        """
        engine, cancelled = self._loaded(), threading.Event()
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(
                self._worker, engine.complete, request, lambda: cancelled.is_set() or self._closed
            )
        except Exception as error:
            if self._closed:
                raise ModelLost("the model was closed") from error
            raise ModelError(one_line(f"transformers failed: {type(error).__name__}: {error}")) from error
        finally:
            cancelled.set()

    def _loaded(self) -> LocalEngine:
        if self._closed:
            raise ModelLost("the model was closed")
        if self._engine is None:
            raise RuntimeError("LocalModel.complete before start")
        return self._engine

    async def close(self) -> None:
        """Frees the model; requests in flight are lost. Closing twice does no harm."""
        self._closed = True
        await asyncio.to_thread(self._worker.shutdown)
        self._engine = None
