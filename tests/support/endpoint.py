"""A small HTTP server for tests: it records requests, and answers, fails or cuts the connection as a test says."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from pydantic import SecretStr

from actors.backends.model_settings import ModelSettings, Usual
from actors.backends.openai_model import OpenAIModel


@dataclass
class Asked:
    """One request as it came."""

    method: str
    path: str
    headers: dict[str, str]
    content: bytes

    def json(self) -> Any:
        return json.loads(self.content)


@dataclass
class Told:
    """One response: `kept` is the share of its body that is sent before the connection is cut."""

    content: bytes | str | dict[str, Any] | list[Any]
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    kept: float = 1.0
    reason: str = "x"


Handler = Callable[[Asked], Awaitable[Told]]


class Server:
    """Answers with what `handle` returns; a client that goes away first is counted in `left`."""

    def __init__(self, handle: Handler) -> None:
        self._handle = handle
        self.base_url = ""
        self.asked: list[Asked] = []
        self.left = 0
        self._serving: set[asyncio.Task[None]] = set()

    @contextlib.asynccontextmanager
    async def running(self, port: int = 0) -> AsyncIterator[Server]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", port)
        self.base_url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        try:
            yield self
        finally:
            server.close()
            # Closing stops new connections only; open ones finish, so that no task outlives the test.
            while self._serving:
                await asyncio.wait(self._serving)

    def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._connection(reader, writer))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await self._answer(reader, writer)
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        first, *lines = head.strip().split("\r\n")
        method, path, _ = first.split(" ", 2)
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        request = Asked(method, path, headers, await reader.readexactly(int(headers.get("content-length", 0))))
        self.asked.append(request)
        handling = asyncio.ensure_future(self._handle(request))
        # A waiting client sends nothing more, so this read ends only when the client has gone.
        leaving = asyncio.ensure_future(reader.read(1))
        await asyncio.wait({handling, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not handling.done():
            self.left += 1
            handling.cancel()
            return
        leaving.cancel()
        response = handling.result()
        content = response.content if isinstance(response.content, (str, bytes)) else json.dumps(response.content)
        content = content.encode() if isinstance(content, str) else content
        reply_headers = {"content-type": "application/json", "connection": "close", "content-length": len(content)}
        reply_headers |= response.headers
        writer.write(f"HTTP/1.1 {response.status} {response.reason}\r\n".encode())
        writer.write("".join(f"{name}: {value}\r\n" for name, value in reply_headers.items()).encode() + b"\r\n")
        # The header announces the whole length, so a shorter body looks like a cut connection.
        writer.write(content[: int(len(content) * response.kept)])
        await writer.drain()


@contextlib.asynccontextmanager
async def started(
    handle: Handler, key: str = "", usual: Usual | None = None, **settings: Any
) -> AsyncIterator[tuple[OpenAIModel, Server]]:
    """A model that has started, and the server that it asks."""
    async with Server(handle).running() as server:
        chosen: dict[str, Any] = {"base_url": server.base_url, "name": "qwen"}
        model = OpenAIModel(ModelSettings(**chosen | settings), SecretStr(key), usual)
        await model.start()
        yield model, server
        await model.close()


def completion(text: str | None = "yes", finish: str = "stop", **usage: Any) -> dict[str, Any]:
    """A chat completion as endpoints write it."""
    return {
        "id": "c1",
        "object": "chat.completion",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": finish}],
        "usage": {"prompt_tokens": 7, "completion_tokens": 3, **usage},
    }


@contextlib.contextmanager
def serving(server: Server) -> Iterator[None]:
    """Serves in a thread, so that a run in this process can ask."""
    ready: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = Future()

    async def serve() -> None:
        done = asyncio.Event()
        async with server.running():
            ready.set_result((asyncio.get_running_loop(), done))
            await done.wait()

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    loop, done = ready.result()
    try:
        yield
    finally:
        loop.call_soon_threadsafe(done.set)
        thread.join()
