"""A model replica that runs on vLLM: one engine, real pictures, the model's chat template.

Only this file uses vLLM, and imports it inside functions, so that everything else works without vLLM. Written against
vLLM 0.32, whose renderer turns a chat into the engine's input.
"""

import asyncio
import logging
import multiprocessing
import os
import platform
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import psutil
from PIL import Image

from actors.backends.chat import PROBE, SEEDS, chat, pictures_in_words
from actors.backends.model_settings import ModelSettings, template_arguments
from actors.errors import ModelError, ModelLost
from actors.messages import Abilities, Completion, Kind, Request, Source
from actors.pictures import read_picture
from actors.processes import descendants, ended, kill, kills
from actors.prompting.likelihood import Tokens, of_text, pieces
from actors.prompting.safe_text import one_line, without_tokens
from actors.watcher import Watcher

BEAT_S = 1.0
# An engine that answers nothing for so long is lost. It must exceed the longest step: one chunk of prompts
# (`max_num_batched_tokens`), or one token of each running request; on a CPU, all waiting prompts whole.
HANG_S = 120.0
CPU_CACHE_BYTES = 4 * 2**30
ABORT_S = 5.0  # longest wait for vLLM to abort a cancelled request

DAY = datetime(2024, 7, 26)  # the date of templates that know none
PICTURE = Source("1", "1", Kind.IMAGE, "Picture", "", image="never opened")

LOG = logging.getLogger(__name__)


def open_pictures(request: Request) -> list[Image.Image]:
    """Reads the request's picture files in order. Raises OSError, which names the unreadable picture."""
    return [read_picture(source.image) for source in request.images if source.image is not None]


def turns(request: Request, pictures: Sequence[Image.Image], system_turn: bool = True) -> list[dict[str, Any]]:
    """Returns the chat of a request. Without a `system_turn` its text opens the user turn: the order stays."""
    return chat(request, [{"type": "image_pil", "image_pil": picture} for picture in pictures], system_turn)


def without_special_tokens(messages: Sequence[dict[str, Any]], tokenizer: Any) -> list[dict[str, Any]]:
    """Breaks the tokenizer's own special tokens in the texts of a chat. Only its template may place them."""
    tokens = tokenizer.all_special_tokens

    def safe(content: Any) -> Any:
        if isinstance(content, str):
            return without_tokens(content, tokens)
        parts = []
        for part in content:
            parts.append({**part, "text": safe(part["text"])} if "text" in part else part)
        return parts

    return [{**message, "content": safe(message["content"])} for message in messages]


@dataclass(frozen=True, slots=True)
class Template:
    """Applies a model's chat template.

    parameters: vLLM's, of the template.
    system_turn: whether it renders one, without pictures (False) and with pictures (True).
    dated: it writes today's date, in whose place it gets `DAY`, so that prompts are the same tomorrow.
    """

    parameters: Any
    system_turn: Mapping[bool, bool]
    dated: bool


async def find_template(renderer: Any, thinking: bool | None = None) -> Template:
    """Tests what the chat template renders: a system turn, texts that are no lists, the date.

    Some templates raise an error (Llama-3.2-Vision's, with pictures), and some leave out what they do not take. Raises
    ValueError where there is none, or it does not render a plain question.
    """
    from vllm.exceptions import VLLMClientError
    from vllm.renderers.params import ChatParams

    def parameters(form: str = "auto", day: datetime = DAY) -> Any:
        arguments = {"add_generation_prompt": True, "strftime_now": day.strftime, **template_arguments(thinking)}
        return ChatParams(chat_template_content_format=form, chat_template_kwargs=arguments)

    async def rendered(chat_parameters: Any, with_picture: bool = False, system_turn: bool = False) -> str:
        probe = PROBE
        pictures = []
        if with_picture:
            probe = replace(PROBE, images=(PICTURE,))
            pictures = [Image.new("RGB", (64, 64))]
        _, prompt = await renderer.render_messages_async(turns(probe, pictures, system_turn), chat_parameters)
        text: str = prompt.get("prompt") or renderer.get_tokenizer().decode(prompt["prompt_token_ids"])
        return text

    chat_parameters = parameters()
    try:
        text = await rendered(chat_parameters)
        if PROBE.shared not in text:
            chat_parameters = parameters("openai")
            text = await rendered(chat_parameters)
    except VLLMClientError as error:
        raise ValueError(str(error)) from error
    if PROBE.shared not in text:
        raise ValueError("its chat template leaves out the question")

    system_turn = {}
    for with_picture in (False, True):
        try:
            system_turn[with_picture] = PROBE.system in await rendered(chat_parameters, with_picture, system_turn=True)
        except (VLLMClientError, ValueError):
            system_turn[with_picture] = False
    LOG.info("its chat template takes a system turn without pictures and with pictures: %s", list(system_turn.values()))
    tomorrow = parameters(chat_parameters.chat_template_content_format, DAY + timedelta(days=1))
    return Template(chat_parameters, system_turn, dated=text != await rendered(tomorrow))


