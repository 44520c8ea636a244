"""An endpoint that means harm, on a local server: its key comes back in no form, and its replies cost little."""

import asyncio
import contextlib
import dataclasses
import gzip
import json
import logging
import re
import traceback
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from actors import http_client
from actors.backends import openai_reply
from actors.backends.model_settings import DeclaredAbilities, ModelSettings
from actors.backends.openai_model import OpenAIModel
from actors.backends.redaction import LINE_CHARACTERS, Redaction
from actors.completions.cache import CachedModel, Reuse
from actors.errors import ModelGone
from actors.messages import Request
from tests.support.endpoint import Asked, Server, Told, completion, started

HOST = "127.0.0.1"
KEY = "sk-proj-Zq9xW7/B3nLk5tRh2mYc-8QdF"
REQUEST = Request("q1/1/critic", "", "Be brief.", "Which?", "You doubt.")
DECLARED = DeclaredAbilities(pictures=True, schema=True, likelihoods=True, context_tokens=4096)


@contextlib.asynccontextmanager
async def endpoint(told: Told) -> AsyncIterator[OpenAIModel]:
    first = [Told(completion())]

    async def handle(_: Asked) -> Told:
        return first.pop() if first else told

    async with started(handle, KEY, timeout_s=60, retries=0, abilities=DECLARED) as (model, _):
        yield model


ECHOES = {
    "a solidus": KEY.replace("/", "\\/"),
    "code points": "".join(f"\\u{ord(letter):04x}" for letter in KEY),
    "some code points": KEY.replace("s", "\\u0073").replace("/", "\\/"),
    "as it is": KEY,
}


@pytest.mark.parametrize("echo", ECHOES.values(), ids=ECHOES.keys())
@pytest.mark.parametrize("status", [200, 400])
async def test_a_key_that_json_escapes_is_in_no_reply_and_no_cache(echo: str, status: int, tmp_path: Path) -> None:
    answer = f'{{"choices":[{{"message":{{"content":"It is {echo}."}},"finish_reason":"stop"}}]}}'
    body = answer if status == 200 else f'{{"error":{{"message":"wrong: {echo}"}}}}'
    async with endpoint(Told(body, status)) as model:
        cached = CachedModel(model, Reuse(str(tmp_path), "m", 0.1, 1))
        try:
            reply = repr(await cached.complete(REQUEST))
        except ModelGone as error:
            reply = repr(error)
        cached.close()
    assert "[key]" in reply
    assert KEY not in reply
    assert all(KEY.encode() not in path.read_bytes() for path in tmp_path.iterdir())


SPLIT = {
    "tags": f"{KEY[:5]}<b></b>{KEY[5:]}",
    "attributes": f"{KEY[:5]}<i class='x1'>{KEY[5:9]}</i>{KEY[9:]}",
    "emphasis": f"{KEY[:5]}**{KEY[5:9]}**`{KEY[9:]}`",
    "lines": f"{KEY[:9]}\n\n{KEY[9:]}",
    "entities": f"&#{ord(KEY[0])};<b></b>{KEY[1:]}",
}


@pytest.mark.parametrize("split", SPLIT.values(), ids=SPLIT.keys())
async def test_a_key_that_marks_split_is_in_no_reply(split: str) -> None:
    async with endpoint(Told(completion(f"Answer: {split}"))) as model:
        assert (await model.complete(REQUEST)).text == "[key]"


@pytest.mark.parametrize("status", [200, 401, 503])
@pytest.mark.parametrize("before", ["", "\0"], ids=["a reason phrase", "no reason phrase"])
async def test_a_key_in_a_reason_phrase_is_in_no_log_and_no_error(
    before: str, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with endpoint(Told(completion(), status, reason=f"{before}bad key {KEY}")) as model:
        try:
            left = repr(await model.complete(REQUEST))
        except ModelGone as error:
            left = "".join(traceback.format_exception(error))
    assert KEY not in left
    assert KEY not in caplog.text


async def test_no_cut_leaves_a_part_of_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openai_reply, "REPLY_CHARACTERS", 30)
    async with endpoint(Told(completion(f"Answer: {KEY} is it"))) as model:
        assert KEY[:6] not in (await model.complete(REQUEST)).text
    async with endpoint(Told(completion(f"Answer: {KEY[:20]}", "length"))) as model:
        assert (await model.complete(REQUEST)).text == "Answer: [key]"


