"""A model behind an endpoint, on a small server that misbehaves on demand."""

import asyncio
import base64
import contextlib
import dataclasses
import email.utils
import json
import logging
import pickle
import time
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from pydantic import SecretStr

from actors.backends import openai_endpoint, openai_model
from actors.backends.model_settings import DeclaredAbilities, ModelSettings
from actors.backends.openai_model import OpenAIModel
from actors.backends.openai_reply import EndpointFault, Why, read_reply
from actors.backends.rate_limit import RateLimit
from actors.errors import ModelError, ModelGone
from actors.messages import Completion, Kind, Request, Source
from tests.support.endpoint import Asked, Server, Told, completion, started

KEY = "sk-proj-Zq9xW7vB3nLk5tRh2mYc-8QdF"
REQUEST = Request("q1/1/critic", "", "Be brief.", "## Question\nWhich?", "## Role\nYou doubt.", seed=2**40 + 5)
YES = Told(completion())
# So that a start asks one question only.
ALL_DECLARED = DeclaredAbilities(pictures=True, schema=True, likelihoods=True, context_tokens=4096)


async def never(_: Asked) -> Told:
    await asyncio.Event().wait()
    return YES


@contextlib.asynccontextmanager
async def endpoint(
    *steps: Told | Callable[[Asked], Awaitable[Told]], key: str = KEY, **settings: Any
) -> AsyncIterator[tuple[OpenAIModel, Server]]:
    """A started model and its server, which takes the steps one by one and then says yes."""
    left = [YES, *steps]

    async def handle(asked: Asked) -> Told:
        step = left.pop(0) if left else YES
        return step if isinstance(step, Told) else await step(asked)

    defaults: dict[str, Any] = {"timeout_s": 10, "abilities": ALL_DECLARED}
    async with started(handle, key, **defaults | settings) as (model, server):
        server.asked.clear()
        yield model, server


def refusal(status: int, message: str, **more: Any) -> Told:
    return Told({"error": {"message": message, **more}}, status)


# What is asked


async def test_a_request_is_sent_in_the_layout_that_a_prefix_cache_serves() -> None:
    async with endpoint() as (model, server):
        await model.complete(dataclasses.replace(REQUEST, temperature=0.5, max_tokens=9))
    (asked,) = server.asked
    assert (asked.method, asked.path) == ("POST", "/v1/chat/completions")
    assert asked.headers["authorization"] == f"Bearer {KEY}"
    assert asked.json() == {
        "model": "qwen",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "## Question\nWhich?\n## Role\nYou doubt."},
        ],
        "temperature": 0.5,
        "max_tokens": 9,
        "seed": 2**40 % 2**31 + 5,
    }


async def test_extra_fields_are_added_and_null_takes_a_field_out() -> None:
    async with endpoint(extra={"top_k": 5, "seed": None, "max_tokens": None, "max_completion_tokens": 9}) as both:
        model, server = both
        await model.complete(REQUEST)
    body = server.asked[0].json()
    assert (body["top_k"], body["max_completion_tokens"]) == (5, 9)
    assert not {"seed", "max_tokens"} & body.keys()


async def test_pictures_come_first_and_one_without_a_file_is_told_in_words(tmp_path: Path) -> None:
    path = tmp_path / "red.png"
    Image.new("RGB", (20, 20), "red").save(path)
    shown = Source("red", "red", Kind.IMAGE, "flag", "", str(path))
    told = Source("blue", "blue", Kind.IMAGE, "flag", "a blue\nflag")
    async with endpoint() as (model, server):
        await model.complete(dataclasses.replace(REQUEST, images=(shown, told)))
    label, picture, text = server.asked[0].json()["messages"][1]["content"]
    assert label == {"type": "text", "text": "[red] flag"}
    assert base64.b64decode(picture["image_url"]["url"].removeprefix("data:image/png;base64,")) == path.read_bytes()
    assert text["text"].split("\n")[2:4] == ["## What pictures without a file show", "[blue] flag: a blue flag"]


