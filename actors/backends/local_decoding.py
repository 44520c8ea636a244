"""Generates a reply token by token, with a random generator of its own and a cache of what prompts have in common."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer

from actors.backends.local_schema import SchemaMatcher

# Prompts are read in chunks of this size, and only whole chunks are reused: so every number is computed from tensors of
# the same shapes whether a prefix was at hand or not, and a reply does not depend on what was asked before.
CHUNK_TOKENS = 256
KEPT_TOKENS = 16_384  # of prefixes in all; 28 KB each for a model of 1.5 billion parameters


class Cancelled(Exception):
    """Nobody waits for the reply any more."""


class Sampler:
    """Chooses the tokens of one reply: the likeliest at temperature 0, or else at random by the seed alone.

    It works on the CPU, so that a seed means the same draws on every device.
    """

    def __init__(self, temperature: float, seed: int, matcher: SchemaMatcher | None) -> None:
        self._temperature = temperature
        self._random = torch.Generator().manual_seed(seed)
        self._matcher = matcher

    def choose(self, logits: Tensor) -> tuple[int, float]:
        """A token, and its natural log-probability by the model itself, before temperature and schema.

        Args:
            logits: float32 [vocabulary], on the CPU; written to.
        """
        logprobs = torch.log_softmax(logits, dim=-1)
        if self._matcher is not None:
            self._matcher.rule_out(logits)
        if self._temperature > 0:
            chances = torch.softmax(logits / self._temperature, dim=-1)
            token = int(torch.multinomial(chances, 1, generator=self._random))
        else:
            token = int(logits.argmax())
        if self._matcher is not None:
            self._matcher.accept(token)
        return token, float(logprobs[token])


@dataclass(frozen=True, slots=True)
class Generated:
    """A reply's tokens, without the one that ended it, and their log-probabilities; `ended` by such a token or cut."""

    tokens: list[int]
    logprobs: list[float]
    ended: bool
    cached_tokens: int


@dataclass(frozen=True, slots=True)
class Prefix:
    """The whole chunks that a prompt began with, and each layer's keys and values [1, heads, tokens, width]."""

    tokens: Sequence[int]
    layers: list[tuple[Tensor, Tensor]]


class Decoder:
    """Generates with one model, one reply at a time.

    Args:
        model: a causal language model of `transformers`.
        stops: the tokens that end a reply.
    """

    def __init__(self, model: Any, stops: Set[int]) -> None:
        self._model = model
        self._stops = stops
        self._prefixes: OrderedDict[str, Prefix] = OrderedDict()

    @torch.inference_mode()
    def generate(
        self, prompt: Sequence[int], max_tokens: int, sampler: Sampler, prefix: str, cancelled: Callable[[], bool]
    ) -> Generated:
        """Continues a prompt by at most `max_tokens` tokens.

        Args:
            prefix: prompts with the same name are expected to begin alike.

        Raises:
            Cancelled: once `cancelled()`, before the next step of the model.
        """
        cache, cached = self._recall(prompt, prefix)
        # At least one token is left for the first step, which gives the logits.
        whole = (len(prompt) - 1) // CHUNK_TOKENS * CHUNK_TOKENS
        for start in range(cached, whole, CHUNK_TOKENS):
            self._step(prompt[start : start + CHUNK_TOKENS], cache, cancelled)
        self._keep(prompt[:whole], cache, prefix)
        tokens: list[int] = []
        logprobs: list[float] = []
        new = prompt[whole:]
        for _ in range(max_tokens):
            token, logprob = sampler.choose(self._step(new, cache, cancelled))
            if token in self._stops:
                return Generated(tokens, logprobs, True, cached)
            tokens.append(token)
            logprobs.append(logprob)
            new = [token]
        return Generated(tokens, logprobs, False, cached)

    def _step(self, tokens: Sequence[int], cache: Any, cancelled: Callable[[], bool]) -> Tensor:
        """Reads tokens after those in the cache, and gives the logits of the next one (float32 [vocabulary])."""
        if cancelled():
            raise Cancelled
        read = torch.tensor([list(tokens)], device=self._model.device)
        output = self._model(input_ids=read, past_key_values=cache, use_cache=True, logits_to_keep=1)
        logits: Tensor = output.logits[0, -1].to("cpu", torch.float32, copy=True)
        return logits

    def _recall(self, prompt: Sequence[int], name: str) -> tuple[Any, int]:
        """A cache of what the prompt has in common with the last one of its name, and how many tokens these are."""
        cache = DynamicCache(config=self._model.config)
        kept = self._prefixes.get(name)
        if kept is None:
            return cache, 0
        # The last token is always read anew, as it gives the logits.
        pairs = zip(kept.tokens, prompt[:-1], strict=False)
        alike = next((at for at, (old, new) in enumerate(pairs) if old != new), min(len(kept.tokens), len(prompt) - 1))
        alike -= alike % CHUNK_TOKENS
        if alike:
            for number, (keys, values) in enumerate(kept.layers):
                cache.update(keys[:, :, :alike], values[:, :, :alike], number)
        return cache, alike

    def _keep(self, tokens: Sequence[int], cache: Any, name: str) -> None:
        """Keeps what the cache holds, where it can be cut at any token: not that of a sliding window, for instance."""
        if not tokens or not all(type(layer) is DynamicLayer and layer.is_initialized for layer in cache.layers):
            return
        # Later tokens make new tensors and leave these as they are.
        self._prefixes[name] = Prefix(tokens, [(layer.keys, layer.values) for layer in cache.layers])
        self._prefixes.move_to_end(name)
        while sum(len(kept.tokens) for kept in self._prefixes.values()) > max(KEPT_TOKENS, len(tokens)):
            self._prefixes.popitem(last=False)
