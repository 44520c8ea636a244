"""Numbers, faults and thoughts in the responses of endpoints are read however they are written."""

import json
from typing import Any

import pytest

from actors.backends.openai_reply import EndpointFault, Why, read_reply
from actors.messages import Completion, Request

REQUEST = Request(id="r", prefix="", system="", shared="", own="", seed=1, temperature=0.0, max_tokens=64)


def read(body: Any, status: int = 200) -> Completion | EndpointFault:
    return read_reply(REQUEST, status, {}, json.dumps(body).encode(), time_s=0.0)


def reply(text: str | None = "Answer: A", **fields: Any) -> dict[str, Any]:
    message = {"content": text, **fields.pop("message", {})}
    return {"choices": [{"message": message, "finish_reason": "stop", **fields.pop("choice", {})}], **fields}


@pytest.mark.parametrize(
    ("stated", "tokens"),
    [
        (20, 20),
        (20.0, 20),
        ("20", 20),
        ("20.0", 20),
        ("1,020", 1020),
        (" 20 ", 20),
        (20.5, 0),
        ("20.5", 0),
        (True, 0),
        (-1, 0),
        ("9" * 99, 0),
    ],
)
def test_a_whole_number_of_tokens_counts_however_it_is_written(stated: Any, tokens: int) -> None:
    completion = read(reply(usage={"prompt_tokens": stated, "completion_tokens": 3}))
    assert isinstance(completion, Completion)
    assert (completion.prompt_tokens, completion.completion_tokens) == (tokens, 3)


@pytest.mark.parametrize(("logprob", "expected"), [(-0.5, -0.5), (0.0, 0.0), (1e-6, 0.0), (0.7, None)])
def test_no_probability_is_above_one(logprob: float, expected: float | None) -> None:
    tokens = [{"token": "A", "logprob": logprob}]
    completion = read(reply("A", choice={"logprobs": {"content": tokens}}))
    assert isinstance(completion, Completion)
    assert completion.tokens == (() if expected is None else (("A", expected),))


@pytest.mark.parametrize("status", [409, 424, 429, 503])
def test_a_fault_that_passes_is_tried_again(status: int) -> None:
    fault = read({"error": {"message": "busy"}}, status)
    assert isinstance(fault, EndpointFault)
    assert fault.why is (Why.LIMITED if status == 429 else Why.PASSING)


@pytest.mark.parametrize(
    "error",
    [
        {"code": 429},
        {"code": "429"},
        {"status": 429},
        {"code": "rate_limit_exceeded"},
        {"type": "too_many_requests"},
        {"status": "RESOURCE_EXHAUSTED"},
        {"message": "Rate limit reached for this model", "code": None},
    ],
)
def test_a_rate_limit_inside_a_response_of_success_is_one(error: dict[str, Any]) -> None:
    fault = read({"error": {"message": "slow down", **error}})
    assert isinstance(fault, EndpointFault)
    assert fault.why is Why.LIMITED


def test_no_more_tokens_are_cached_than_the_prompt_has() -> None:
    usage = {"prompt_tokens": 20, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 30}}
    completion = read(reply(usage=usage))
    assert isinstance(completion, Completion)
    assert completion.cached_tokens == 20


@pytest.mark.parametrize("text", [None, "", "\n\n"])
@pytest.mark.parametrize("name", ["reasoning_content", "reasoning", "thinking"])
def test_a_reply_of_thoughts_alone_names_the_server_s_reasoning_parser(text: str | None, name: str) -> None:
    completion = read(reply(text, message={name: "The picture shows ... so A."}))
    assert isinstance(completion, Completion)
    assert "reasoning parser" in completion.error