@pytest.mark.parametrize("text", ["refusal", "content", "message"])
async def test_a_long_text_without_a_space_is_read_at_once(text: str) -> None:
    """The time-out is of the attempt, and nothing after it may take long: a quadratic pattern took two minutes."""
    long = "a" * 400_000
    told: dict[str, Any] = {"choices": [{"message": {text: long}, "finish_reason": "stop"}]}
    async with endpoint(Told({"error": {"message": long}}, 400) if text == "message" else Told(told)) as model:
        try:
            error = (await model.complete(REQUEST)).error
        except ModelGone as gone:
            error = str(gone)
    assert len(error) <= LINE_CHARACTERS


def test_redacting_has_no_pattern_whose_time_grows_faster_than_its_text() -> None:
    redaction = Redaction(KEY)
    for text in ("a" * 2_000_000, "*" * 2_000_000, "%" * 2_000_000, "\\" * 500_000, KEY[:-1] * 20_000):
        assert len(redaction.line(text)) <= LINE_CHARACTERS


async def test_a_body_without_end_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_client, "BODY_BYTES", 100_000)
    async with endpoint(Told("x" * 300_000)) as model:
        assert "100,000 bytes" in (await model.complete(REQUEST)).error


async def test_a_reply_that_comes_twice_is_not_the_next_requests() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = re.search(rb"content-length: (\d+)", head.lower())
                asked = json.loads(await reader.readexactly(int(length[1]))) if length else {}
                body = json.dumps(completion(str(asked.get("seed")))).encode()
                writer.write((b"HTTP/1.1 200 x\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)) * 2)
        writer.close()

    server = await asyncio.start_server(serve, HOST, 0)
    base_url = f"http://{HOST}:{server.sockets[0].getsockname()[1]}/v1"
    model = OpenAIModel(ModelSettings(base_url=base_url, name="qwen", abilities=DECLARED))
    await model.start()
    replies = [await model.complete(dataclasses.replace(REQUEST, seed=seed)) for seed in range(5)]
    await model.close()
    server.close()
    assert [reply.text for reply in replies] == [str(seed) for seed in range(5)]


async def test_a_compressed_body_is_not_unpacked() -> None:
    bomb = gzip.compress(b"0" * 10_000_000)
    async with endpoint(Told(bomb, headers={"content-encoding": "gzip"})) as model:
        assert "compressed (gzip)" in (await model.complete(REQUEST)).error


async def test_a_list_of_models_without_end_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_client, "BODY_BYTES", 100_000)

    async def handle(asked: Asked) -> Told:
        return Told(completion()) if asked.method == "POST" else Told("[" * 300_000)

    async with Server(handle).running() as server:
        model = OpenAIModel(ModelSettings(base_url=server.base_url, name="qwen"), SecretStr(KEY))
        await model.start()
        assert (await model.abilities()).context_tokens is None
        await model.close()


@pytest.mark.parametrize("count", ["9223372036854775808", "-5", "NaN", '"many"', "1e400", "true", "[1]", "9" * 5000])
async def test_a_count_that_cannot_be_is_none_and_the_cache_goes_on(count: str, tmp_path: Path) -> None:
    body = json.dumps(completion("so", prompt_tokens=0)).replace('"prompt_tokens": 0', f'"prompt_tokens": {count}')
    async with endpoint(Told(body)) as model:
        cached = CachedModel(model, Reuse(str(tmp_path), "m", 0.1, 1))
        reply = await cached.complete(REQUEST)
        assert reply.prompt_tokens == 0
        cached.close()
        again = CachedModel(model, Reuse(str(tmp_path), "m", 0.1, 1))
        # Digits without end are no JSON to Python.
        assert (await again.complete(REQUEST)).reused == (reply.stop == "stop")
        again.close()


async def test_a_reply_longer_than_any_is_cut_as_for_its_length() -> None:
    async with endpoint(Told(completion("ab " * 500_000))) as model:
        reply = await model.complete(REQUEST)
    assert (len(reply.text), reply.stop) == (1_000_000, "length")