async def test_a_template_without_a_system_turn_beside_pictures_gets_its_text_in_the_user_turn(tmp_path: Path) -> None:
    async def picky(asked: Asked) -> Told:
        roles = [message["role"] for message in asked.json()["messages"]]
        if "system" in roles and "image_url" in str(asked.json()):
            return refusal(400, "Prompting with images is incompatible with system messages.")
        return Told(completion(" ".join(roles)))

    path = tmp_path / "red.png"
    Image.new("RGB", (20, 20), "red").save(path)
    shown = dataclasses.replace(REQUEST, images=(Source("red", "red", Kind.IMAGE, "flag", "", str(path)),))
    async with endpoint(*[picky] * 9) as (model, server):
        at_once = await asyncio.gather(model.complete(shown), model.complete(shown))
        later = [await model.complete(shown), await model.complete(REQUEST)]
    assert [reply.text for reply in (*at_once, *later)] == ["user", "user", "user", "system user"]
    assert server.asked[-2].json()["messages"][0]["content"][0] == {"type": "text", "text": "Be brief.\n"}
    # Of the first two, each is refused once; the one that comes first tries a tiny picture with and without the turn.
    assert len(server.asked) == 9


async def test_a_broken_picture_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "broken.png").write_bytes(b"not a picture")
    broken = Source("flag7", "flag7", Kind.IMAGE, "flag", "", str(tmp_path / "broken.png"))
    async with endpoint() as (model, server):
        reply = await model.complete(dataclasses.replace(REQUEST, images=(broken,)))
    assert reply.stop == "error"
    assert "broken.png" in reply.error
    assert server.asked == []


async def test_a_schema_and_likelihoods_are_asked_for_where_the_request_has_them() -> None:
    schema = {"type": "object", "properties": {"answer": {"enum": ["Paris", "Rome"]}}}
    async with endpoint() as (model, server):
        await model.complete(dataclasses.replace(REQUEST, schema=json.dumps(schema), likelihoods=True))
    body = server.asked[0].json()
    assert body["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "reply", "strict": True, "schema": schema},
    }
    assert body["logprobs"] is True


async def test_a_schema_that_the_endpoint_refuses_is_that_requests_error() -> None:
    refused = refusal(400, "Failed to generate JSON.", code="json_validate_failed")

    async def picky(asked: Asked) -> Told:
        return refused if "response_format" in asked.json() else YES

    async with endpoint(*[picky] * 9) as (model, server):
        reply = await model.complete(dataclasses.replace(REQUEST, schema='{"type": "nonsense"}'))
        assert len(server.asked) == 4
        assert (await model.complete(REQUEST)).text == "yes"
    assert (reply.stop, reply.error) == ("error", "HTTP 400: Failed to generate JSON.")


async def test_a_schema_that_is_not_met_this_time_is_asked_for_again() -> None:
    refused = refusal(400, "Failed to generate JSON.", code="json_validate_failed")
    async with endpoint(refused, YES, refused, YES) as (model, server):
        assert (await model.complete(dataclasses.replace(REQUEST, schema='{"type": "object"}'))).text == "yes"
    assert len(server.asked) == 4


# What comes back


def telling(text: str, *tokens: tuple[str, float]) -> Told:
    reply = completion(text)
    reply["choices"][0]["logprobs"] = {"content": [{"token": token, "logprob": p} for token, p in tokens]}
    return Told(reply)


async def test_a_replys_tokens_are_those_of_its_text_without_thoughts_and_the_turns_end() -> None:
    told = telling("Paris.", ("Hm,</think>", -1.0), ("Par", -0.5), ("is.", -0.25), ("<|im_end|>", 0.0))
    async with endpoint(told) as (model, _):
        reply = await model.complete(dataclasses.replace(REQUEST, likelihoods=True))
    assert reply.tokens == (("Par", -0.5), ("is.", -0.25))


@pytest.mark.parametrize("told", [YES, telling("yes", ("no", -1.0)), telling("yes", (" yes", -1.0))])
async def test_tokens_that_are_absent_or_not_the_texts_are_simply_absent(told: Told) -> None:
    async with endpoint(told) as (model, _):
        reply = await model.complete(dataclasses.replace(REQUEST, likelihoods=True))
    assert (reply.text, reply.tokens) == ("yes", ())


async def test_a_reply_has_its_text_and_usage() -> None:
    told = Told(completion("Reasoning: …", prompt_tokens_details={"cached_tokens": 5}))
    async with endpoint(told) as (model, _):
        assert await model.complete(REQUEST) == Completion(REQUEST.id, "Reasoning: …", 7, 3, 5)