class VllmModel:
    """One engine and its processes. Safe for any number of concurrent `complete` calls: vLLM batches them.

    A dead or hanging engine is lost for good: its processes are killed, and all calls raise ModelLost.
    """

    def __init__(self, settings: ModelSettings) -> None:
        self.settings = settings
        self.hang_s = settings.hang_s or HANG_S
        self._engine: Any = None
        self._processes: list[psutil.Process] = []
        self._watcher: Watcher | None = None
        self._loss: asyncio.Future[str] | None = None
        self._heartbeat: asyncio.Task[None] | None = None
        self._in_flight = 0
        self._kills = kills()
        self._template: Template | None = None
        self._abilities: Abilities | None = None

    async def start(self) -> None:
        """Loads the model, in seconds to minutes. Raises ModuleNotFoundError without vLLM, ValueError for unusable
        settings."""
        name = self.settings.name
        if name.startswith(("/", "./", "../", "~")) and not Path(name).exists():
            # vLLM would take it for a Hugging Face id.
            raise ValueError(
                f"vLLM cannot load {name!r}: there is no such folder on {platform.node()}; give one or a Hugging Face "
                "id"
            )
        try:
            from vllm.engine.arg_utils import AsyncEngineArgs
            from vllm.v1.engine.async_llm import AsyncLLM
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(f"no vLLM here ({error}): pip install '.[vllm]'") from error
        LOG.info("loading %s", name)
        start_s = time.monotonic()
        earlier_children = set(multiprocessing.active_children())
        try:
            self._engine = AsyncLLM.from_engine_args(AsyncEngineArgs(**self._arguments()))
        except Exception as error:  # the model's code and its dependencies may raise anything
            kill(descendants(set(multiprocessing.active_children()) - earlier_children))
            reason = str(error) if isinstance(error, OSError | ValueError | RuntimeError) else repr(error)
            raise ValueError(f"vLLM cannot load {name!r}: {one_line(reason)}") from error
        self._processes = descendants(set(multiprocessing.active_children()) - earlier_children)
        self._watcher = Watcher(process.pid for process in self._processes)
        self._loss = asyncio.get_running_loop().create_future()
        LOG.info("%s is loaded after %.0f s", name, time.monotonic() - start_s)
        try:
            self._template = await find_template(self._engine.renderer, self.settings.thinking)
        except ValueError as error:
            await self.close()
            raise ValueError(f"{name!r} cannot chat: {one_line(str(error))}") from error
        declared = self.settings.abilities
        if declared.system_turn is not None:
            self._template = replace(self._template, system_turn=dict.fromkeys((False, True), declared.system_turn))
        processor = self._engine.renderer.mm_processor  # a model that reads no pictures has none
        most_pictures = 0 if processor is None else processor.info.allowed_mm_limits.get("image", 0)
        adapted: list[tuple[str, str]] = []
        if self._template.dated:
            date = f"{DAY:%d %b %Y} as today's date"
            adapted.append((date, "its chat template would write another one each day"))
        self._abilities = declared.over(
            Abilities(
                pictures=most_pictures > 0,
                schema=True,
                likelihoods=True,
                system_turn=self._template.system_turn[False],
                context_tokens=self._engine.model_config.max_model_len,
                most_pictures=most_pictures or None,
                adapted=tuple(adapted),
            )
        )

    async def abilities(self) -> Abilities:
        """Returns the model's abilities, as declared or as the engine reports them."""
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
            **(cpu_arguments(self.settings.engine) if current_platform.is_cpu() else {}),
            # A small model may write blanks without end. vLLM 0.32 ignores the same setting of a request.
            "structured_outputs_config": StructuredOutputsConfig(backend="xgrammar", disable_any_whitespace=True),
            **self.settings.engine,
            # No prompt has a video, and vLLM reserves memory for every kind of input that it allows.
            "limit_mm_per_prompt": {"video": 0, **self.settings.engine.get("limit_mm_per_prompt", {})},
        }

    async def complete(self, request: Request) -> Completion:
        """Answers one request. One that is too long, or has unreadable pictures, gets a completion with the reason.

        Cancelling the call removes the request from the engine. Raises ModelError where the engine failed this request,
        and ModelLost where it is dead, hangs, or was closed.
        """
        loss = self._loss
        if loss is None:
            raise RuntimeError("VllmModel.complete before start")
        if loss.done():
            raise ModelLost(loss.result())
        from vllm.exceptions import VLLMClientError

        work = asyncio.create_task(self._generate(request))
        self._in_flight += 1
        if self._heartbeat is None or self._heartbeat.done():
            self._heartbeat = asyncio.create_task(self._watch(self._engine))
        try:
            # vLLM lets requests wait for ever when their engine is killed or hangs.
            futures: set[asyncio.Future[Any]] = {work, loss}
            await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                raise ModelLost(loss.result())
            return work.result()
        except (VLLMClientError, ValueError) as error:
            return refused(request, str(error))
        except ModelError:
            raise
        except Exception as error:
            if self._engine is None or self._engine.errored:
                self._lose()
                raise ModelLost(loss.result()) from error
            raise ModelError(one_line(f"vLLM failed: {type(error).__name__}: {error}")) from error
        finally:
            self._in_flight -= 1
            if not work.done():
                work.cancel()
                await asyncio.wait({work}, timeout=ABORT_S)

    async def _generate(self, request: Request) -> Completion:
        abilities = self._abilities
        template = self._template
        assert abilities is not None
        assert template is not None
        most_pictures = abilities.most_pictures if abilities.pictures else 0
        request = pictures_in_words(request, most_pictures)
        try:
            pictures = await asyncio.to_thread(open_pictures, request)
        except OSError as error:
            return refused(request, str(error))
        renderer = self._engine.renderer
        messages = turns(request, pictures, template.system_turn[bool(pictures)])
        messages = without_special_tokens(messages, renderer.get_tokenizer())
        for _ in range(2):
            # Of any length: vLLM's limit would count a picture as one token and end there.
            tokenization = replace(renderer.default_chat_tok_params, max_total_tokens=None)
            _, (prompt,) = await renderer.render_chat_async([messages], template.parameters, tokenization)
            refusal = too_long(request, len(prompt["prompt_token_ids"]), self._engine.model_config.max_model_len)
            if refusal is not None:
                return refusal
            final = await self._run(prompt, request)
            # vLLM sends a picture to its engine once, and later only its digest. Where a request ended in between (too
            # long, cancelled) the engine lacks the picture, reports an error, and gets it with the next attempt.
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
        """Returns the tokens of the reply's text, with probabilities after a schema has excluded tokens."""
        likelihoods = [entry[token] for token, entry in zip(reply.token_ids, reply.logprobs or (), strict=False)]
        tokens = of_text([(token.decoded_token or "", token.logprob) for token in likelihoods], reply.text)
        if tokens or not likelihoods:
            return tokens
        # Bytes that are no characters: vLLM decodes them differently one by one than together.
        tokenizer = self._engine.renderer.get_tokenizer()
        decode = partial(tokenizer.decode, skip_special_tokens=True)
        parts = pieces(decode, list(reply.token_ids), reply.text)
        return tuple((part, token.logprob) for part, token in zip(parts, likelihoods, strict=True))

    async def _run(self, prompt: Any, request: Request) -> Any:
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind, StructuredOutputsParams

        sampling = SamplingParams(
            seed=request.seed % SEEDS,
            temperature=request.temperature,
            max_tokens=request.max_tokens,
            output_kind=RequestOutputKind.FINAL_ONLY,
            structured_outputs=StructuredOutputsParams(json=request.schema) if request.schema else None,
            logprobs=0 if request.likelihoods else None,  # only of the chosen tokens
        )
        async for output in self._engine.generate(prompt, sampling, request.id):
            final = output
        return final

    async def _watch(self, engine: Any) -> None:
        """Asks the engine for a sign of life as long as requests wait for it.

        The question passes the loop that runs the engine's steps, so that a step that never returns blocks it. Beats
        are counted, not seconds: an event loop that was blocked for minutes has missed one.
        """
        beats = max(1, round(self.hang_s / BEAT_S))
        while self._in_flight:
            answer = asyncio.create_task(engine.is_sleeping())
            try:
                for _ in range(beats):
                    await asyncio.wait({answer}, timeout=BEAT_S)
                    if answer.done() or engine.errored:
                        break
                else:
                    return self._lose(f"vLLM's engine has not answered for {self.hang_s:g} s")
                if engine.errored or answer.exception() is not None:
                    return self._lose()
            finally:
                answer.cancel()
            await asyncio.sleep(BEAT_S)

    def _lose(self, reason: str = "") -> None:
        assert self._loss is not None
        if not reason:
            death = "was killed because memory ran out" if kills() > self._kills else "died"
            reason = f"vLLM's engine {death}"
        if not self._loss.done():
            LOG.error("%s: %s", self.settings.name, reason)
            self._loss.set_result(reason)
            kill(self._processes)

    async def close(self) -> None:
        """Stops the engine's processes, which may take seconds. Requests in flight are lost. Closing twice does no
        harm."""
        engine = self._engine
        self._engine = None
        if engine is None or self._loss is None:
            return
        if not self._loss.done():
            self._loss.set_result("the model was closed")
        if self._heartbeat is not None:
            self._heartbeat.cancel()
        engine.shutdown()
        if self._watcher is not None:
            self._watcher.close()
        await ended(self._processes)


