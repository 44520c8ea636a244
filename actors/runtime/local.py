"""Gives a plain object the interface of a remote one: the same methods, as coroutines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Local:
    """`await Local(thing).method(...)` is `thing.method(...)`, in this process."""

    def __init__(self, thing: Any) -> None:
        self._thing = thing

    def __getattr__(self, name: str) -> Callable[..., Any]:
        # Looked up here and not in `call`, so that a wrong name fails where it is written.
        method = getattr(self._thing, name)

        async def call(*args: Any, **kwargs: Any) -> Any:
            return method(*args, **kwargs)

        return call
