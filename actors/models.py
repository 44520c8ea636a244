"""The interface of every model: the embedded reader, vLLM, an endpoint, or a pool of any of them."""

from __future__ import annotations

from typing import Protocol

from actors.messages import Abilities, Completion, Request


class Model(Protocol):
    """Gives completions. Where it also has `async start()`, a replica awaits that before the first request; where it
    has `async abilities()`, that tells what it can do once it is started, and else `Abilities()` is taken for granted.
    """

    async def complete(self, request: Request) -> Completion:
        """Answers one request.

        A model that will never be able to serve the request returns a completion that says why: `stop="too_long"` for a
        prompt longer than its context, `stop="error"` for anything else.

        Raises:
            ModelError: the call itself failed (ModelLost: and so will all others).
            ModelGone: a pool of models has none left.
        """


async def abilities_of(model: Model) -> Abilities:
    """What a model can do: what it says itself, or else the least that every model can."""
    tell = getattr(model, "abilities", None)
    return Abilities() if tell is None else await tell()
