"""An endpoint of OpenAI's protocol that answers alike for ever, behind a proxy that fails for some requests."""

import asyncio
import hashlib
import json
import random
import re
import threading
import time
from collections.abc import Coroutine
from contextlib import suppress
from email.utils import formatdate
from pathlib import Path
from typing import Any

from tests.instruments.benchmarks.around import Around
from tests.support.endpoint import Asked, Server, Told, completion

TIMEOUT_S = 3
WORK_S = 0.02
MOST_FAULTS = 12  # a request is tried fifteen times
AWAY_S = 15.0
KEY_ENV, KEY = "STEADY_KEY", "sk-steady-" + "k" * 24
ELSEWHERE = "127.0.0.2"
LINE = re.compile(r"^([A-Z][\w -]*): <", re.MULTILINE)
WORD = re.compile(r"\b(?:[A-Z][\w'-]+|\d+)\b")


class Endpoint(Around):
    """The endpoint and its proxy, in a thread of their own. All is well until `fail` is called."""

    def __init__(self, place: Path) -> None:
        super().__init__(place)
        self._chance = random.Random()
        self._fault, self._faults, self._port = "", 0, 0
        self._open: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="endpoint")
        self._thread.start()
        self._server = Server(_answered)
        self._running = self._server.running()
        self._do(self._running.__aenter__())
        self._do(self._listen())
        self._heard = b""  # by another host
        self._do(self._listen_elsewhere())
        self.environment = {KEY_ENV: KEY}
        self.named = [f"model.base_url=http://127.0.0.1:{self._port}/v1", f"model.key_env={KEY_ENV}"]
        self.named.append("model.name=steady")
        self.words = ["model=openai", f"model.timeout_s={TIMEOUT_S}", *self.named]

    def fail(self, fault: str, chance: random.Random) -> None:
        """From now on a few replies fail in one way; then all is well again."""
        self._chance, self._faults, self._fault = chance, chance.randint(4, MOST_FAULTS), fault

    def move(self) -> None:
        """Redirects every request to another host, until the run is resumed."""
        self._faults, self._fault = 10**9, "redirected"

    def renew(self) -> None:
        if self._fault == "redirected":
            self._faults = 0

    def left(self) -> list[str]:
        return ["a key at another host"] if KEY.encode() in self._heard else []

    def go_away(self) -> None:
        """Takes no connections for a while, and ends those that there are."""
        self._do(self._away())

    def close(self) -> None:
        self._do(self._closed())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _do(self, work: Coroutine[Any, Any, Any]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _listen(self) -> None:
        self._proxy = await asyncio.start_server(self._accept, "127.0.0.1", self._port)
        self._port = self._proxy.sockets[0].getsockname()[1]

    async def _listen_elsewhere(self) -> None:
        async def hear(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self._heard += await reader.read(1 << 16)
            writer.close()

        self._elsewhere = await asyncio.start_server(hear, ELSEWHERE, 0)

    async def _away(self) -> None:
        self._proxy.close()
        for task in list(self._open):
            task.cancel()
        await asyncio.sleep(AWAY_S)
        await self._listen()

    async def _closed(self) -> None:
        self._proxy.close()
        self._elsewhere.close()
        for task in list(self._open):
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)
        await self._running.__aexit__(None, None, None)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(self._connection(reader, writer))
        self._open.add(task)
        task.add_done_callback(self._open.discard)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One client's connection, which stays open as long as its client and the fault let it."""
        try:
            with suppress(OSError, asyncio.IncompleteReadError):
                while await self._passed_on(reader, writer):
                    pass
        finally:
            writer.close()

    async def _passed_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = await reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"content-length: *(\d+)", head, re.IGNORECASE)
        asked = head + (await reader.readexactly(int(length[1])) if length else b"")
        behind, to_behind = await asyncio.open_connection("127.0.0.1", int(self._server.base_url.split(":")[2][:-3]))
        try:
            to_behind.write(asked)
            reply = (await behind.read()).replace(b"connection: close", b"connection: keep-alive", 1)
        finally:
            to_behind.close()
        if not self._faults or not head.startswith(b"POST"):
            writer.write(reply)
            return True
        self._faults -= 1
        return await self._fails(reply, writer)

    async def _fails(self, reply: bytes, writer: asyncio.StreamWriter) -> bool:
        """Sends a reply that the fault has befallen; returns whether the connection stays open."""
        chance = self._chance
        match self._fault:
            case "late":
                await asyncio.sleep(TIMEOUT_S * chance.uniform(1.1, 2))
                writer.write(reply)
            case "twice":
                writer.write(reply * 2)
            case "cut":
                writer.write(reply[: chance.choice([0, chance.randrange(len(reply))])])
                if chance.random() < 0.5:
                    writer.transport.abort()
                return False
            case "refused":
                writer.write(_refusal(chance))
            case "redirected":
                port = self._elsewhere.sockets[0].getsockname()[1]
                status = chance.choice([301, 302, 303, 307, 308])
                head = f"HTTP/1.1 {status} x\r\nlocation: http://{ELSEWHERE}:{port}/v1\r\ncontent-length: 0\r\n\r\n"
                writer.write(head.encode())
            case "garbled":
                writer.write(_garbled(reply, chance))
            case fault:
                raise ValueError(f"no fault {fault!r}")
        return True


