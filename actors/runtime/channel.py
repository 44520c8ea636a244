"""Sends pickled values between two processes over a socket that stays open.

A streaming call of a Ray actor costs each process more than a millisecond; a frame on an open socket costs a tenth of
that. Ray places the processes, restarts them, and tells a client where a service listens.
"""

import asyncio
import hmac
import io
import pickle
import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

KEY_BYTES = 32
# A node that loses power or its network ends no connection. One that was cut off for some seconds comes back.
GONE_S = 30.0
PROBES = 6
KEY_S = 10.0  # for a client to send its key, which it does at once
LOST = "the process has ended the connection"
HEADER = struct.Struct("!?Q")  # whether the value begins a stream, and the bytes of the pickled value that follows
STREAM_BYTES = 1 << 20  # of values that refer to each other; both ends keep what these hold


class ChannelLost(Exception):
    """The other process has died, has ended the connection, or cannot be reached."""


@dataclass(frozen=True, slots=True)
class Address:
    """Address of a service, with the key that a client sends first."""

    host: str
    port: int
    key: bytes


class PickledStream:
    """Pickles values one after another. An object that an earlier value held is sent as a reference to it.

    Turns of a discussion share question and messages, and requests of a question share evidence: each is pickled,
    sent and made once for a connection. After STREAM_BYTES a new stream begins, so that both ends free what they keep.

    frozen: no object changes after it was sent. Where one may, every value begins a stream.
    """

    def __init__(self, frozen: bool) -> None:
        self._stream_bytes = STREAM_BYTES if frozen else 0
        self._begin()

    def _begin(self) -> None:
        self._buffer = io.BytesIO()
        self._pickler = pickle.Pickler(self._buffer, pickle.HIGHEST_PROTOCOL)
        self._sent_bytes = 0

    def pack(self, value: Any) -> tuple[bytes, bytes]:
        """Returns the header and the pickled value. Raises what pickling it raises."""
        if self._sent_bytes > self._stream_bytes:
            self._begin()
        is_first = self._sent_bytes == 0
        try:
            self._pickler.dump(value)
        except BaseException:
            # The other end never receives the objects that were pickled before the failure.
            self._begin()
            raise

        packed = self._buffer.getvalue()
        self._buffer.seek(0)
        self._buffer.truncate()
        self._sent_bytes += len(packed)
        return HEADER.pack(is_first, len(packed)), packed


class UnpickledStream:
    """Makes the values of a PickledStream again."""

    def __init__(self) -> None:
        self._buffer = io.BytesIO()
        self._unpickler = pickle.Unpickler(self._buffer)

    def unpack(self, is_first: bool, packed: memoryview) -> Any:
        if is_first:
            self._unpickler = pickle.Unpickler(self._buffer)
        self._buffer.write(packed)
        self._buffer.seek(0)
        value = self._unpickler.load()
        self._buffer.seek(0)
        self._buffer.truncate()
        return value


class Connection(asyncio.Protocol):
    """One end of a connection: sends values, and calls `receive` with each value that arrives.

    receive: called with each value of the other end.
    lost: called once, with the reason, when the connection has ended.
    key: sent first by a client.
    expected: the key that a service waits for. Nothing is unpickled before it has arrived.
    frozen: no object changes after it was sent (`PickledStream`).
    """

    def __init__(
        self,
        receive: Callable[[Any], None],
        lost: Callable[[str], None],
        key: bytes = b"",
        expected: bytes = b"",
        frozen: bool = True,
    ) -> None:
        self._receive = receive
        self._lost = lost
        self._key = key
        self._expected = expected
        self._received = bytearray()
        self._outgoing = PickledStream(frozen)
        self._incoming = UnpickledStream()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # A cast and no check: uvloop, which Ray's actors use where it is installed, has transports of another class.
        self._transport = cast(asyncio.Transport, transport)
        # The kernel ends a connection that acknowledged nothing for GONE_S. A stopped process acknowledges for a while.
        tcp_socket: socket.socket = transport.get_extra_info("socket")
        tcp_socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        interval_s = max(1, round(GONE_S / PROBES))
        options = {
            "TCP_KEEPIDLE": interval_s,
            "TCP_KEEPINTVL": interval_s,
            "TCP_KEEPCNT": PROBES,
            "TCP_USER_TIMEOUT": round(GONE_S * 1000),
        }
        for name, value in options.items():
            if hasattr(socket, name):  # not every system has all of them
                tcp_socket.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)

        if not self.accepted:
            asyncio.get_running_loop().call_later(KEY_S, self._abort_stranger)
        if self._key:
            self._transport.write(self._key)

    def data_received(self, data: bytes) -> None:
        self._received += data
        if not self.accepted:
            length = len(self._expected)
            if len(self._received) < length:
                return
            if not hmac.compare_digest(bytes(self._received[:length]), self._expected):
                return self.abort()
            del self._received[:length]
            self._expected = b""

        start = 0
        size = len(self._received)
        # The views are released before the buffer is cut.
        with memoryview(self._received) as received:
            while start + HEADER.size <= size:
                begin = start + HEADER.size
                is_first, length = HEADER.unpack_from(received, start)
                if begin + length > size:
                    break
                start = begin + length
                with received[begin:start] as packed:
                    value = self._incoming.unpack(is_first, packed)
                self._receive(value)
        del self._received[:start]

    @property
    def accepted(self) -> bool:
        """False until the other end has sent the key that this one expects."""
        return not self._expected

    def _abort_stranger(self) -> None:
        if not self.accepted:
            self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._lost(str(exc or LOST))

    def send(self, value: Any) -> None:
        """Sends a value; does nothing once the connection is lost. Raises what pickling it raises."""
        frame = self._outgoing.pack(value)
        if self._transport is not None:
            self._transport.writelines(frame)

    def close(self) -> None:
        """Ends the connection once everything is sent."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Ends the connection now."""
        if self._transport is not None:
            self._transport.abort()


def sendable(result: Any) -> Any:
    """Returns a result, or an error with its text where it cannot be pickled."""
    try:
        pickle.loads(pickle.dumps(result))
    except Exception as error:
        cause = result if isinstance(result, Exception) else error
        return RuntimeError(f"{type(cause).__name__}: {cause}")
    return result