async def test_cached_tokens_are_read_under_their_other_name() -> None:
    async with endpoint(Told(completion(prompt_cache_hit_tokens=4))) as (model, _):
        assert (await model.complete(REQUEST)).cached_tokens == 4


@pytest.mark.parametrize("finish", "SAFETY RECITATION PROHIBITED_CONTENT OTHER refusal pause_turn whatever".split())
async def test_a_reply_that_ends_in_an_unknown_way_is_cut_off(finish: str) -> None:
    async with endpoint(Told(completion("Answer: New", finish)), Told(completion(None, finish))) as (model, _):
        begun, silent = [await model.complete(REQUEST) for _ in range(2)]
    assert (begun.stop, begun.text) == ("length", "Answer: New")
    assert silent.stop == "error"
    assert all(finish in reply.error for reply in (begun, silent))


@pytest.mark.parametrize("finish", ["STOP", "eos_token", "end_turn", "stop_sequence", "COMPLETE", None])
async def test_a_normal_end_may_have_other_names(finish: str) -> None:
    async with endpoint(Told(completion("yes", finish))) as (model, _):
        reply = await model.complete(REQUEST)
    assert (reply.stop, reply.error) == ("stop", "")


@pytest.mark.parametrize("finish", ["length", "model_length", "MAX_TOKENS", "model_context_window_exceeded"])
async def test_a_reply_cut_by_a_limit_of_tokens_says_so(finish: str) -> None:
    async with endpoint(Told(completion(None, finish)), Told(completion("Paris is", finish))) as (model, _):
        silent, begun = [await model.complete(REQUEST) for _ in range(2)]
    assert (silent.stop, silent.text, silent.error) == ("length", "", "")
    assert (begun.stop, begun.text) == ("length", "Paris is")


THOUGHTS = {"type": "thinking", "thinking": [{"type": "text", "text": "Is it Lyon?"}]}


@pytest.mark.parametrize(
    ("parts", "finish", "text", "error"),
    [
        ([THOUGHTS, {"type": "text", "text": "Par"}, {"type": "text", "text": "is"}], "stop", "Paris", ""),
        ([THOUGHTS], "length", "", ""),
        ([THOUGHTS], "stop", "", "the reply has no text (finish_reason stop)"),
    ],
)
async def test_of_a_reply_in_parts_the_text_counts_and_no_thoughts(
    parts: list[Any], finish: str, text: str, error: str
) -> None:
    async with endpoint(Told(completion(parts, finish))) as (model, server):  # type: ignore[arg-type]
        reply = await model.complete(REQUEST)
    assert (reply.text, reply.error, len(server.asked)) == (text, error, 1)


async def test_missing_usage_counts_as_nothing_and_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    bare = {"choices": completion()["choices"]}
    async with endpoint(Told(bare), Told(bare)) as (model, _):
        replies = [await model.complete(REQUEST) for _ in range(2)]
    assert [reply.prompt_tokens for reply in replies] == [0, 0]
    assert [reply.text for reply in replies] == ["yes", "yes"]
    assert caplog.text.count("they count as 0") == 1


HTML = Told("<html><h1>Bad\ngateway</h1></html>", headers={"content-type": "text/html"})
PASSING = {
    "server error": refusal(500, "oops"),
    "hang": never,
    "cut in the middle": dataclasses.replace(YES, kept=0.5),
    "malformed JSON": Told('{"choices": [{"mess'),
    "a page instead of JSON": HTML,
    "JSON of another shape": Told([1, 2]),
    "no choices": Told({"choices": []}),
    "content that is no text": Told(completion(["yes"])),  # type: ignore[arg-type]
    "an error in a success": Told({"error": {"message": "upstream is busy", "code": 502}}),
    "a reply broken off": Told(completion("ye", "abort")),
    "an error in a choice": Told({"choices": [{**completion("ye")["choices"][0], "error": {"message": "gone"}}]}),
    "not HTTP": Told("", headers={"content-length": "a lot"}),
    "bytes that are no text": Told(b"\xff\xfe\x00"),
}


