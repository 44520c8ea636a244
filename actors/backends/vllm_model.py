"""A model replica that runs on vLLM: one engine, real pictures, the model's own chat template.

With actors/backends/vllm_chat.py the only code that uses vLLM; both import it where it is used, so that everything else
works where vLLM is missing. Written against vLLM 0.32, whose renderer turns a chat into the engine's input.
"""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import psutil

from actors.backends.chat import SEEDS, pictures_in_words
from actors.backends.likelihoods import Tokens, of_text, pieces
from actors.backends.outcomes import refused, too_long
from actors.backends.settings import DeclaredAbilities
from actors.backends.vllm_arguments import cache_bytes, check_engine_arguments, check_folder
from actors.backends.vllm_chat import open_pictures, system_turns, takes_pictures, template_parameters, turns
from actors.errors import ModelError, ModelLost
from actors.memory import kills
from actors.messages import Abilities, Completion, Request
from actors.processes import descendants, ended, kill
from actors.prompting.text import one_line

BEAT_S = 1.0
ABORT_S = 5.0  # the longest wait for vLLM to take a cancelled request out of its engine

LOG = logging.getLogger(__name__)


@dataclass(slots=True)
class VllmSettings:
    """A model and its engine. On a CPU, use `dtype="float32"` and an `engine` block size that is a multiple of 32.

    `name` is a Hugging Face id or a local folder; `max_model_len` counts tokens of prompt and reply together (None:
    the model's own context); `engine` goes to vLLM as it is (`gpu_memory_utilization`, `limit_mm_per_prompt`, ...).
    `abilities` are those that are declared and win over what the engine says.
    An engine that answers nothing for `hang_s` is given up. It must be longer than the engine's longest step: one chunk
    of prompts (`max_num_batched_tokens`) or one token for each running request; on a CPU, where prompts are taken
    whole, all that are waiting, up to the context together.
    """

    name: str
    tensor_parallel: int = 1
    max_model_len: int | None = None
    dtype: str = "auto"
    engine: dict[str, Any] = field(default_factory=dict)
    hang_s: float = 120.0
    abilities: DeclaredAbilities = field(default_factory=DeclaredAbilities)


