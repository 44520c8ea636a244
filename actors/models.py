"""What every model looks like to an agent: the embedded reader, vLLM, an endpoint, or a pool of any of them."""

from __future__ import annotations

from typing import Protocol

from actors.messages import Completion, Request


class ModelError(Exception):
    """No completion could be had this time (a replica died, an endpoint refused); asking again may work."""


class Model(Protocol):
    async def complete(self, request: Request) -> Completion:
        """Answer one request.

        A model that understood the request but cannot serve it (a prompt longer than its context, say) returns a
        completion with `stop="error"`: asking again would not help.

        Raises:
            ModelError: the call itself failed.
        """
