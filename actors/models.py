"""What every model looks like to an agent: the embedded reader, vLLM, an endpoint, or a pool of any of them."""

from __future__ import annotations

from typing import Protocol

from actors.messages import Completion, Request


class Model(Protocol):
    async def complete(self, request: Request) -> Completion:
        """Answer one request.

        A model that cannot serve the request, however often it is asked, returns a completion that says why:
        `stop="too_long"` for a prompt longer than its context, `stop="error"` for anything else.

        Raises:
            ModelError: the call itself failed (ModelLost: and so will all others).
            ModelGone: a pool of models has none left.
        """
