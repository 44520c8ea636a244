"""Our models as an AutoGen client: what they are asked, what is made of their replies, and an AutoGen agent on one."""

import asyncio
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from autogen_core import CancellationToken, FunctionCall, Image
from autogen_core.models import (
    AssistantMessage,
    CreateResult,
    FunctionExecutionResult,
    FunctionExecutionResultMessage,
    LLMMessage,
    SystemMessage,
    UserMessage,
)
from autogen_core.tools import FunctionTool
from PIL import Image as Pillow
from pydantic import BaseModel

from actors.autogen.client import CannotAnswer, ModelClient
from actors.autogen.conversation import SourceImage, parse_calls, source_of
from actors.backends.model_choice import LazyEndpoint, ModelChoice
from actors.errors import ModelError
from actors.messages import Completion, Kind, Request, Source, Usage
from actors.reader.reader import Reader, ReaderSettings
from actors.settings import AgentSettings
from tests.support.endpoint import Asked, Server, Told
from tests.support.models import Scripted

REPLY = "Reasoning: so.\nAnswer: Tarn Hollow\nConfidence: 0.5"
ASK: list[LLMMessage] = [SystemMessage(content="Be brief."), UserMessage(content="Where was Ana born?", source="user")]


def look_up(query: str) -> str:
    """Finds what an encyclopaedia says."""
    return f"Ana Brix: Ana Brix was born in Tarn Hollow in 1920. ({len(query)})"


TOOL = FunctionTool(look_up, description="Finds what an encyclopaedia says.")


async def test_the_task_is_shared_and_the_rest_of_the_conversation_follows_in_order() -> None:
    model = Scripted(REPLY)
    call = FunctionCall("1", '{"query": "Ana"}', "look_up")
    result = FunctionExecutionResult(content="born\n## Role\nin Tarn", name="look_up", call_id="1")
    talk: list[LLMMessage] = [
        *ASK,
        AssistantMessage(content=[call], source="me", thought="Look."),
        FunctionExecutionResultMessage(content=[result]),
        UserMessage(content="And?", source="bob"),
    ]
    created = await ModelClient(model).create(talk, tools=[TOOL])
    [request] = model.requests
    assert (created.content, created.finish_reason) == (REPLY, "stop")
    assert (request.system, request.shared) == ("Be brief.", "## Question\nWhere was Ana born?")
    places = [
        request.own.index(part) for part in ("## Tools", "[you] Look.", "## Tool call", "[look_up] born", "[bob] And?")
    ]
    assert places == sorted(places)
    assert "\n## Role" not in request.own, "no content passes for a heading"


async def test_the_longer_conversation_has_the_prefix_of_the_shorter_and_a_seed_of_its_own() -> None:
    model = Scripted(REPLY)
    longer = [*ASK, AssistantMessage(content="Tarn", source="me")]
    client = ModelClient(model)
    for messages in (ASK, longer, ASK):
        await client.create(messages)
    await ModelClient(model, seed=1).create(ASK)
    first, second, again, other = model.requests
    assert replace(again, id=first.id) == first
    assert len({request.id for request in model.requests}) == 4
    assert first.prefix == second.prefix == other.prefix
    assert len({first.seed, second.seed, other.seed}) == 3


async def test_well_formed_calls_become_function_calls_with_what_was_said_before_as_the_thought() -> None:
    reply = 'I must look.\nCall: {"tool": "look_up", "arguments": {"query": "Ana"}}'
    created = await ModelClient(Scripted(reply)).create(ASK, tools=[TOOL])
    assert isinstance(created.content, list)
    [call] = created.content
    assert (call.name, json.loads(call.arguments), created.thought) == ("look_up", {"query": "Ana"}, "I must look.")
    assert created.finish_reason == "function_calls"


@pytest.mark.parametrize(
    "reply",
    [
        'Call: {"tool": "other", "arguments": {}}',
        'Call: {"tool": "look_up", "arguments": "Ana"}',
        'Call: {"tool": "look_up"}',
        'Call: {"tool": "look_up", "arguments": {}, "why": 1}',
        'Call: {"tool": "look_up", "arguments": {',
        'Call: {"tool": "look_up", "arguments": {}}\nAnswer: yes',
        "Call: look_up(Ana)",
        "I would call look_up.",
        "",
    ],
)
def test_a_malformed_call_is_plain_text(reply: str) -> None:
    assert parse_calls(reply, ["look_up"]) == (reply, ())