def _refusal(chance: random.Random) -> bytes:
    status = chance.choice([429, 500, 502, 503])
    lines = [f"HTTP/1.1 {status} x", "content-length: 4"]
    if status in (429, 503):
        # As a number of seconds, and as a date of a clock that is an hour ahead of the client's.
        ahead = time.time() + 3600
        dates = [f"date: {formatdate(ahead, usegmt=True)}", f"retry-after: {formatdate(ahead + 2, usegmt=True)}"]
        lines += chance.choice([["retry-after: 1"], dates, []])
    return "\r\n".join([*lines, "", "busy"]).encode()


def _garbled(reply: bytes, chance: random.Random) -> bytes:
    """A few bytes with their highest bit set, no two beside each other, so that they are no text in UTF-8.

    A letter that is another letter could be told by nobody from what the model said.
    """
    garbled = bytearray(reply)
    body = reply.index(b"\r\n\r\n") + 4
    first = body if chance.random() < 0.7 else 0
    places = {chance.randrange(first, len(reply)) // 2 * 2 for _ in range(chance.randint(1, 20))}
    for place in {*places, body // 2 * 2 + 2}:
        garbled[place] |= 0x80
    return bytes(garbled)


async def _answered(asked: Asked) -> Told:
    if asked.method != "POST":
        return Told({"data": [{"id": "steady"}]})
    await asyncio.sleep(WORK_S)
    body = asked.json()
    text = json.dumps(body["messages"])
    chance = random.Random(hashlib.sha256(json.dumps(body, sort_keys=True).encode()).digest())
    said = _said(body, WORD.findall(text) or ["unknown"], chance)
    return Told(completion(said, prompt_tokens=len(text) // 4, completion_tokens=len(said) // 4))


def _said(body: Any, words: list[str], chance: random.Random) -> str:
    """A reply in the form that is asked for: a schema's, or lines."""
    if "response_format" in body:
        return json.dumps(_value(body["response_format"]["json_schema"]["schema"], words, chance))
    content = body["messages"][-1]["content"]
    asked = content if isinstance(content, str) else "\n".join(part.get("text", "") for part in content)
    names = LINE.findall(asked.rpartition("## Form of the reply")[2])
    values = {"Confidence": f"{chance.random():.2f}"}
    return "\n".join(f"{name}: {values.get(name) or chance.choice(words)}" for name in names) or "Yes."


def _value(schema: Any, words: list[str], chance: random.Random) -> Any:
    if "anyOf" in schema:
        return _value(schema["anyOf"][0], words, chance)
    if "enum" in schema:
        return chance.choice(schema["enum"])
    match schema["type"]:
        case "object":
            return {name: _value(of, words, chance) for name, of in schema["properties"].items()}
        case "array":
            return [_value(schema["items"], words, chance) for _ in range(max(1, schema.get("minItems", 1)))]
        case "number":
            return round(chance.random(), 2)
        case "integer":
            return chance.randint(schema.get("minimum", 1), schema.get("maximum", 5))
        case "boolean":
            return chance.random() < 0.5
    return chance.choice(words)
