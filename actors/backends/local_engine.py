"""A loaded `transformers` model: a request becomes a chat, the chat tokens, and the generated tokens a completion."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import psutil
import torch
from jinja2 import TemplateError
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer
from transformers.utils.logging import disable_progress_bar

from actors.backends.chat import PROBE, SEEDS, chat, pictures_in_words
from actors.backends.likelihoods import pieces
from actors.backends.local_decoding import Decoder, Sampler
from actors.backends.local_model import LocalSettings
from actors.backends.local_schema import Schemas, load_schemas
from actors.backends.outcomes import refused, too_long
from actors.backends.processor import computes_bfloat16
from actors.messages import Abilities, Completion, Request

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LocalEngine:
    """Answers one request at a time.

    context_tokens: of prompt and reply together; None where the model's configuration does not say.
    schemas: compiles JSON schemas; None where xgrammar is missing.
    """

    tokenizer: Any
    decoder: Decoder
    system_turn: bool
    context_tokens: int | None
    schemas: Schemas | None

    @property
    def abilities(self) -> Abilities:
        return Abilities(
            pictures=False,
            schema=self.schemas is not None,
            likelihoods=True,
            system_turn=self.system_turn,
            seeds=True,
            context_tokens=self.context_tokens,
        )

    def complete(self, request: Request, cancelled: Callable[[], bool]) -> Completion:
        """Answers one request; raises Cancelled between two steps of the model once `cancelled()`."""
        prompt = tokens_of(self.tokenizer, request, self.system_turn)
        if self.context_tokens is not None:
            unfit = too_long(request, len(prompt), self.context_tokens)
            if unfit is not None:
                return unfit
        try:
            matcher = self._matcher(request.schema)
        except ValueError as error:
            return refused(request, str(error))
        sampler = Sampler(request.temperature, request.seed % SEEDS, matcher)
        made = self.decoder.generate(prompt, request.max_tokens, sampler, request.prefix, cancelled)
        decode = partial(self.tokenizer.decode, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        text = decode(made.tokens)
        return Completion(
            id=request.id,
            text=text,
            prompt_tokens=len(prompt),
            completion_tokens=len(made.tokens) + made.ended,
            cached_tokens=made.cached_tokens,
            stop="stop" if made.ended else "length",
            tokens=tuple(zip(pieces(decode, made.tokens, text), made.logprobs, strict=True))
            if request.likelihoods
            else (),
        )

    def _matcher(self, schema: str) -> Any:
        if not schema:
            return None
        if self.schemas is None:
            raise ValueError("a JSON schema needs xgrammar: pip install '.[transformers]'")
        return self.schemas.matcher(schema)


def load(settings: LocalSettings) -> LocalEngine:
    """Loads tokenizer and weights onto the best device here, and generates one token to see that all of it works.

    Raises ValueError, OSError or what else the model's files lead to.
    """
    torch.set_num_threads(threads(settings))
    disable_progress_bar()
    tokenizer = AutoTokenizer.from_pretrained(settings.name, trust_remote_code=False)
    if not tokenizer.chat_template:
        raise ValueError("it has no chat template; choose a model that was trained to chat (often called -Instruct)")
    system_turn = takes_system_turn(tokenizer)
    config = AutoConfig.from_pretrained(settings.name, trust_remote_code=False)
    device = best_device()
    dtype = auto_dtype(device, config) if settings.dtype == "auto" else getattr(torch, settings.dtype)
    model = AutoModelForCausalLM.from_pretrained(settings.name, dtype=dtype, trust_remote_code=False)
    model = model.to(device).eval()
    stops = stop_tokens(tokenizer, model)
    schemas = load_schemas(tokenizer, model.get_output_embeddings().weight.shape[0], stops)
    decoder = Decoder(model, stops)
    engine = LocalEngine(tokenizer, decoder, system_turn, context_tokens(config, settings.max_model_len), schemas)
    engine.complete(replace(PROBE, max_tokens=1), lambda: False)
    LOG.info("%s on %s in %s; %s", settings.name, device, model.dtype, engine.abilities)
    return engine


def threads(settings: LocalSettings) -> int:
    """The number of threads: Ray would set one for a replica that reserves less than two cores."""
    cores = psutil.cpu_count(logical=False) or 1
    return int(settings.cpus) if settings.cpus >= 1 else max(1, cores // settings.sharing)


def best_device() -> torch.device:
    if torch.cuda.is_available():
        return torch.device("cuda")
    return torch.device("mps" if torch.backends.mps.is_available() else "cpu")


def auto_dtype(device: torch.device, config: Any) -> torch.dtype:
    """That of the weights; on a CPU float32, unless both the weights and its arithmetic are bfloat16."""
    own = getattr(config.get_text_config(), "dtype", None) or torch.float32
    if device.type == "cpu" and not (own is torch.bfloat16 and computes_bfloat16()):
        return torch.float32
    return own


def stop_tokens(tokenizer: Any, model: Any) -> frozenset[int]:
    """The tokens that end a reply: those of the model's generation settings, and the tokenizer's end of a turn."""
    ends = model.generation_config.eos_token_id
    listed = ends if isinstance(ends, list) else [ends]
    return frozenset(token for token in [*listed, tokenizer.eos_token_id] if token is not None)


def context_tokens(config: Any, wanted: int | None) -> int | None:
    """The smaller of the model's own context and the one that is wanted, where known."""
    own = getattr(config.get_text_config(), "max_position_embeddings", None)
    return min((tokens for tokens in (own, wanted) if tokens), default=None)


def rendered(tokenizer: Any, request: Request, system_turn: bool) -> str:
    """The chat up to where the reply begins. Pictures are described in words."""
    text: str = tokenizer.apply_chat_template(
        chat(pictures_in_words(request), [], system_turn), tokenize=False, add_generation_prompt=True
    )
    return text


def tokens_of(tokenizer: Any, request: Request, system_turn: bool) -> list[int]:
    """The prompt's tokens. The template has written what begins and ends a text, so that nothing is added."""
    text = rendered(tokenizer, request, system_turn)
    tokens: list[int] = tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
    return tokens


def takes_system_turn(tokenizer: Any) -> bool:
    """Whether the chat template renders a system turn: some raise an error when there is one, some leave it out."""
    try:
        return PROBE.system in rendered(tokenizer, PROBE, system_turn=True)
    except TemplateError:
        return False
