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
MIN_PIXELS = 4 * PATCH**2
MAX_PIXELS = 16_384 * PATCH**2
UNREADABLE_SIDE = 1_000  # pixels of a photograph of ordinary size


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
        text_tokens = self.text(request.system) + self.text(request.shared)
        return self.chat + text_tokens + sum(map(self.picture, request.images))

    def own(self, request: Request) -> int:
        """Tokens of the rest: the discussion, role and weights."""
        # Line by line: roles and replies recur in other prompts, and the count of a line is kept.
        return sum(self.text(f"{line}\n") for line in request.own.split("\n"))


def counter_of(backend: Backend) -> TokenCounter:
    """Returns a model's own count where it has one, else characters."""
    counting = backend.counting()
    # Roles, instructions and replies recur in thousands of prompts.
    count = lru_cache(maxsize=1 << 16)(counting.text if counting else _tokens_of_characters)
    rule = counting.rule if counting else f"{CHARACTERS_PER_TOKEN:g} characters to a token (a guess)"
    if counting and counting.picture is not None:
        tokens = counting.picture
        return TokenCounter(
            rule=f"{rule}; {tokens} for a picture",
            text=count,
            picture=lambda source: tokens,
            chat=CHAT_TOKENS if counting.frame is None else counting.frame,
            reply_tokens=counting.reply_tokens,
        )

    limits = backend.settings.engine.get("mm_processor_kwargs") or {}
    min_pixels = limits.get("min_pixels", MIN_PIXELS)
    max_pixels = limits.get("max_pixels", MAX_PIXELS)

    @lru_cache(maxsize=1 << 14)
    def picture(source: Source) -> int:
        if source.image is None:  # described in words
            return count(f"{DESCRIPTIONS}\n[{source.id}] {one_line(source.text)}\n")
        try:
            with opened(source.image) as image:  # its header
                return tokens_of_size(*image.size, min_pixels, max_pixels)
        except OSError:  # which a run would report
            return tokens_of_size(UNREADABLE_SIDE, UNREADABLE_SIDE, min_pixels, max_pixels)

    rule += f"; for a picture (height/{PATCH}) x (width/{PATCH}), as Qwen2.5-VL, of {max_pixels:,} pixels at most"
    return TokenCounter(rule, count, picture)


def _tokens_of_characters(text: str) -> int:
    return round(len(text) / CHARACTERS_PER_TOKEN)


def tokens_of_size(width: int, height: int, min_pixels: int = MIN_PIXELS, max_pixels: int = MAX_PIXELS) -> int:
    """Qwen2.5-VL's tokens of a picture. Scaled to the bounds, it has one for each 28 x 28, plus two."""
    pixels = max(1, width * height)
    scale: float = (min(max(pixels, min_pixels), max_pixels) / pixels) ** 0.5
    columns = max(1, round(width * scale / PATCH))
    rows = max(1, round(height * scale / PATCH))
    return rows * columns + 2
