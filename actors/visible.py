"""Makes text safe for a terminal."""

from __future__ import annotations

from unicodedata import category


def visible(text: str) -> str:
    """Replaces what is not printable by its escape, such as `\\x1b`.

    Ids and names from data and folders could hold commands to a terminal, line breaks and marks of direction.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or category(c) == "Zs" else c.encode("unicode_escape").decode() for c in text)
