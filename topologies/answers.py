"""When two answers are the same, without any label: what votes and agreement between agents go by."""

from __future__ import annotations

import re

_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_NO_WORD = re.compile(r"[^\w\s]|_")


def wording(text: str) -> str:
    """A text as it is compared where only case and spaces do not count."""
    return " ".join(text.casefold().split())


def normalised(answer: str | None) -> str | None:
    """Lower case, without articles, punctuation and extra space; None where nothing is left, as for no answer.

    An answer of punctuation alone stays what it is.
    """
    if answer is None:
        return None
    folded = answer.casefold()
    words = " ".join(_ARTICLES.sub(" ", _NO_WORD.sub(" ", folded)).split())
    return words or folded.strip() or None