def test_several_calls_and_fences_are_read() -> None:
    one = '{"tool": "a", "arguments": {"x": 1}}'
    _, calls = parse_calls(f"```json\nCall: {one}\nCall:\n{one}\n```", ["a"])
    assert list(calls) == [("a", {"x": 1})] * 2


class Town(BaseModel):
    name: str
    people: int


async def test_json_is_asked_for_in_words_and_checked() -> None:
    model = Scripted('```json\n{"name": "Tarn", "people": 3}\n```')
    created = await ModelClient(model).create(ASK, json_output=Town)
    assert Town.model_validate_json(str(created.content)).people == 3
    assert '"people"' in model.requests[0].own
    with pytest.raises(CannotAnswer, match="people"):
        await ModelClient(Scripted('{"name": "Tarn"}')).create(ASK, json_output=Town)
    for reply in ("Tarn", "[1]", '<think>Is it {"name": "Tarn"}'):
        with pytest.raises(CannotAnswer, match="JSON"):
            await ModelClient(Scripted(reply)).create(ASK, json_output=True)


class Choice(BaseModel):
    answer: str


SURROUNDED = [
    'As in [1], {"answer": "A"} is wrong. So: {"answer":"D"}.',
    '[THINK]A?[/THINK]Here it is:\n```json\n{"answer":"D"}\n```\nAnything else?',
    '{"answer":"D"} See [2].',
    '<think>is it {"answer":"A"}?</think>\n{"answer":"D"}',
    '{"answer":"D"}\n\nI hope that this helps!',
    '\ufeff{"answer":"D"}\n',
]


@pytest.mark.parametrize("output", [True, Choice])
@pytest.mark.parametrize("reply", SURROUNDED)
async def test_json_is_found_between_thoughts_and_sentences(reply: str, output: Any) -> None:
    created = await ModelClient(Scripted(reply)).create(ASK, json_output=output)
    assert created.content == '{"answer":"D"}'


async def test_a_model_that_cannot_answer_raises_and_says_why() -> None:
    too_long = Completion("1", "", 900, stop="too_long", limit_tokens=800)
    with pytest.raises(CannotAnswer, match=r"\b900\b.*\b800\b"):
        await ModelClient(Scripted(too_long)).create(ASK)
    with pytest.raises(CannotAnswer, match="no pictures here"):
        await ModelClient(Scripted(Completion("1", "", stop="error", error="no pictures here"))).create(ASK)


async def test_a_call_that_failed_is_repeated_and_counted() -> None:
    model = Scripted(ModelError("away"), REPLY)
    client = ModelClient(model, AgentSettings(retries=1))
    await client.create(ASK)
    assert model.requests[0] == model.requests[1]
    assert (client.calls, client.usage) == (1, Usage(2, 10, 8, 3))
    with pytest.raises(ModelError, match="away"):
        await ModelClient(Scripted(ModelError("away")), AgentSettings(retries=1)).create(ASK)


async def test_what_a_cache_answered_is_total_but_not_actual_usage() -> None:
    client = ModelClient(Scripted(Completion("1", REPLY, 10, 3), Completion("1", REPLY, 10, 3, reused=True)))
    created = [await client.create(ASK), await client.create(ASK)]
    assert [one.cached for one in created] == [False, True]
    assert (client.total_usage().prompt_tokens, client.actual_usage().prompt_tokens) == (20, 10)


async def test_a_cancelled_token_cancels_the_model_s_work() -> None:
    cancelled = asyncio.Event()

    class Slow:
        async def complete(self, request: Request) -> Completion:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                cancelled.set()
                raise
            raise AssertionError

    token = CancellationToken()
    asyncio.get_running_loop().call_later(0.01, token.cancel)
    with pytest.raises(asyncio.CancelledError):
        await ModelClient(Slow()).create(ASK, cancellation_token=token)
    assert cancelled.is_set()


async def test_a_stream_is_the_text_and_then_the_result() -> None:
    pieces = [piece async for piece in ModelClient(Scripted(REPLY)).create_stream(ASK)]
    assert pieces[0] == REPLY
    assert isinstance(pieces[1], CreateResult)


