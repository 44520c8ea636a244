"""An endpoint that refuses what it is sent: what it does not take is found out, left out, and reported."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from actors.backends import openai_model
from actors.backends.model_settings import DeclaredAbilities, ModelSettings, Usual
from actors.backends.openai_model import OpenAIModel
from actors.completions.cache import CachedModel, Reuse
from actors.errors import ModelGone
from actors.messages import Kind, Request, Source
from actors.pictures import data_url
from tests.support.endpoint import Asked, Server, Told, completion, started

REQUEST = Request("q1/1/critic", "", "Be brief.", "## Question\nWhich? " + "Evidence. " * 200, "You doubt.")
SHORT = 1000
Refuses = Callable[[dict[str, Any]], bool]


@pytest.fixture(autouse=True)
def little_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PATIENCE_S", "PATIENCE_AT_START_S"):
        monkeypatch.setattr(openai_model, name, 0.005)


def body(message: str, status: int = 400, **more: Any) -> dict[str, Any]:
    return {"status": status, "body": {"error": {"message": message, **more}}}


def told(row: dict[str, Any]) -> Told:
    return Told(row["body"], row["status"])


@contextlib.asynccontextmanager
async def endpoint(
    row: dict[str, Any], refuses: Refuses, usual: Usual | None = None, **settings: Any
) -> AsyncIterator[tuple[OpenAIModel, Server]]:
    """A started model and its server, which gives the row's response to what it refuses, and else says yes."""

    async def handle(asked: Asked) -> Told:
        if asked.path.endswith("/models"):
            return Told({"data": []})
        sent = asked.json()
        words = len(str(sent["messages"]).split())
        return told(row) if refuses(sent) else Told(completion(prompt_tokens=words))

    async with started(handle, usual=usual, **settings) as model_and_server:
        yield model_and_server


def has_system_turn(sent: dict[str, Any]) -> bool:
    return any(message["role"] == "system" for message in sent["messages"])


def pictures(sent: dict[str, Any]) -> int:
    return str(sent["messages"]).count("image_url':")


def is_long(sent: dict[str, Any]) -> bool:
    return len(str(sent["messages"])) > SHORT


FIELDS: list[tuple[str, Refuses, dict[str, Any]]] = [
    (
        "abilities.system_turn=false",
        has_system_turn,
        body("Roles must alternate user/assistant/user/assistant/..."),
    ),
    (
        "abilities.system_turn=false",
        has_system_turn,
        body("'messages[0].role' does not support 'system' here.", param="messages[0].role"),
    ),
    ("abilities.system_turn=false", has_system_turn, body("Only user and assistant are allowed!", 500)),
    ("abilities.system_turn=false", has_system_turn, {"status": 422, "body": {"detail": [{"loc": ["messages", 0]}]}}),
    ("extra.temperature=null", lambda sent: "temperature" in sent, body("temperature must be in the range (0, +inf)")),
    ("extra.temperature=null", lambda sent: "temperature" in sent, body("Nur der Standardwert wird unterstützt")),
    ("extra.seed=null", lambda sent: "seed" in sent, body("Extra inputs are not permitted", 422, param="seed")),
    (
        "extra.max_tokens=null extra.max_completion_tokens=512",
        lambda sent: "max_tokens" in sent,
        body("Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.", param="max_tokens"),
    ),
    ("extra.reasoning_effort=null", lambda sent: "reasoning_effort" in sent, body("'none' is not a reasoning_effort")),
]


@pytest.mark.parametrize(("setting", "refuses", "row"), FIELDS)
async def test_a_field_that_is_refused_is_left_out_and_named_with_its_setting(
    setting: str, refuses: Refuses, row: dict[str, Any]
) -> None:
    async with endpoint(row, refuses, thinking=False) as (model, server):
        adapted = (await model.abilities()).adapted
        server.asked.clear()
        assert (await model.complete(REQUEST)).text == "yes"
    assert [name for name, _ in adapted] == [setting]
    assert adapted[0][1].startswith(f"HTTP {row['status']}: ")
    assert len(server.asked) == 1


async def test_fields_that_are_refused_one_after_another_are_all_found() -> None:
    def handle(sent: dict[str, Any]) -> Told:
        for field in ("max_tokens", "temperature", "seed"):
            if field in sent:
                return told(body(f"Unknown name {field!r}"))
        return told(body("Roles must alternate", 500)) if has_system_turn(sent) else Told(completion())

    async def answer(asked: Asked) -> Told:
        return handle(asked.json()) if asked.method == "POST" else Told([])

    async with started(answer) as (model, _):
        able = await model.abilities()
    assert len(able.adapted) == 4
    assert (able.seeds, able.system_turn) == (False, False)


