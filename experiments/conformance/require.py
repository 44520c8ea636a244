"""The error of a failed check."""

from __future__ import annotations

from actors.errors import AgoraError


class NotConforming(AgoraError):
    """A thing does not keep to what the others rely on; the text says to what, in one line."""


def require(condition: bool, text: str) -> None:
    """Raises NotConforming with the text unless the condition holds."""
    if not condition:
        raise NotConforming(text)