class VllmModel:
    """One engine and its processes. Safe for any number of concurrent `complete` calls: vLLM batches them.

    A lost engine (dead, or hanging) stays lost: its processes are killed at once, and all calls raise ModelLost.
    """

    def __init__(self, settings: VllmSettings) -> None:
        self.settings = settings
        self._engine: Any = None
        self._processes: list[psutil.Process] = []
        self._lost: asyncio.Future[str] | None = None
        self._heartbeat: asyncio.Task[None] | None = None
        self._in_flight = 0
        self._kills = kills()
        self._system_turn: dict[bool, bool] = {}
        self._abilities: Abilities | None = None

    async def start(self) -> None:
        """Loads the model; takes seconds to minutes, during which the event loop stands still.

        Raises ModuleNotFoundError without vLLM and ValueError when the model or an engine argument is not usable.
        """
        check_engine_arguments(self.settings.engine)
        check_folder(self.settings.name)
        try:
            from vllm.engine.arg_utils import AsyncEngineArgs
            from vllm.v1.engine.async_llm import AsyncLLM
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(f"no vLLM here ({error}): pip install '.[vllm]'") from error
        LOG.info("loading %s", self.settings.name)
        began = time.monotonic()
        others = set(multiprocessing.active_children())
        try:
            self._engine = AsyncLLM.from_engine_args(AsyncEngineArgs(**self._arguments()))
        except Exception as error:  # the model's own code and what it needs may raise anything
            kill(descendants(set(multiprocessing.active_children()) - others))
            reason = str(error) if isinstance(error, OSError | ValueError | RuntimeError) else repr(error)
            raise ValueError(f"vLLM cannot load {self.settings.name!r}: {one_line(reason)}") from error
        self._processes = descendants(set(multiprocessing.active_children()) - others)
        self._lost = asyncio.get_running_loop().create_future()
        LOG.info("%s is loaded after %.0f s", self.settings.name, time.monotonic() - began)
        try:
            self._system_turn = await system_turns(self._engine.renderer)
        except ValueError as error:
            await self.close()
            raise ValueError(f"{self.settings.name!r} cannot chat: {one_line(str(error))}") from error
        declared = self.settings.abilities
        if declared.system_turn is not None:
            self._system_turn = dict.fromkeys(self._system_turn, declared.system_turn)
        self._abilities = declared.over(
            Abilities(
                pictures=takes_pictures(self._engine.renderer),
                schema=True,
                likelihoods=True,
                system_turn=self._system_turn[False],
                context_tokens=self._engine.model_config.max_model_len,
            )
        )

    async def abilities(self) -> Abilities:
        """What the model can do, as declared or as the engine says."""
        if self._abilities is None:
            raise RuntimeError("VllmModel.abilities before start")
        return self._abilities

    def _arguments(self) -> dict[str, Any]:
        from vllm.config import StructuredOutputsConfig
        from vllm.platforms import current_platform

        return {
            "model": self.settings.name,
            "tensor_parallel_size": self.settings.tensor_parallel,
            "max_model_len": self.settings.max_model_len,
            "dtype": self.settings.dtype,
            **(_on_a_cpu(self.settings.engine) if current_platform.is_cpu() else {}),
            # With blanks to choose from, a small model may write them for ever. vLLM 0.32 passes over the same setting
            # of a request.
            "structured_outputs_config": StructuredOutputsConfig(backend="xgrammar", disable_any_whitespace=True),
            **self.settings.engine,
            # No prompt here has a video, and vLLM sets memory aside for every kind of input that it must expect.
            "limit_mm_per_prompt": {"video": 0, **self.settings.engine.get("limit_mm_per_prompt", {})},
        }

    async def complete(self, request: Request) -> Completion:
        """Answers one request. One that is too long, or has unreadable pictures, gets a completion that says so.

        Cancelling the call takes the request out of the engine.

        Raises:
            ModelError: the engine failed this request (ModelLost: it is dead or hangs, or the model was closed).
        """
        lost = self._lost
        if lost is None:
            raise RuntimeError("VllmModel.complete before start")
        if lost.done():
            raise ModelLost(lost.result())
        from vllm.exceptions import VLLMClientError

        work = asyncio.create_task(self._generate(request))
        self._in_flight += 1
        if self._heartbeat is None or self._heartbeat.done():
            self._heartbeat = asyncio.create_task(self._watch(self._engine))
        try:
            # vLLM itself leaves requests waiting for ever when their engine is killed or hangs.
            ends: set[asyncio.Future[Any]] = {work, lost}
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                raise ModelLost(lost.result())
            return work.result()
        except (VLLMClientError, ValueError) as error:
            return refused(request, str(error))
        except ModelError:
            raise
        except Exception as error:
            if self._engine is None or self._engine.errored:
                self._lose(self._death())
                raise ModelLost(lost.result()) from error
            raise ModelError(one_line(f"vLLM failed: {type(error).__name__}: {error}")) from error
        finally:
            self._in_flight -= 1
            if not work.done():
                work.cancel()
                await asyncio.wait({work}, timeout=ABORT_S)

    async def _generate(self, request: Request) -> Completion:
        if self._abilities is not None and not self._abilities.pictures:
            request = pictures_in_words(request)
        try:
            pictures = await asyncio.to_thread(open_pictures, request)
        except OSError as error:
            return refused(request, str(error))
        messages = turns(request, pictures, self._system_turn[bool(pictures)])
        for _ in range(2):
            prompt = await self._render(messages)
            unfit = too_long(request, len(prompt["prompt_token_ids"]), self._engine.model_config.max_model_len)
            if unfit is not None:
                return unfit
            final = await self._run(prompt, request)
            # vLLM sends a picture to its engine once, and its digest from then on. Where a request ended in between
            # (too long, cancelled) the engine misses the picture, says so, and is sent it with the next attempt.
            if final.outputs[0].finish_reason != "error":
                break
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
            tokens=self._tokens(reply) if request.likelihoods else (),
        )

    def _tokens(self, reply: Any) -> Tokens:
        """The tokens of the reply's text. Their probabilities are those after a schema has ruled tokens out."""
        chosen = [entry[token] for token, entry in zip(reply.token_ids, reply.logprobs or (), strict=False)]
        tokens = of_text([(token.decoded_token or "", token.logprob) for token in chosen], reply.text)
        if tokens or not chosen:
            return tokens
        # A reply with bytes that are no characters: vLLM decodes them otherwise one by one than all together.
        tokenizer = self._engine.renderer.get_tokenizer()
        decode = partial(tokenizer.decode, skip_special_tokens=True)
        parts = pieces(decode, list(reply.token_ids), reply.text)
        return tuple((part, token.logprob) for part, token in zip(parts, chosen, strict=True))

    async def _render(self, messages: list[dict[str, Any]]) -> Any:
        """The engine's input, however long. vLLM's own limit would count a picture as one token and end there."""
        renderer = self._engine.renderer
        tokenization = replace(renderer.default_chat_tok_params, max_total_tokens=None)
        _, (prompt,) = await renderer.render_chat_async([messages], template_parameters(), tokenization)
        return prompt

    async def _run(self, prompt: Any, request: Request) -> Any:
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind, StructuredOutputsParams

        kept_to = StructuredOutputsParams(json=request.schema) if request.schema else None
        sampling = SamplingParams(
            seed=request.seed % SEEDS,
            temperature=request.temperature,
            max_tokens=request.max_tokens,
            output_kind=RequestOutputKind.FINAL_ONLY,
            structured_outputs=kept_to,
            logprobs=0 if request.likelihoods else None,  # of the chosen tokens alone
        )
        async for output in self._engine.generate(prompt, sampling, request.id):
            final = output
        return final

    async def _watch(self, engine: Any) -> None:
        """Asks the engine for a sign of life for as long as requests wait for it.

        The question goes through the loop that runs the engine's steps, so that a step that never returns blocks it.
        Beats are counted, not seconds: an event loop that stood still for minutes has missed one.
        """
        beats = max(1, round(self.settings.hang_s / BEAT_S))
        while self._in_flight:
            sign = asyncio.create_task(engine.is_sleeping())
            try:
                for _ in range(beats):
                    await asyncio.wait({sign}, timeout=BEAT_S)
                    if sign.done() or engine.errored:
                        break
                else:
                    return self._lose(f"vLLM's engine has not answered for {self.settings.hang_s:g} s")
                if engine.errored or sign.exception() is not None:
                    return self._lose(self._death())
            finally:
                sign.cancel()
            await asyncio.sleep(BEAT_S)

    def _death(self) -> str:
        return f"vLLM's engine {'was killed because memory ran out' if kills() > self._kills else 'died'}"

    def _lose(self, reason: str) -> None:
        assert self._lost is not None
        if not self._lost.done():
            LOG.error("%s: %s", self.settings.name, reason)
            self._lost.set_result(reason)
            kill(self._processes)

    async def close(self) -> None:
        """Stops the engine's processes; requests in flight are lost. Closing twice does no harm.

        It takes seconds, in which the event loop stands still; none where the engine is lost.
        """
        engine, self._engine = self._engine, None
        if engine is None or self._lost is None:
            return
        if not self._lost.done():
            self._lost.set_result("the model was closed")
        if self._heartbeat is not None:
            self._heartbeat.cancel()
        engine.shutdown()
        kill(self._processes)
        await ended(self._processes)


def _on_a_cpu(engine: Mapping[str, Any]) -> dict[str, Any]:
    # A seeded request whose prompt is taken in several chunks kills the engine (vLLM 0.32).
    arguments: dict[str, Any] = {"enable_chunked_prefill": False}
    # Who gives a share of the memory means just that.
    if "gpu_memory_utilization" not in engine:
        arguments["kv_cache_memory_bytes"] = cache_bytes(engine)
    return arguments
