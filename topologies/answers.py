"""Normal form of an answer, in which votes and measures of agreement compare answers without any label."""

from __future__ import annotations

import re

# "The Nile" and "Nile" are one answer in a vote.
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
# `\w` includes the underscore, which here separates words as punctuation does.
_NO_WORD = re.compile(r"[^\w\s]|_")


def wording(text: str) -> str:
    """Returns a text for comparisons that ignore case and spaces."""
    return " ".join(text.casefold().split())


def normalised(answer: str | None) -> str | None:
    """Lower case, without articles, punctuation and extra space; None where nothing is left, as for no answer.

    An answer of punctuation alone stays what it is.
    """
    if answer is None:
        return None
    # casefold rather than lower: it also makes sharp s and double s equal.
    folded = answer.casefold()
    words = " ".join(_ARTICLES.sub(" ", _NO_WORD.sub(" ", folded)).split())
    # A bare mark such as "?" has no words left, yet it is not the same as no answer.
    return words or folded.strip() or None
