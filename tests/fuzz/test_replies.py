"""Whatever an endpoint replies, the result is a completion or a fault with sane numbers, in bounded time, without the
key."""

import base64
import json
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.backends.openai_reply import MOST_TOKENS, read_reply
from actors.backends.redaction import Redaction
from actors.messages import Completion, Request

pytestmark = pytest.mark.slow

KEY = "sk-proj-Zq9xW7/B3nLk5tRh2mYc+8QdF"
REQUEST = Request("q", "", "Be brief.", "Which?", "You doubt.", max_tokens=64)
REDACTION = Redaction(KEY)

escaped = st.sampled_from(
    [
        str,
        lambda key: quote(key, safe=""),
        lambda key: quote(quote(key, safe=""), safe=""),
        lambda key: "".join(f"%{ord(letter):02x}" for letter in key),
        lambda key: "".join(f"\\u{ord(letter):04X}" for letter in key),
        lambda key: "".join(f"\\x{ord(letter):02x}" for letter in key),
        lambda key: "".join(f"&#{ord(letter)};" for letter in key),
        lambda key: "".join(f"&#x{ord(letter):x};" for letter in key),
        lambda key: key.replace("/", "\\/"),
        lambda key: key.replace("/", "\\\\/"),
        lambda key: "\u200b".join(key),
        lambda key: base64.b64encode(key.encode()).decode(),
        lambda key: base64.urlsafe_b64encode(f"Bearer {key}".encode()).decode(),
        lambda key: base64.b64encode(f"x{key}yz".encode()).decode(),
        lambda key: key.encode().hex(),
        lambda key: key.encode().hex().upper(),
    ]
).map(lambda escape: escape(KEY))

TOO_LONG = ["maximum context length", "prompt is too long:", "exceeds the available context size", "too many tokens"]

numbers = st.one_of(
    st.integers(),
    st.integers(2**62, 2**70),
    st.floats(),
    st.booleans(),
    st.text(max_size=5),
    st.none(),
    st.just(10**400),
    st.lists(st.integers(), max_size=2),
)
texts = st.one_of(st.text(max_size=40), escaped, st.tuples(st.text(max_size=9), escaped).map("".join))
values = st.recursive(
    st.one_of(numbers, texts),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
likelihoods = st.one_of(
    values,
    st.fixed_dictionaries(
        {
            "content": st.lists(
                st.fixed_dictionaries({"token": st.one_of(texts, values), "logprob": numbers}), max_size=4
            )
        }
    ),
)
parts = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "type": st.one_of(st.sampled_from(["text", "thinking", "output_text", "refusal"]), values),
            "text": st.one_of(texts, values),
            "thinking": values,
        },
    ),
    max_size=4,
)
message = st.fixed_dictionaries(
    {}, optional={"content": st.one_of(texts, values, parts), "refusal": st.one_of(texts, values)}
)
choice = st.fixed_dictionaries(
    {"message": st.one_of(message, values)},
    optional={
        "finish_reason": st.one_of(st.sampled_from(["stop", "length", "error"]), values),
        "logprobs": likelihoods,
    },
)
usage = st.fixed_dictionaries(
    {},
    optional={
        "prompt_tokens": numbers,
        "completion_tokens": numbers,
        "prompt_tokens_details": st.one_of(values, st.fixed_dictionaries({"cached_tokens": numbers})),
        "prompt_cache_hit_tokens": numbers,
    },
)
error = st.fixed_dictionaries(
    {},
    optional={
        "message": st.one_of(
            texts,
            values,
            st.tuples(texts, st.integers(0, 10**300)).map(lambda pair: f"context length is {pair[1]} {pair[0]}"),
            st.builds("{1} {0} {1} {2}".format, st.sampled_from(TOO_LONG), st.integers(0, 10**300), texts),
        ),
        **dict.fromkeys(("code", "type", "param", "n_ctx", "n_prompt_tokens"), values),
    },
)
bodies = st.one_of(
    values,
    st.fixed_dictionaries({"choices": st.lists(choice, max_size=2)}, optional={"usage": st.one_of(usage, values)}),
    st.fixed_dictionaries({"error": st.one_of(error, texts, values)}),
    error,
)
written = st.one_of(
    bodies.map(lambda body: json.dumps(body).encode()),
    bodies.map(lambda body: json.dumps(body, ensure_ascii=False).encode(errors="surrogatepass")),
    st.binary(max_size=200),
    st.builds(
        lambda letter, n: letter * n, st.sampled_from([b"[", b"<", b'{"a":', b"9", b"\xff"]), st.integers(0, 20_000)
    ),
)
headers = st.dictionaries(
    st.sampled_from(["retry-after", "retry-after-ms", "location", "content-type"]),
    st.one_of(st.text(max_size=20), escaped),
)


def plain(outcome: Any) -> str:
    """All text of an outcome, as records and prompts show it."""
    if isinstance(outcome, Completion):
        said = [outcome.text, REDACTION.line(outcome.error), *(token for token, _ in outcome.tokens)]
    else:
        said = [REDACTION.line(outcome.reason)]
    return "\n".join(said)


REPLY = st.tuples(
    st.sampled_from([200, 200, 200, 201, 301, 400, 401, 404, 413, 422, 429, 500, 503, 999]), headers, written
)


@given(REPLY)
def test_any_reply_becomes_a_sane_outcome(reply: tuple[int, dict[str, str], bytes]) -> None:
    status, told, body = reply
    outcome = read_reply(REQUEST, status, told, body, 0.0, REDACTION.text)
    said = plain(outcome)
    assert KEY not in said
    assert REDACTION.text(said) == said
    if not isinstance(outcome, Completion):
        assert outcome.reason
        return
    counts = (outcome.prompt_tokens, outcome.completion_tokens, outcome.cached_tokens, outcome.limit_tokens)
    assert all(type(count) is int and abs(count) <= MOST_TOKENS for count in counts)
    assert outcome.stop in ("stop", "length", "error", "too_long")
    assert outcome.stop in ("stop", "length") or outcome.error
    assert not outcome.tokens or "".join(token for token, _ in outcome.tokens) == outcome.text


@given(st.text(max_size=20), escaped, st.text(max_size=20))
def test_a_key_is_taken_out_whatever_stands_around_it(before: str, key: str, after: str) -> None:
    said = REDACTION.text(f"{before} {key} {after}")
    assert key not in said
    assert "[key]" in said