@pytest.mark.parametrize(
    "row",
    [
        body("temperature is not supported"),
        body("The balance of this account is too low for the API.", type="invalid_request_error"),
        body("This team has used up its credits", 403),
        body("The hard limit of the bill was reached", code="billing_hard_limit_reached"),
        body("Rate limit exceeded: free requests of a day", 429, code=429),
        body("This account is suspended; check its plan", 429, type="exceeded_current_quota_error"),
    ],
)
async def test_what_refuses_everything_from_now_on_ends_the_run_or_is_adapted_to(row: dict[str, Any]) -> None:
    begun: list[bool] = []
    adaptable = "temperature" in str(row["body"])
    async with endpoint(row, lambda sent: bool(begun) and (not adaptable or "temperature" in sent)) as (model, _):
        begun.append(True)
        if adaptable:
            assert (await model.complete(REQUEST)).text == "yes"
            return
        with pytest.raises(ModelGone, match=f"HTTP {row['status']}: "):
            await model.complete(REQUEST)


BEHIND_A_ROUTER = {
    "error": {"message": "The maximum context length is 4096 tokens. However, these messages are 5000 tokens."}
}


@pytest.mark.parametrize(
    "row",
    [
        body("The request exceeds the model's limit of tokens: 8192 (requested: 9000)"),
        body("The prompt exceeds the maximum length"),
        body("length of prompt_tokens (9000) must be less than max_seq_len (8192)."),
        body("The sum of prompt (3800.0), query (0) and max_tokens (512) should not exceed max_seq_len (4096)"),
        body("max_tokens must be at least 1, got -300."),
        body("Provider returned error", code=400, metadata={"raw": json.dumps(BEHIND_A_ROUTER), "provider_name": "P"}),
        body("Die Eingabe ist zu groß", 413),
        body("too many tokens in the request", 422),
    ],
)
async def test_what_is_refused_though_less_is_answered_is_too_long(row: dict[str, Any]) -> None:
    async with endpoint(row, is_long) as (model, _):
        reply = await model.complete(REQUEST)
        assert (await model.complete(replace(REQUEST, shared="Which?"))).text == "yes"
    assert reply.stop == "too_long"
    assert reply.limit_tokens == 0 or reply.prompt_tokens == 0 or reply.prompt_tokens > reply.limit_tokens
    assert "Provider returned error" not in reply.error or "maximum context length" in reply.error


async def test_a_content_filter_is_no_field_and_no_length() -> None:
    row = body("The prompt was filtered, following the policy.", param="prompt", code="content_filter")
    async with endpoint(row, is_long) as (model, server):
        server.asked.clear()
        reply = await model.complete(REQUEST)
    assert (reply.stop, len(server.asked)) == ("error", 1)
    assert reply.error.startswith("content filter: HTTP 400")


@pytest.mark.parametrize("row", [body("At most 1 image(s) in one request."), body("too many", 500)])
@pytest.mark.parametrize("most", [1, 3])
@pytest.mark.parametrize("at_start", [True, False])
async def test_pictures_beyond_an_endpoints_limit_are_told_in_words(
    row: dict[str, Any], most: int, at_start: bool, tmp_path: Path
) -> None:
    path = tmp_path / "red.png"
    Image.new("RGB", (8, 8), "red").save(path)
    shown = tuple(Source(str(n), str(n), Kind.IMAGE, "flag", f"flag {n}", str(path)) for n in range(5))
    usual = Usual(pictures=5 if at_start else 1)
    async with endpoint(row, lambda sent: pictures(sent) > most, usual) as (model, server):
        able = await model.abilities()
        if row["status"] == 500 and not at_start:
            return
        server.asked.clear()
        assert (await model.complete(replace(REQUEST, images=shown))).text == "yes"
    assert able.pictures
    assert able.most_pictures == (most if at_start else None)
    assert pictures(server.asked[-1].json()) == most
    assert "flag 4" in str(server.asked[-1].json())


