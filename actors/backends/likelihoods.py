"""Aligns a reply's tokens and their probabilities with its text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate

INCOMPLETE = "\ufffd"  # replaces bytes that are no character, or not yet

Tokens = tuple[tuple[str, float], ...]


def of_text(tokens: Iterable[tuple[str, float]], text: str) -> Tokens:
    """Selects the tokens that make up a text, with their natural log-probabilities, from all generated tokens.

    Engines also list tokens outside of the text: the end of the turn, or the model's thoughts. Returns () where no
    sequence of whole tokens equals the text.
    """
    listed = tuple(tokens)
    ends = list(accumulate(len(token) for token, _ in listed))
    whole = "".join(token for token, _ in listed)
    # Reversed, since the time of `rfind` can grow with the product of both lengths.
    begin = whole[::-1].find(text[::-1])
    begin = len(whole) - len(text) - begin if begin >= 0 else begin
    if begin < 0 or not text:
        return ()
    kept = tuple(
        token
        for token, end in zip(listed, ends, strict=True)
        if begin <= end - len(token[0]) and end <= begin + len(text)
    )
    return kept if "".join(token for token, _ in kept) == text else ()


def pieces(decode: Callable[[Sequence[int]], str], ids: Sequence[int], text: str) -> list[str]:
    """Splits a text into one piece per token by decoding ever more tokens, for texts with bytes that are no characters.

    An incomplete character belongs to the token that completes it, or to the last one. Takes time quadratic in the
    number of tokens.
    """
    found, begin = [], 0
    for number in range(1, len(ids) + 1):
        whole = decode(ids[:number]).rstrip(INCOMPLETE)
        end = len(text) if number == len(ids) else len(whole) if text.startswith(whole) else begin
        end = max(begin, end)
        found.append(text[begin:end])
        begin = end
    return found
