"""What is there twice: ids are what questions and sources are chosen, recorded and compared by."""

from __future__ import annotations

from actors.errors import UserError


def once(id: str, seen: set[str], noun: str = "id") -> None:
    """Adds an id to those seen. Raises UserError where it is among them already."""
    if id in seen:
        raise UserError(f"{noun} {id} is there twice: remove one, or give it another id")
    seen.add(id)
