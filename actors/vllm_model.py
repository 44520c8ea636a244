"""A model replica that runs on vLLM: one engine, real pictures, the model's own chat template.

The only module that knows vLLM, and it imports it on `start`, so that everything else works where vLLM is missing.
Written against vLLM 0.32, whose renderer turns chat messages with pictures into the engine's input.
"""

from __future__ import annotations

import asyncio
import dataclasses
import difflib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from PIL import Image

from actors.messages import Completion, Request
from actors.models import ModelError
from actors.prompt import one_line

HEALTH_PERIOD_S = 1.0
DESCRIPTIONS = "## What pictures without a file show"


@dataclass(slots=True)
class VllmSettings:
    """What to load and how. On a CPU, use `dtype="float32"` and an `engine` block size that is a multiple of 32.

    `name` is a Hugging Face id or a local folder; `max_model_len` counts tokens of prompt and reply together (None:
    the model's own context); `engine` goes to vLLM as it is (`gpu_memory_utilization`, `limit_mm_per_prompt`, ...).
    """

    name: str
    tensor_parallel: int = 1
    max_model_len: int | None = None
    dtype: str = "auto"
    engine: dict[str, Any] = field(default_factory=dict)


class VllmModel:
    """One engine and its processes. Safe for any number of concurrent `complete` calls: vLLM batches them."""

    def __init__(self, settings: VllmSettings) -> None:
        self.settings = settings
        self._engine: Any = None

    async def start(self) -> None:
        """Load the model; takes seconds to minutes, during which the event loop stands still.

        Raises ModuleNotFoundError without vLLM and ValueError when the model or an engine argument is not usable.
        """
        try:
            from vllm.engine.arg_utils import AsyncEngineArgs
            from vllm.v1.engine.async_llm import AsyncLLM
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(f"no vLLM here ({error}): pip install '.[vllm]'") from error
        known = [argument.name for argument in dataclasses.fields(AsyncEngineArgs)]
        for key in self.settings.engine:
            if key not in known:
                close = difflib.get_close_matches(key, known, n=1)
                hint = f", did you mean {close[0]!r}?" if close else ""
                raise ValueError(f"vLLM has no engine argument {key!r}{hint}")
        try:
            self._engine = AsyncLLM.from_engine_args(AsyncEngineArgs(**self._arguments()))
        except (OSError, ValueError, RuntimeError) as error:
            raise ValueError(f"vLLM cannot load {self.settings.name!r}: {one_line(str(error))}") from error

    def _arguments(self) -> dict[str, Any]:
        return {
            "model": self.settings.name,
            "tensor_parallel_size": self.settings.tensor_parallel,
            "max_model_len": self.settings.max_model_len,
            "dtype": self.settings.dtype,
            **self.settings.engine,
            # No prompt here has a video, and vLLM sets memory aside for every kind of input that it must expect.
            "limit_mm_per_prompt": {"video": 0, **self.settings.engine.get("limit_mm_per_prompt", {})},
        }

    async def complete(self, request: Request) -> Completion:
        """Answer one request; one that is too long, or whose pictures cannot be read, gets a completion that says so.

        Cancelling the call takes the request out of the engine. Raises ModelError when the engine failed.
        """
        if self._engine is None:
            raise RuntimeError("VllmModel.complete before start, or after close")
        from vllm.exceptions import VLLMClientError

        try:
            return await self._watched(asyncio.ensure_future(self._generate(request)))
        except (VLLMClientError, OSError, ValueError) as error:
            return Completion(id=request.id, text="", stop="error", error=one_line(str(error)))
        except ModelError:
            raise
        except Exception as error:
            raise ModelError(one_line(f"vLLM failed: {type(error).__name__}: {error}")) from error

    async def _watched(self, work: asyncio.Task[Completion]) -> Completion:
        """Wait for `work` as long as the engine lives: vLLM leaves requests waiting when their engine is killed."""
        try:
            while not work.done():
                await asyncio.wait({work}, timeout=HEALTH_PERIOD_S)
                if not work.done() and self._engine.errored:
                    raise ModelError("vLLM's engine died")
            return work.result()
        finally:
            if not work.done():
                work.cancel()
                await asyncio.wait({work})

    async def _generate(self, request: Request) -> Completion:
        from vllm import SamplingParams
        from vllm.renderers.params import ChatParams
        from vllm.sampling_params import RequestOutputKind

        pictures = await asyncio.to_thread(open_pictures, request)
        template = ChatParams(chat_template_kwargs={"add_generation_prompt": True})
        _, (prompt,) = await self._engine.renderer.render_chat_async([chat(request, pictures)], template)
        sampling = SamplingParams(
            seed=request.seed,
            temperature=request.temperature,
            max_tokens=request.max_tokens,
            output_kind=RequestOutputKind.FINAL_ONLY,
        )
        async for output in self._engine.generate(prompt, sampling, request.id):
            final = output
        reply = final.outputs[0]
        if reply.finish_reason not in ("stop", "length"):
            raise ModelError(f"vLLM ended the request: {reply.finish_reason}")
        return Completion(
            id=request.id,
            text=reply.text,
            prompt_tokens=len(final.prompt_token_ids),
            completion_tokens=len(reply.token_ids),
            cached_tokens=final.num_cached_tokens or 0,
            stop=reply.finish_reason,
        )

    async def close(self) -> None:
        """Stop the engine's processes; requests in flight are lost. Closing twice does no harm."""
        if self._engine is not None:
            self._engine.shutdown()
            self._engine = None


def open_pictures(request: Request) -> list[Image.Image]:
    """The request's picture files in order, as RGB; OSError names the one that cannot be read."""
    pictures = []
    for source in request.images:
        if source.image is None:
            continue
        try:
            with Image.open(source.image) as picture:
                pictures.append(picture.convert("RGB"))
        except (OSError, ValueError) as error:
            raise OSError(f"picture {source.id!r} cannot be read: {error}") from error
    return pictures


def chat(request: Request, pictures: Sequence[Image.Image]) -> list[dict[str, Any]]:
    """System turn, then one user turn: pictures, shared text, own text. A picture without a file is told in words."""
    told = [f"[{source.id}] {one_line(source.text)}" for source in request.images if source.image is None]
    text = "\n".join([request.shared, *([DESCRIPTIONS, *told] if told else []), request.own])
    return [
        {"role": "system", "content": request.system},
        {
            "role": "user",
            "content": [
                *({"type": "image_pil", "image_pil": picture} for picture in pictures),
                {"type": "text", "text": text},
            ],
        },
    ]
