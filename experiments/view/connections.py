"""Limits of the viewer's connections: any program of this machine may open some, without the token."""

import asyncio
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

MOST_CONNECTIONS = 500  # a process may often open 1,024 files
REQUEST_S = 10.0  # for the whole of a request; uvicorn waits forever


class ViewerConnection(H11Protocol):
    """A connection. It is closed where there are too many, and where a request is not complete in time."""

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > MOST_CONNECTIONS:
            transport.close()
        else:
            self._wait(None)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer:
            self._timer.cancel()
        super().connection_lost(exc)

    def _wait(self, request: Any) -> None:
        """Looks again after the time for a request. Closes the connection if none has begun to be answered since."""
        is_answering = self.cycle is not None and not self.cycle.response_complete
        if self._timer and self.cycle is request and not is_answering:
            self.transport.close()
        else:
            self._timer = asyncio.get_running_loop().call_later(REQUEST_S, self._wait, self.cycle)


def server_of(app: ASGIApp) -> uvicorn.Server:
    """Makes the server of an app."""
    # Without access log: an address holds the token.
    settings = uvicorn.Config(app, http=ViewerConnection, log_config=None, access_log=False, lifespan="off")
    return uvicorn.Server(settings)
