"""The tokens of a reply with their probabilities, such that their texts are the reply's text."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate

Tokens = tuple[tuple[str, float], ...]


def of_text(tokens: Iterable[tuple[str, float]], text: str) -> Tokens:
    """The tokens that make up a text, with their natural log-probabilities, out of all that a model generated.

    Engines also list what is no part of the text: the end of the turn, or what the model thought before. None where no
    run of whole tokens is the text.
    """
    listed = tuple(tokens)
    ends = list(accumulate(len(token) for token, _ in listed))
    begin = "".join(token for token, _ in listed).rfind(text)
    if begin < 0 or not text:
        return ()
    kept = tuple(
        token
        for token, end in zip(listed, ends, strict=True)
        if begin <= end - len(token[0]) and end <= begin + len(text)
    )
    return kept if "".join(token for token, _ in kept) == text else ()