@pytest.mark.parametrize("fault", PASSING.values(), ids=PASSING.keys())
async def test_a_passing_fault_is_overcome_and_one_that_stays_is_an_error_in_one_line(fault: Any) -> None:
    timeout_s = 0.8 if fault is never else 10
    async with endpoint(*[fault] * 3, timeout_s=timeout_s, retries=1) as (model, server):
        reply = await model.complete(REQUEST)
        assert (await model.complete(REQUEST)).text == "yes"
    assert reply.stop == "error"
    assert f"2 times at {server.base_url}" in reply.error
    assert "\n" not in reply.error
    assert ("timeout_s" in reply.error) == (fault is never)
    assert len(server.asked) == 4
    assert len({asked.content for asked in server.asked}) == 1


async def test_an_endpoint_that_is_not_there_any_more_ends_the_run_and_is_no_turn_s_failure() -> None:
    async def yes(_: Asked) -> Told:
        return YES

    async with Server(yes).running() as server:
        model = OpenAIModel(ModelSettings(base_url=server.base_url, name="qwen", retries=1))
        await model.start()
    with pytest.raises(ModelGone, match=r"ConnectError.*failed 2 times"):
        await model.complete(REQUEST)
    await model.close()


async def test_a_rate_limit_is_waited_out_and_takes_no_retries() -> None:
    busy = refusal(429, "slow down")
    async with endpoint(busy, busy, busy, retries=0) as (model, server):
        assert (await model.complete(REQUEST)).text == "yes"
    assert len(server.asked) == 4