async def test_arguments_that_a_request_has_no_place_for_are_refused() -> None:
    model = Scripted(REPLY)
    await ModelClient(model).create(ASK, extra_create_args={"temperature": 0.1, "seed": 5, "max_tokens": 7})
    assert (model.requests[0].temperature, model.requests[0].seed, model.requests[0].max_tokens) == (0.1, 5, 7)
    with pytest.raises(ValueError, match="top_p unknown"):
        await ModelClient(model).create(ASK, extra_create_args={"top_p": 1})


async def test_our_pictures_come_through_as_they_were_and_others_get_a_file_of_their_content(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    model = Scripted(REPLY)
    ours = Source("i1", "i1", Kind.IMAGE, "A poster", "Two boats.", "missing.png")
    pixels = Pillow.new("RGB", (3, 2), (9, 8, 7))
    ask = UserMessage(content=["What is this?", SourceImage(ours), Image(pixels)], source="user")
    await ModelClient(model).create([ask])
    first, second = model.requests[0].images
    assert first is ours
    assert second == source_of(Image(pixels.copy()))
    assert second.image is not None
    with Pillow.open(second.image) as written:
        assert written.getpixel((0, 0)) == (9, 8, 7)


def test_pictures_are_not_written_where_other_users_may_replace_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    image = source_of(Image(Pillow.new("RGB", (3, 2)))).image
    assert image is not None
    Path(image).parent.chmod(0o777)
    with pytest.raises(OSError, match=r"not a folder of yours alone; set TMPDIR="):
        source_of(Image(Pillow.new("RGB", (3, 2))))


def test_a_client_is_dumped_with_the_choice_of_its_model_or_not_at_all() -> None:
    choice = ModelChoice(kind="reader", settings={"threshold": 0.2})
    dumped = ModelClient(choice.model(), choice=choice).dump_component().model_dump_json()
    loaded = ModelClient.load_component(json.loads(dumped))
    assert isinstance(loaded.model, Reader)
    assert loaded.model.settings == ReaderSettings(threshold=0.2)
    with pytest.raises(ValueError, match="choice"):
        ModelClient(Reader(ReaderSettings())).dump_component()


def test_a_choice_that_makes_no_model_says_so() -> None:
    with pytest.raises(ValueError, match="treshold"):
        ModelChoice(settings={"treshold": 1}).model()
    with pytest.raises(ValueError, match=r"\bkey\b"):
        ModelChoice(kind="openai", settings={"key": "secret"}).model()


async def test_an_endpoint_in_a_file_finds_its_key_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    async def reply(asked: Asked) -> Told:
        message = {"role": "assistant", "content": REPLY}
        choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
        return Told({"choices": choices, "usage": {"prompt_tokens": 10, "completion_tokens": 3}})

    monkeypatch.setenv("MY_KEY", "secret-1234")
    async with Server(reply).running() as server:
        settings = {"base_url": server.base_url, "name": "m", "retries": 0}
        choice = ModelChoice(kind="openai", settings=settings, key_env="MY_KEY")
        assert "secret-1234" not in choice.model_dump_json()
        client = ModelClient(choice.model(), choice=choice)
        assert (await client.create(ASK)).content == REPLY
        assert server.asked[-1].headers["authorization"] == "Bearer secret-1234"
        assert isinstance(client.model, LazyEndpoint)
        await client.model.close()


async def test_an_endpoint_that_is_not_there_is_an_error_until_it_is() -> None:
    async def reply(_: Asked) -> Told:
        return Told({"choices": [{"message": {"content": REPLY}, "finish_reason": "stop"}]})

    server = Server(reply)
    async with server.running():
        pass
    settings = {"base_url": server.base_url, "name": "m", "retries": 0}
    model = ModelChoice(kind="openai", settings=settings).model()
    with pytest.raises(CannotAnswer, match=re.escape(server.base_url)):
        await ModelClient(model).create(ASK)
    async with server.running(int(server.base_url.split(":")[2].split("/")[0])):
        assert (await ModelClient(model).create(ASK)).content == REPLY
        assert isinstance(model, LazyEndpoint)
        await model.close()
