"""Made-up replies of a given length, for prompts that quote what was said before."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import cycle, islice

# Of an ordinary length: its tokens are taken for those of every reply where nothing was measured.
REPLY = (
    "{key} The passage about the bridge says that it was opened by the mayor in 1931, and the table lists the same "
    "year next to its name; the second picture shows the date above the northern arch, so the colleague who named "
    "another year had mistaken it for the older one."
)
ANSWER = "the northern bridge"
CONFIDENCE = 0.85
KEY = "0" * 8  # in a reply stand the first eight digits of a digest
MOST_WORDS = 4096


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply's text with a place for its key, and the tokens of all that a model writes for it."""

    text: str
    tokens: int

    def content(self, key: str) -> str:
        return self.text.format(key=key)


class Replies:
    """Replies by role.

    Args:
        count: of a text's tokens.
        most: tokens of a reply, which none exceeds.
        lengths: tokens by role, and under "" of any other; without either, those of the reply above.
    """

    def __init__(self, count: Callable[[str], int], most: int, lengths: Mapping[str, float]) -> None:
        self._count = count
        self._most = most
        self._lengths = lengths
        self._made: dict[str, Reply] = {}

    def of(self, role: str) -> Reply:
        """How a role replies."""
        if role not in self._made:
            wanted = self._lengths.get(role, self._lengths.get(""))
            self._made[role] = self._sized(round(wanted)) if wanted is not None else self._reply(REPLY)
        return self._made[role]

    @property
    def usual_tokens(self) -> int:
        """Of a role of which nothing is known."""
        return self.of("").tokens

    def _sized(self, tokens: int) -> Reply:
        words = REPLY.removeprefix("{key} ").split()
        # Bisected: the more words, the more tokens, whatever the tokenizer.
        low, high = 0, MOST_WORDS
        while low < high:
            middle = (low + high) // 2
            if self._reply(_first(words, middle)).tokens < min(tokens, self._most):
                low = middle + 1
            else:
                high = middle
        return self._reply(_first(words, low))

    def _reply(self, text: str) -> Reply:
        whole = f"Reasoning: {text.format(key=KEY)}\nAnswer: {ANSWER}\nConfidence: {CONFIDENCE}"
        return Reply(text, min(self._most, self._count(whole)))


def _first(words: list[str], number: int) -> str:
    return " ".join(["{key}", *islice(cycle(words), number)])