def cpu_arguments(engine: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the further arguments of an engine on a CPU, among them the memory that it reserves for its cache.

    vLLM's default would take nearly all memory of the machine, or end where other programs use some of it.
    """
    # A seeded request whose prompt is computed in several chunks kills the engine (vLLM 0.32).
    arguments: dict[str, Any] = {"enable_chunked_prefill": False}
    # A configured share of the memory takes precedence.
    if "gpu_memory_utilization" not in engine:
        gigabytes = os.environ.get("VLLM_CPU_KVCACHE_SPACE", "")
        if gigabytes.isdigit():
            arguments["kv_cache_memory_bytes"] = int(gigabytes) * 2**30
        else:
            arguments["kv_cache_memory_bytes"] = int(engine.get("kv_cache_memory_bytes") or CPU_CACHE_BYTES)
    return arguments


def refused(request: Request, reason: str) -> Completion:
    """Returns the completion of a request that will never be served, with the reason."""
    return Completion(id=request.id, text="", stop="error", error=one_line(reason))


def too_long(request: Request, prompt_tokens: int, context: int) -> Completion | None:
    """Returns the completion of a request whose prompt and longest reply exceed `context` tokens. None if they fit."""
    limit = context - request.max_tokens
    if limit < 1:
        return refused(request, f"{request.max_tokens} tokens of reply leave no room in a context of {context}")
    if prompt_tokens <= limit:
        return None
    reason = f"{prompt_tokens} tokens of prompt and {request.max_tokens} of reply in a context of {context}"
    return Completion(request.id, "", prompt_tokens, stop="too_long", error=reason, limit_tokens=limit)
