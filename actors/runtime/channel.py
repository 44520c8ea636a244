"""A connection between two processes that stays open: calls go one way, and what they yield comes back.

A streaming call of a Ray actor costs more than a millisecond of either process, whatever it carries; one on an open
socket costs a tenth. Ray still places the processes, starts them again, and tells where they listen.
"""

from __future__ import annotations

import asyncio
import hmac
import pickle
import secrets
import socket
import struct
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, cast

KEY_BYTES = 32
# A node that loses its power or its network ends no connection. One that was cut off for some seconds comes back.
GONE_S = 30.0
PROBES = 6
LOST = "the process has ended the connection"
HEADER = struct.Struct("!QQB")  # bytes of the value that follows, the call that it belongs to, and its kind


class ChannelLost(Exception):
    """The other process has died, has ended the connection, or cannot be reached."""


class CallFailed(Exception):
    """The other process's own code raised an error."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


@dataclass(frozen=True, slots=True)
class Address:
    """Where a process listens, and the key without which it hears nothing."""

    host: str
    port: int
    key: bytes


class _Frame(IntEnum):
    CALL = 0  # (method, arguments), answered by any number of values and then an end
    TELL = 1  # (method, arguments), not answered
    VALUE = 2
    END = 3  # None, or what was raised


class _Connection(asyncio.Protocol):
    """Sends and receives frames. What is sent in one turn of the event loop is written at once."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._received = bytearray()
        self._unsent: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # A cast and no check: uvloop's transports, which Ray's actors have where it is installed, are of no such class.
        self._transport = cast(asyncio.Transport, transport)
        _notice_silence(transport.get_extra_info("socket"))

    def data_received(self, data: bytes) -> None:
        self._received += data
        start, size = 0, len(self._received)
        # Views of the buffer are let go before it is cut.
        with memoryview(self._received) as received:
            while start + HEADER.size <= size:
                length, call, kind = HEADER.unpack_from(received, start)
                begin = start + HEADER.size
                if begin + length > size:
                    break
                start = begin + length
                with received[begin:start] as packed:
                    value = pickle.loads(packed)
                self._take(call, _Frame(kind), value)
        del self._received[:start]

    def abort(self) -> None:
        """End the connection now."""
        if self._transport is not None:
            self._transport.abort()

    def _take(self, call: int, kind: _Frame, value: Any) -> None:
        raise NotImplementedError

    def _send(self, call: int, kind: _Frame, value: Any) -> None:
        packed = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
        if self._transport is None:
            return  # it was lost: whoever waits for an answer is told so
        if not self._unsent:
            asyncio.get_running_loop().call_soon(self._flush)
        self._unsent += HEADER.pack(len(packed), call, kind), packed

    def _flush(self) -> None:
        unsent, self._unsent = self._unsent, []
        if unsent and self._transport is not None:
            self._transport.writelines(unsent)


def _notice_silence(connected: socket.socket) -> None:
    """Has the system end a connection whose other end has acknowledged nothing for GONE_S, asked for or not.

    By its kernel: a process that was stopped or computes is no silent one, as long as what it is sent finds room.
    """
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    every_s = max(1, round(GONE_S / PROBES))
    # Each by its name, as not all systems have all of them.
    for name, value in (
        ("TCP_KEEPIDLE", every_s),
        ("TCP_KEEPINTVL", every_s),
        ("TCP_KEEPCNT", PROBES),
        ("TCP_USER_TIMEOUT", round(GONE_S * 1000)),
    ):
        if hasattr(socket, name):
            connected.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


class Listener:
    """Serves the methods of an object that are named to every process that has the key.

    A method that is called is an asynchronous generator; one that is told something is a plain function. Calls of a
    connection that is lost are cancelled.
    """

    def __init__(self, target: object, methods: frozenset[str]) -> None:
        self._methods = {name: getattr(target, name) for name in methods}
        self._key = secrets.token_bytes(KEY_BYTES)
        self._opening: asyncio.Task[int] | None = None
        self._server: asyncio.Server | None = None
        self._served: set[_Served] = set()

    async def address(self, host: str) -> Address:
        """Where it listens, which it begins to do when it is asked for the first time."""
        if self._opening is None:
            self._opening = asyncio.get_running_loop().create_task(self._open(host))
        return Address(host, await self._opening, self._key)

    async def _open(self, host: str) -> int:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Served(self._methods, self._key, self._served), host, 0)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    def close(self) -> None:
        """Hear no more, and end all connections."""
        if self._server is not None:
            self._server.close()
        for connection in self._served:
            connection.abort()