@pytest.mark.parametrize("headers", [{}, {"retry-after": "0.001"}], ids=["no wish", "a tiny one"])
@pytest.mark.parametrize("status", [429, 503])
async def test_a_rate_limit_that_does_not_end_ends_the_run(
    status: int, headers: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(openai_model, "PATIENCE_S", 0.02)
    monkeypatch.setattr(openai_model, "PATIENCE_AT_START_S", 0.0)
    told = dataclasses.replace(refusal(status, "slow down"), headers=headers)
    async with endpoint(*[told] * 99, retries=0) as (model, server):
        if status == 503 and not headers:
            assert (await model.complete(REQUEST)).stop == "error"
        else:
            with pytest.raises(ModelGone, match=f"HTTP {status}: slow down"):
                await model.complete(REQUEST)
    assert len(server.asked) <= 8


REFUSED = {
    "a bad field": (refusal(400, "colour is not known", param="colour"), "colour"),
    "a forbidden model": (refusal(403, "not yours"), "key_env"),
    "a wrong address": (Told({"detail": "Not Found"}, 404), "http://host:8000/v1"),
    "a redirect": (Told("", 301, {"location": "https://other.example/v1"}), "https://other.example/v1"),
    "more tokens than the account may send in a minute": (
        refusal(413, "Request too large on tokens per minute (TPM): Limit 6000", code="rate_limit_exceeded"),
        "Limit 6000",
    ),
    "unprocessable": (Told({"detail": [{"loc": ["body"], "msg": "images?"}]}, 422), "images?"),
    "the content filter": (Told(completion("", "content_filter")), "content filter"),
    "nothing said": (Told(completion(None)), "no text"),
    "a refusal": (
        Told({"choices": [{"message": {"content": None, "refusal": "I will\nnot."}, "finish_reason": "stop"}]}),
        "the model refused: I will not.",
    ),
}


@pytest.mark.parametrize(("told", "words"), REFUSED.values(), ids=REFUSED.keys())
async def test_what_asking_again_cannot_help_is_an_error_at_once(told: Told, words: str) -> None:
    async with endpoint(told) as (model, server):
        reply = await model.complete(REQUEST)
    assert (reply.stop, reply.text) == ("error", "")
    assert words in reply.error
    assert "\n" not in reply.error
    assert len(server.asked) <= 3


CLOSED = {
    "no credit": (refusal(429, "You exceeded your quota", code="insufficient_quota"), "exceeded"),
    "nothing paid": (refusal(402, "Pay first"), "Pay first"),
    "a wrong key": (refusal(401, f"Incorrect API key provided: {KEY}"), "key_env"),
}


@pytest.mark.parametrize(("told", "words"), CLOSED.values(), ids=CLOSED.keys())
async def test_an_account_that_is_closed_ends_the_run_and_is_no_turn_s_failure(told: Told, words: str) -> None:
    async with endpoint(told) as (model, server):
        with pytest.raises(ModelGone, match=words):
            await model.complete(REQUEST)
    assert len(server.asked) == 1


# prompt tokens, tokens that there are for it when the reply may take 10
TOO_LONG = {
    "OpenAI": (
        {
            "message": "This model's maximum context length is 4096 tokens. However, your messages resulted in 5000 "
            "tokens. Please reduce the length of the messages.",
            "code": "context_length_exceeded",
        },
        (5000, 4086),
    ),
    "OpenAI, with the reply": (
        {
            "message": "This model's maximum context length is 4096 tokens. However, you requested 4100 tokens (4090 "
            "in the messages, 10 in the completion)."
        },
        (4090, 4086),
    ),
    "vLLM": (
        {
            "message": "This model's maximum context length is 2048 tokens. However, your prompt contains 3000 input "
            "tokens, which exceeds this limit even without any output tokens."
        },
        (3000, 2038),
    ),
    "llama.cpp": (
        {
            "message": "the request exceeds the available context size. try increasing the context size",
            "type": "exceed_context_size_error",
            "n_prompt_tokens": 1407,
            "n_ctx": 256,
        },
        (1407, 246),
    ),
    "Ollama": (
        {"message": "request (131168 tokens) exceeds the available context size (131072 tokens), try increasing it"},
        (131168, 131062),
    ),
    "DashScope": ({"message": "Range of input length should be [1, 30720]"}, (0, 30710)),
    "TGI": (
        {
            "message": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 1512. Given: 1510 "
            "`inputs` tokens and 10 `max_new_tokens`"
        },
        # Which of the two is the context is no number's to tell: the smaller one fits in either case.
        (1512, 1500),
    ),
    "Bedrock": ({"message": "Input is too long for requested model."}, (0, 0)),
}


@pytest.mark.parametrize(("error", "numbers"), TOO_LONG.values(), ids=TOO_LONG.keys())
async def test_a_prompt_that_does_not_fit_says_by_how_much(error: dict[str, Any], numbers: tuple[int, int]) -> None:
    async with endpoint(Told({"error": error}, 400)) as (model, _):
        reply = await model.complete(dataclasses.replace(REQUEST, shared="Which? " * 99, max_tokens=10))
    assert (reply.stop, (reply.prompt_tokens, reply.limit_tokens)) == ("too_long", numbers)
    assert reply.error


async def test_a_body_that_is_too_large_for_a_server_on_the_way_is_a_prompt_that_does_not_fit() -> None:
    async with endpoint(Told("<html>Request Entity Too Large</html>", 413)) as (model, server):
        reply = await model.complete(dataclasses.replace(REQUEST, shared="Which? " * 99))
    assert (reply.stop, reply.error) == ("too_long", "HTTP 413: Request Entity Too Large")
    assert len(server.asked) == 2


# When to ask again


@pytest.mark.parametrize(
    ("headers", "wait_s"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "250", "retry-after": "1"}, 0.25),
        ({"retry-after": email.utils.formatdate(1_000_030, usegmt=True)}, 30.0),
        ({"retry-after": email.utils.formatdate(999_000, usegmt=True)}, 0.0),
        # Its clock is an hour ahead of ours, which may have been set back.
        ({"retry-after": email.utils.formatdate(1_003_605), "date": email.utils.formatdate(1_003_600)}, 5.0),
        ({"retry-after": email.utils.formatdate(1_000_030), "date": "some day"}, 30.0),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "nan"}, None),
        ({}, None),
    ],
)
def test_retry_after_is_read_in_all_its_forms(headers: dict[str, str], wait_s: float | None) -> None:
    fault = read_reply(REQUEST, 429, headers, b"", 1_000_000)
    assert isinstance(fault, EndpointFault)
    assert (fault.why, fault.wait_s) == (Why.LIMITED, wait_s)