@pytest.mark.parametrize("shown", [1, 3])
@pytest.mark.parametrize("refused", ["this one", "all"])
async def test_a_picture_that_is_refused_in_the_middle_of_a_run_is_one_turns_failure(
    refused: str, shown: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    urls, begun = {}, []
    for colour in ("red", "blue"):
        Image.new("RGB", (8, 8), colour).save(tmp_path / f"{colour}.png")
        urls[colour] = data_url(str(tmp_path / f"{colour}.png"))

    def turn(colour: str) -> Request:
        path = str(tmp_path / f"{colour}.png")
        return replace(REQUEST, images=tuple(Source(f"{n}", f"{n}", Kind.IMAGE, "", "", path) for n in range(shown)))

    def refuses(sent: dict[str, Any]) -> bool:
        return bool(begun) and (urls["red"] in str(sent) if refused == "this one" else pictures(sent) > 0)

    row = body("Could not process image")
    async with endpoint(row, refuses, Usual(pictures=3)) as (model, server):
        begun.append(True)
        reply = await model.complete(turn("red"))
        if refused == "all":
            begun.clear()  # the endpoint was mended
        assert (await model.complete(turn("blue"))).text == "yes"
    assert (reply.stop, reply.error) == ("error", "HTTP 400: Could not process image")
    assert pictures(server.asked[-1].json()) == shown
    assert not caplog.text


UNEXPECTED = {"status": 200, "body": {"error": "Unexpected endpoint or method. (POST /chat/completions)"}}


@pytest.mark.parametrize("row", [UNEXPECTED, body("Not Found", 404), body("x", 405)])
async def test_an_address_without_its_version_is_completed(row: dict[str, Any]) -> None:
    async def handle(asked: Asked) -> Told:
        return Told(completion()) if asked.path.startswith("/v1/") else told(row)

    async with Server(handle).running() as server:
        model = OpenAIModel(ModelSettings(base_url=server.base_url.removesuffix("/v1"), name="qwen"))
        await model.start()
        assert (f"base_url={server.base_url}") in dict((await model.abilities()).adapted)
        await model.close()


async def test_a_number_that_is_too_large_is_the_users_to_change() -> None:
    def refuses(sent: dict[str, Any]) -> bool:
        return sent.get("max_tokens", 0) > 4096

    with pytest.raises(ValueError, match=r"agents\.max_tokens"):
        async with endpoint(body("max_tokens: at most 4096"), refuses, Usual(max_tokens=9000)):
            pass


async def test_a_template_that_reads_lists_alone_gets_lists() -> None:
    async def handle(asked: Asked) -> Told:
        messages = asked.json()["messages"] if asked.method == "POST" else []
        texts = [part.get("text", "") for message in messages for part in message["content"] if isinstance(part, dict)]
        return Told(completion("yes", prompt_tokens=9 + len(" ".join(texts).split())))

    async with started(handle) as (model, server):
        await model.complete(REQUEST)
    assert server.asked[-1].json()["messages"][0]["content"] == [{"type": "text", "text": "Be brief."}]


async def test_another_model_at_the_address_is_noticed_and_not_kept(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    replies = [{**completion(), "model": "a.gguf", "system_fingerprint": "f1"}]

    async def handle(_: Asked) -> Told:
        return Told(replies[0])

    declared = DeclaredAbilities(pictures=True, schema=True, likelihoods=True, context_tokens=4096)
    async with Server(handle).running() as server:
        reused = []
        for _ in range(2):
            model = OpenAIModel(ModelSettings(base_url=server.base_url, name="qwen", abilities=declared))
            await model.start()
            cached = CachedModel(model, Reuse(str(tmp_path), "m", 0.1, 1))
            served = (await model.abilities()).served
            reused += [(await cached.complete(replace(REQUEST, seed=seed))).reused for seed in (1, 1)]
            replies[0] = {**completion(), "model": "b.gguf"}
            reused += [(await cached.complete(replace(REQUEST, seed=seed))).reused for seed in (1, 2, 2)]
            cached.close()
            await model.close()
            replies[0] = {**completion(), "model": "b.gguf"}
    assert served[0] == "b.gguf"
    assert reused == [False, True, True, False, False, False, True, True, False, True]
    assert caplog.text.count("another model answers") == 1


async def test_replies_to_what_was_adapted_in_the_middle_of_a_run_are_not_kept(tmp_path: Path) -> None:
    begun: list[bool] = []
    row = body("temperature is not supported")
    async with endpoint(row, lambda sent: bool(begun) and "temperature" in sent) as (model, _):
        cached = CachedModel(model, Reuse(str(tmp_path), "m", 0.1, 1))
        reused = [(await cached.complete(replace(REQUEST, seed=seed))).reused for seed in (1, 1)]
        begun.append(True)
        reused += [(await cached.complete(replace(REQUEST, seed=seed))).reused for seed in (1, 2, 2)]
        cached.close()
    assert reused == [False, True, True, False, False]


async def test_thoughts_that_the_total_alone_counts_are_counted() -> None:
    async def handle(_: Asked) -> Told:
        return Told(completion(prompt_tokens=20, completion_tokens=198, total_tokens=623))

    async with started(handle) as (model, _):
        assert (await model.complete(REQUEST)).completion_tokens == 603


async def test_a_model_whose_thoughts_fill_a_reply_is_reported_at_the_start() -> None:
    async with endpoint({"status": 200, "body": completion(None, "length")}, lambda sent: True) as (model, _):
        assert any("max_tokens" in setting for setting, _ in (await model.abilities()).adapted)


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("ALL_PROXY", "socks5://127.0.0.1:9"),
        ("SSL_CERT_FILE", "/nonexistent.pem"),
        ("HTTP_PROXY", "http://127.0.0.1:9"),
    ],
)
async def test_a_variable_of_the_environment_that_is_the_cause_is_named(
    variable: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(ValueError, match=variable):
        await OpenAIModel(ModelSettings(base_url="http://127.0.0.1:9/v1", name="qwen")).start()


async def test_a_fault_of_one_request_costs_few_posts() -> None:
    async with endpoint(body("oops", 500), is_long) as (model, server):
        server.asked.clear()
        async with asyncio.timeout(10):
            replies = await asyncio.gather(*(model.complete(REQUEST) for _ in range(3)))
    assert {reply.stop for reply in replies} == {"error"}
    assert len(server.asked) == 3 * (1 + model.settings.retries)