class _Served(_Connection):
    """A listener's end of one connection. Nothing is unpickled before the key has come."""

    def __init__(self, methods: dict[str, Callable[..., Any]], key: bytes, served: set[_Served]) -> None:
        super().__init__()
        self._methods = methods
        self._key = key
        self._known = False
        self._served = served  # all that the listener has now
        self._calls: set[asyncio.Task[None]] = set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._served.add(self)

    def data_received(self, data: bytes) -> None:
        if not self._known:
            self._received += data
            if len(self._received) < KEY_BYTES:
                return
            assert self._transport is not None
            if not hmac.compare_digest(bytes(self._received[:KEY_BYTES]), self._key):
                self._transport.abort()
                return
            self._known = True
            data = bytes(self._received[KEY_BYTES:])
            self._received.clear()
        super().data_received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._served.discard(self)
        for task in self._calls:
            task.cancel()

    def _take(self, call: int, kind: _Frame, value: Any) -> None:
        method, arguments = value
        if kind is _Frame.TELL:
            self._methods[method](*arguments)
            return
        try:
            values = self._methods[method](*arguments)
        except Exception as error:
            self._send(call, _Frame.END, _sendable(error))
            return
        task = asyncio.get_running_loop().create_task(self._answer(call, values))
        # The event loop alone would not keep the task alive.
        self._calls.add(task)
        task.add_done_callback(self._calls.discard)

    async def _answer(self, call: int, values: AsyncIterator[Any]) -> None:
        try:
            async for value in values:
                self._send(call, _Frame.VALUE, value)
            self._send(call, _Frame.END, None)
        except Exception as error:
            self._send(call, _Frame.END, _sendable(error))


def _sendable(error: Exception) -> Exception:
    """The error, or where it cannot be pickled one that says the same."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


class _Values:
    """What a call has yielded and its caller has not yet had."""

    def __init__(self) -> None:
        self._ready: deque[tuple[_Frame, Any]] = deque()
        self._waiter: asyncio.Future[None] | None = None

    def put(self, kind: _Frame, value: Any) -> None:
        self._ready.append((kind, value))
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def get(self) -> tuple[_Frame, Any]:
        if not self._ready:
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
            self._waiter = None
        return self._ready.popleft()


class _Calling(_Connection):
    """A caller's end of one connection."""

    def __init__(self, key: bytes) -> None:
        super().__init__()
        self._key = key
        self._calls: dict[int, _Values] = {}
        self._number = 0
        self._keeper: asyncio.Task[None] | None = None
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        assert self._transport is not None
        self._transport.write(self._key)
        # Cancelled with all other tasks when the event loop ends, which would leave the socket open.
        self._keeper = asyncio.get_running_loop().create_task(self._keep(self._transport))

    async def _keep(self, transport: asyncio.Transport) -> None:
        try:
            await self.closed
        finally:
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if not self.closed.done():
            self.closed.set_result(None)
        for values in self._calls.values():
            values.put(_Frame.END, ChannelLost(str(exc or LOST)))
        self._calls.clear()

    def _take(self, call: int, kind: _Frame, value: Any) -> None:
        values = self._calls.get(call)
        if values is not None:
            values.put(kind, value)
            if kind is _Frame.END:
                del self._calls[call]

    def call(self, method: str, arguments: tuple[Any, ...]) -> _Values:
        self._number += 1
        values = _Values()
        self._send(self._number, _Frame.CALL, (method, arguments))
        # Not with what else this turn of the event loop sends: the other process can begin meanwhile.
        self._flush()
        if self.closed.done():  # lost before anything could be sent: nobody else would say so
            values.put(_Frame.END, ChannelLost(LOST))
        else:
            self._calls[self._number] = values
        return values

    def tell(self, method: str, arguments: tuple[Any, ...]) -> None:
        self._send(0, _Frame.TELL, (method, arguments))


class Channel:
    """A caller's way to one process. It is opened with the first call, and again after it was lost.

    Args:
        locate: finds out where the process listens now. What it raises is raised to those that called meanwhile.
    """

    def __init__(self, locate: Callable[[], Awaitable[Address]]) -> None:
        self._locate = locate
        self._connection: _Calling | None = None
        self._opening = asyncio.Lock()

    def stream(self, method: str, *arguments: object) -> AsyncIterator[Any]:
        """Calls the far method, at once where the connection is open, and yields what that yields.

        Raises, when what it yields is asked for:
            CallFailed: the method raised.
            ChannelLost: the process was lost, and what it was doing with it.
        """
        values = None
        if self._connection is not None and not self._connection.closed.done():
            values = self._connection.call(method, arguments)
        return self._yielded(values, method, arguments)

    async def _yielded(self, values: _Values | None, method: str, arguments: tuple[Any, ...]) -> AsyncIterator[Any]:
        """What a call yields that was made already, or is made as soon as the connection is open."""
        if values is None:
            values = (await self._open()).call(method, arguments)
        while True:
            kind, value = await values.get()
            if kind is _Frame.VALUE:
                yield value
            elif value is None:
                return
            elif isinstance(value, ChannelLost):
                raise value
            else:
                raise CallFailed(value)

    def tell(self, method: str, *arguments: object) -> None:
        """Let the process know, if there is a connection; nobody answers."""
        if self._connection is not None:
            self._connection.tell(method, arguments)

    def close(self) -> None:
        """End the connection, if there is one. What is asked later opens it again."""
        if self._connection is not None:
            self._connection.abort()

    async def _open(self) -> _Calling:
        async with self._opening:
            if self._connection is None or self._connection.closed.done():
                address = await self._locate()
                loop = asyncio.get_running_loop()
                try:
                    async with asyncio.timeout(GONE_S):
                        _, self._connection = await loop.create_connection(
                            lambda: _Calling(address.key), address.host, address.port
                        )
                except OSError as error:  # a TimeoutError is one, and says nothing
                    raise ChannelLost(str(error) or f"{address.host} does not answer") from error
            return self._connection