async def test_nothing_is_sent_before_the_endpoint_wants_to_be_asked_again() -> None:
    times: list[float] = []

    async def note(_: Asked) -> Told:
        times.append(time.monotonic())
        return YES

    async def busy(asked: Asked) -> Told:
        await note(asked)
        return dataclasses.replace(refusal(429, "slow down"), headers={"retry-after": "0.4"})

    async with endpoint(busy, note, note) as (model, _):
        first = asyncio.create_task(model.complete(REQUEST))
        while not times:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        await asyncio.gather(first, model.complete(REQUEST))
    assert len(times) == 3
    assert times[1] - times[0] >= 0.39


async def test_an_endpoint_that_wants_to_be_left_alone_for_hours_ends_the_run_at_once() -> None:
    told = dataclasses.replace(refusal(429, "daily limit"), headers={"retry-after": "86400"})
    async with endpoint(told, told) as (model, server):
        with pytest.raises(ModelGone, match=r"daily limit; .*86400 s"):
            await model.complete(REQUEST)
    assert len(server.asked) == 2


async def test_a_cancelled_request_closes_its_connection() -> None:
    async with endpoint(never) as (model, server):
        task = asyncio.create_task(model.complete(REQUEST))
        while not server.asked:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        while not server.left:
            await asyncio.sleep(0.01)
        assert (await model.complete(REQUEST)).text == "yes"


async def test_many_requests_at_once_get_their_own_replies() -> None:
    async def echo(asked: Asked) -> Told:
        return Told(completion(str(asked.json()["seed"])))

    async with endpoint(*[echo] * 40) as (model, _):
        requests = [dataclasses.replace(REQUEST, id=f"q{seed}", seed=seed) for seed in range(40)]
        replies = await asyncio.gather(*map(model.complete, requests))
    assert [(reply.id, reply.text) for reply in replies] == [(f"q{seed}", str(seed)) for seed in range(40)]


# Before the run


async def test_a_model_that_is_not_there_is_told_with_those_that_are() -> None:
    async def handle(asked: Asked) -> Told:
        if asked.path.endswith("/models"):
            return Told({"data": [{"id": "qwen-vl"}, {"id": "llava"}]})
        return refusal(404, "The model `qwen` does not exist.")

    async with Server(handle).running() as server:
        with pytest.raises(ValueError, match="'qwen'") as caught:
            await OpenAIModel(ModelSettings(base_url=server.base_url, name="qwen")).start()
    for words in (server.base_url, "HTTP 404", "llava, qwen-vl"):
        assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("told", [HTML, refusal(400, "no seed", param="seed"), refusal(401, "no"), Told([])])
async def test_what_would_fail_every_turn_fails_before_the_first(told: Told) -> None:
    async def handle(_: Asked) -> Told:
        return told

    async with Server(handle).running() as server:
        with pytest.raises(ValueError, match="'qwen'") as caught:
            await OpenAIModel(ModelSettings(base_url=server.base_url, name="qwen", retries=0)).start()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"base_url": ""}, "base_url"),
        ({"base_url": "localhost:8000/v1"}, "base_url='localhost:8000/v1'"),
        ({"base_url": "http://host:port/v1"}, "base_url='http://host:port/v1'"),
        ({"base_url": "http://[host/v1"}, "base_url="),
        ({"base_url": "http://host/v1/chat/completions"}, "expected an address"),
        ({"base_url": "http://me:secret@host/v1"}, "key_env"),
        ({"base_url": "http://host/v1?key=secret"}, "key_env"),
        ({"name": ""}, r"\bname\b"),
        ({"key": "secret secret"}, "key_env"),
        ({"key": "secret\nX-Other: 1"}, "key_env"),
        ({"key": "secrét"}, "key_env"),
        ({"extra": {"stream": True}}, "extra .*stream"),
    ],
)
async def test_settings_that_cannot_work_are_one_clear_line(wrong: dict[str, Any], words: str) -> None:
    key = SecretStr(wrong.pop("key", ""))
    settings = ModelSettings(**{"base_url": "http://host/v1", "name": "qwen"} | wrong)
    with pytest.raises(ValueError, match=words) as caught:
        await OpenAIModel(settings, key).start()
    assert "secr" not in str(caught.value)
    assert "\n" not in str(caught.value)


# The key


SPOKEN = [
    f"Incorrect API key provided: {KEY}. You can find your key at example.com.",
    f"Incorrect API key provided: {KEY[:8]}{'*' * 12}{KEY[-4:]}.",
    f"Bad header Authorization:Bearer+{KEY}!",
    f"token {KEY[:7]}... is not known, nor is ...{KEY[-4:]}",
]


