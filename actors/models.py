"""What every model looks like to an agent: the embedded reader, vLLM, an endpoint, or a pool of any of them."""

from __future__ import annotations

from typing import Protocol

from actors.messages import Completion, Request


class ModelError(Exception):
    """No completion could be had this time (a replica died, an endpoint refused); asking again may work."""


class ModelLost(ModelError):
    """The model will not answer again (its engine died or hangs): its process has to be started anew."""


class ModelGone(Exception):
    """No replica is left and none will come: not one turn's failure but the run's end, which nothing may record."""


class Model(Protocol):
    async def complete(self, request: Request) -> Completion:
        """Answer one request.

        A model that cannot serve the request, however often it is asked, returns a completion that says why:
        `stop="too_long"` for a prompt longer than its context, `stop="error"` for anything else.

        Raises:
            ModelError: the call itself failed (ModelLost: and so will all others).
            ModelGone: a pool of models has none left.
        """
