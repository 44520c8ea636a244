"""Defines the interface of every model: embedded reader, vLLM, endpoint, or pool of replicas."""

from typing import Protocol

from actors.messages import Abilities, Completion, Request


class Model(Protocol):
    """Completes requests.

    Optional methods: `async start()`, awaited before the first request; `async abilities()`, which returns what the
    model can do once it is started (without it, `Abilities()`); `async close()`, awaited after the last request.
    """

    async def complete(self, request: Request) -> Completion:
        """Completes one request.

        For a request that it can never serve, a model returns a completion with `stop="too_long"` if the prompt is
        longer than its context, else `stop="error"` and the reason.

        Raises:
            ModelError: the call itself failed (ModelLost: and so will all others).
            ModelGone: a pool of models has none left.
        """


async def abilities_of(model: Model) -> Abilities:
    """Returns the abilities that the model reports, or the defaults of every model."""
    tell = getattr(model, "abilities", None)
    return Abilities() if tell is None else await tell()
