"""Text as prompts show it and replies are read: cleaned, or on one line."""

from __future__ import annotations

import re

# Joiners (U+200C, U+200D) stay: some scripts and emoji are spelt with them.
_INVISIBLE = re.compile("[\0\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]")
_SURROGATE = re.compile("[\ud800-\udfff]")


def clean(text: str) -> str:
    """Text that can be stored and shown: no null bytes, no marks of direction or zero width, no lone surrogates."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    # The quick way for most text: nothing but null bytes can be wrong with ASCII.
    if text.isascii():
        return text.replace("\0", "")
    return _INVISIBLE.sub("", _SURROGATE.sub("\ufffd", text))


def one_line(text: str) -> str:
    """Evidence and messages take one line each, so that no content can pass for a section heading."""
    return " ".join((text if text.isascii() and "\0" not in text else clean(text)).split())
