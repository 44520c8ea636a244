"""Counts tokens before a run: by the model's own tokenizer, else by a rule that the plan states."""

from functools import lru_cache

from actors.backends.backend import Backend
from actors.backends.chat import DESCRIPTIONS
from actors.messages import Request, Source
from actors.pictures import opened
from actors.prompting.safe_text import one_line

PATCH = 28  # pixels, per side, of what becomes one token of Qwen2.5-VL
# The model's defaults, 4 and 16,384 tokens, where `mm_processor_kwargs` sets no others.
MIN_PIXELS = 4 * PATCH**2
MAX_PIXELS = 16_384 * PATCH**2
UNREADABLE_SIDE = 1_000  # pixels of a photograph of ordinary size


class TokenCounter:
    """Counts the tokens of a model's requests and replies, as its backend does.

    rule: states in words how `text` and `picture` count.
    """

    def __init__(self, backend: Backend) -> None:
        self._counting = backend.counting()
        limits = backend.settings.engine.get("mm_processor_kwargs") or {}
        self._min_pixels = limits.get("min_pixels", MIN_PIXELS)
        self._max_pixels = limits.get("max_pixels", MAX_PIXELS)
        self.reply_tokens = self._counting.reply_tokens
        # Roles, instructions and replies recur in thousands of prompts.
        self.text = lru_cache(maxsize=1 << 16)(self._counting.text)
        self.picture = lru_cache(maxsize=1 << 14)(self._tokens_of_picture)

    @property
    def rule(self) -> str:
        if self._counting.picture is not None:
            return f"{self._counting.rule}; {self._counting.picture} for a picture"
        return (
            f"{self._counting.rule}; for a picture (height/{PATCH}) x (width/{PATCH}), as Qwen2.5-VL, of "
            f"{self._max_pixels:,} pixels at most"
        )

    def shared(self, request: Request) -> int:
        """Tokens of what every agent that reads the same is sent on one question."""
        text_tokens = self.text(request.system) + self.text(request.shared)
        return self._counting.frame + text_tokens + sum(map(self.picture, request.images))

    def own(self, request: Request) -> int:
        """Tokens of the rest: the discussion, role and weights."""
        # Line by line: roles and replies recur in other prompts, and the count of a line is kept.
        return sum(self.text(f"{line}\n") for line in request.own.split("\n"))

    def _tokens_of_picture(self, source: Source) -> int:
        if self._counting.picture is not None:
            return self._counting.picture
        if source.image is None:  # described in words
            return self.text(f"{DESCRIPTIONS}\n[{source.id}] {one_line(source.text)}\n")
        try:
            with opened(source.image) as image:  # its header
                return tokens_of_size(*image.size, self._min_pixels, self._max_pixels)
        except OSError:  # which a run would report
            return tokens_of_size(UNREADABLE_SIDE, UNREADABLE_SIDE, self._min_pixels, self._max_pixels)


def tokens_of_size(width: int, height: int, min_pixels: int = MIN_PIXELS, max_pixels: int = MAX_PIXELS) -> int:
    """Qwen2.5-VL's tokens of a picture. Scaled to the bounds, it has one for each 28 x 28, plus two."""
    pixels = max(1, width * height)
    scale: float = (min(max(pixels, min_pixels), max_pixels) / pixels) ** 0.5
    columns = max(1, round(width * scale / PATCH))
    rows = max(1, round(height * scale / PATCH))
    return rows * columns + 2
