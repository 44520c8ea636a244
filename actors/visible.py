"""Text as a terminal may show it."""

from __future__ import annotations

from unicodedata import category


def visible(text: str) -> str:
    """Text as a terminal may show it: ids and names from data and folders could hold commands to a terminal, line
    breaks and marks of direction. Each becomes its escape, such as `\\x1b`; printed text stays as it is."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or category(c) == "Zs" else c.encode("unicode_escape").decode() for c in text)