@pytest.mark.parametrize("said", SPOKEN)
@pytest.mark.parametrize("status", [200, 401, 500])
async def test_the_key_is_in_no_text_that_leaves(
    status: int, said: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setattr(openai_model, "PATIENCE_S", 0)
    monkeypatch.setattr(openai_model, "PATIENCE_AT_START_S", 0)
    refusals = [
        Told({"error": {"message": said, "code": said, "param": KEY}}, status, {"location": f"http://host/{KEY}"}),
        Told("x" * 290 + said, status),
        Told("x " * (145 - said.find("sk-") // 2) + said, status),
        Told({"detail": [{"input": {"key": KEY}}], "message": said}, status),
    ]
    texts = []
    for told in refusals:
        async with endpoint(*[told] * 99, retries=0) as (model, _):
            try:
                texts.append(repr(await model.complete(REQUEST)))
            except (ModelError, ModelGone) as error:
                texts += [*traceback.format_exception(error), pickle.dumps(error, 0).decode()]
            texts += [repr(model.settings), str(model.settings)]

    async def handle(_: Asked) -> Told:
        return refusals[0]

    async with Server(handle).running() as server:
        with pytest.raises(ValueError, match="no reply") as caught:
            await OpenAIModel(ModelSettings(base_url=server.base_url, name="qwen", retries=0), SecretStr(KEY)).start()
    texts += traceback.format_exception(caught.value)
    shown = "\n".join([*texts, caplog.text])
    assert KEY not in shown
    assert KEY[:3] not in shown
    assert KEY[-4:] not in shown


# Rate limits


def test_no_sixty_seconds_hold_more_requests_than_the_limit() -> None:
    window = RateLimit(3, None)
    for now in (0, 1, 2):
        assert window.wait_s(now, 1) == 0
        window.add(now, 1)
    assert window.wait_s(2, 1) == 58
    assert window.wait_s(60, 1) == 0
    window.add(60, 1)
    assert window.wait_s(60, 1) == 1


def test_no_sixty_seconds_hold_more_tokens_than_the_limit_and_what_was_not_used_is_given_back() -> None:
    window = RateLimit(None, 100)
    first = window.add(0, 60)
    window.add(10, 30)
    assert window.wait_s(20, 10) == 0
    assert window.wait_s(20, 50) == 40
    assert window.wait_s(20, 90) == 50
    first.tokens = 20
    assert window.wait_s(20, 50) == 0


def test_a_request_larger_than_the_limit_goes_alone() -> None:
    window = RateLimit(None, 100)
    assert window.wait_s(0, 500) == 0
    window.add(0, 500)
    assert window.wait_s(1, 1) == 59
    assert window.wait_s(60, 500) == 0


async def test_callers_are_let_through_in_order_and_one_that_is_cancelled_takes_up_nothing() -> None:
    limit = RateLimit(None, 100)
    order: list[int] = []

    async def enter(number: int, tokens: int) -> None:
        await limit.admit(tokens)
        order.append(number)

    first = await limit.admit(100)
    waiting = [asyncio.create_task(enter(number, 90 if number == 1 else 5)) for number in range(5)]
    await asyncio.sleep(0)
    assert order == []
    waiting[1].cancel()
    limit.correct(first, 10)
    await asyncio.wait(waiting)
    assert order == [0, 2, 3, 4]


async def test_a_model_keeps_to_its_rate() -> None:
    async with endpoint(requests_per_minute=3) as (model, server):  # one of the three was for the start
        tasks = [asyncio.create_task(model.complete(REQUEST)) for _ in range(4)]
        while not all(task.done() for task in tasks[:2]):
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        assert [task.done() for task in tasks] == [True, True, False, False]
        assert len(server.asked) == 2
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


async def test_what_a_request_did_not_take_is_there_for_the_next() -> None:
    async with endpoint(tokens_per_minute=600) as (model, server):
        assert openai_endpoint.estimated_tokens(REQUEST) > 500
        async with asyncio.timeout(30):
            for _ in range(3):
                await model.complete(REQUEST)
    assert len(server.asked) == 3
