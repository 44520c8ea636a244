"""Counts tokens before a run: by the model's own tokenizer, else by a rule that the plan states."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from actors.backends.backend import Backend
from actors.backends.chat import DESCRIPTIONS
from actors.messages import Request, Source
from actors.pictures import opened
from actors.prompting.safe_text import one_line

CHARACTERS_PER_TOKEN = 4.0
CHAT_TOKENS = 13  # what Qwen's chat template adds to a system and a user turn
PATCH = 28  # pixels, per side, of what becomes one token of Qwen2.5-VL
# The model's defaults, 4 and 16,384 tokens, where `mm_processor_kwargs` sets no others.
LEAST_PIXELS, MOST_PIXELS = 56 * 56, 16_384 * PATCH**2
UNREADABLE_PIXELS = 1_000_000  # a photograph of ordinary size


@dataclass(frozen=True, slots=True)
class TokenCounter:
    """Counts of a model. `rule` names in words how `text` and `picture` count; `chat` tokens are added to each prompt.

    `reply_tokens` are the measured tokens of a reply by role, under "" of any other; empty where none were measured.
    """

    rule: str
    text: Callable[[str], int]
    picture: Callable[[Source], int]
    chat: int = CHAT_TOKENS
    reply_tokens: Mapping[str, float] = field(default_factory=dict)

    def shared(self, request: Request) -> int:
        """Tokens of what every agent that reads the same is sent on one question."""
        return (
            self.chat + self.text(request.system) + self.text(request.shared) + sum(map(self.picture, request.images))
        )

    def own(self, request: Request) -> int:
        """Tokens of the rest: the discussion, role and weights."""
        # Line by line: roles and replies recur in other prompts, and the count of a line is kept.
        return sum(self.text(f"{line}\n") for line in request.own.split("\n"))


def counter_of(backend: Backend) -> TokenCounter:
    """Returns a model's own count where it has one, else characters."""
    model, own = backend.settings, backend.counting()
    # Roles, instructions and replies recur in thousands of prompts.
    count = lru_cache(maxsize=1 << 16)(own.text if own else lambda text: round(len(text) / CHARACTERS_PER_TOKEN))
    if own and own.picture is not None:
        tokens = own.picture
        frame = CHAT_TOKENS if own.frame is None else own.frame
        return TokenCounter(f"{own.rule}; {tokens} for a picture", count, lambda _: tokens, frame, own.reply_tokens)
    limits = model.engine.get("mm_processor_kwargs") or {}
    least, most = limits.get("min_pixels", LEAST_PIXELS), limits.get("max_pixels", MOST_PIXELS)
    counted = own.rule if own else f"{CHARACTERS_PER_TOKEN:g} characters to a token (a guess)"
    rule = f"{counted}; for a picture (height/{PATCH}) x (width/{PATCH}), as Qwen2.5-VL, of {most:,} pixels at most"

    @lru_cache(maxsize=1 << 14)
    def picture(source: Source) -> int:
        if source.image is None:  # described in words
            return count(f"{DESCRIPTIONS}\n[{source.id}] {one_line(source.text)}\n")
        try:
            with opened(source.image) as image:  # its header
                width, height = image.size
        except OSError:  # of one that cannot be read, which a run would report, a plausible size
            width = height = round(UNREADABLE_PIXELS**0.5)
        return tokens_of_size(width, height, least, most)

    return TokenCounter(rule, count, picture)


def tokens_of_size(width: int, height: int, least: int = LEAST_PIXELS, most: int = MOST_PIXELS) -> int:
    """Qwen2.5-VL's tokens of a picture. Scaled to `least` to `most` pixels, it has one for each 28 x 28, plus two."""
    pixels = max(1, width * height)
    scale: float = (min(max(pixels, least), most) / pixels) ** 0.5
    return max(1, round(width * scale / PATCH)) * max(1, round(height * scale / PATCH)) + 2
