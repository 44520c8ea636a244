"""Reads the response of an endpoint that speaks OpenAI's protocol: a completion, a refusal, or a passing fault.

Wordings for a prompt that is too long are those of OpenAI, vLLM 0.32, llama.cpp (which Ollama runs on), DashScope,
Gemini, xAI, TGI and Bedrock.
"""

from __future__ import annotations

import email.utils
import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from actors.messages import Completion, Request
from actors.prompting.likelihood import Tokens, of_text
from actors.prompting.safe_text import one_line

QUOTED_CHARACTERS, READ_CHARACTERS = 300, 10_000
REPLY_CHARACTERS = 1_000_000  # longer replies are cut off, as if the model had reached its limit
MOST_TOKENS = 10**9  # a larger number is no count of tokens
PASSING = (408, 425, 429)  # and every 5xx
NO_CREDIT = "insufficient_quota"
TOO_LONG = re.compile(
    r"context[ _](length|size|window)|maximum (model|prompt) length|(prompt|input) is too long|range of input length"
    r"|input token count|`inputs` (tokens \+|must have)",
    re.IGNORECASE,
)
CONTEXT_TOKENS = re.compile(
    r"context length is(?: only)? (\d+)|model length of (\d+)|context size \((\d+)|(\d+) maximum"
    r"|`max_new_tokens` must be <= (\d+)",
    re.IGNORECASE,
)
INPUT_TOKENS = re.compile(
    r"input length should be \[\d+, ?(\d+)|prompt length is (\d+)|tokens allowed \(?(\d+)"
    r"|must have less than (\d+) tokens",
    re.IGNORECASE,
)
PROMPT_TOKENS = re.compile(
    r"(?:contains|resulted in|passed|has) (\d+) (?:input )?tokens|(\d+) in the messages|prompt \(length (\d+)\)"
    r"|request \((\d+) tokens\)|too long: (\d+) tokens|token count \((\d+)\)|given: (\d+)",
    re.IGNORECASE,
)
# Names of a normal end, and of a limit, in the protocols that proxies translate; any other end is no normal one.
ENDED = frozenset(
    "none stop eos eos_token eosfound end_turn stop_sequence complete completed tool_calls function_call".split()
)
CUT_OFF = frozenset(("length", "model_length", "max_tokens", "model_context_window_exceeded"))


@dataclass(frozen=True, slots=True)
class EndpointFault:
    """The reason for a missing reply; unless `closed`, the same request may be answered when it is sent again.

    limited: the endpoint gets too many requests, and may have asked for a pause of `wait_s` seconds.
    unreachable: nothing listens at the address.
    closed: the endpoint accepts no more requests from this account (a wrong key, or no credit).
    """

    reason: str
    limited: bool = False
    wait_s: float | None = None
    unreachable: bool = False
    closed: bool = False


Redact = Callable[[str], str]


def read_reply(
    request: Request, status: int, headers: Mapping[str, str], body: bytes, now: float, redact: Redact = str
) -> Completion | EndpointFault:
    """Reads one HTTP response.

    Args:
        headers: by name in lower case, or a mapping that ignores case.
        now: seconds since the epoch.
        redact: removes secrets from decoded text, before it is shortened.
    """
    try:
        data = json.loads(body)
    except (ValueError, RecursionError):
        data = None
    if isinstance(data, list) and len(data) == 1:  # Google wraps its errors
        data = data[0]
    fault = _error(data)
    if 200 <= status < 300:
        if not (isinstance(data, dict) and data.get("error")):
            return _completion(request, data, headers, body, redact)
        code = counted(fault.get("code"))  # from a gateway that had already begun to answer
        status = code if 400 <= code < 600 else 500
    text = shortened(redact(_message(data))) or _beginning(body, redact)
    # Messages about keys, missing models and rate limits may mention a context length, too.
    worded = TOO_LONG.search(f"{fault.get('type')} {fault.get('code')} {text}")
    # Except Groq's 413 for an account's limit of tokens per minute: truncation must not depend on it.
    too_large = status == 413 and fault.get("code") != "rate_limit_exceeded"
    if too_large or (worded and status not in (401, 403, 404, 429)):
        return _too_long(request, fault, text)
    reason = f"HTTP {status}: {text}"
    if NO_CREDIT in (fault.get("code"), fault.get("type")) or status in (401, 402):
        return EndpointFault(f"{reason}{_remedy(status, fault, headers)}", closed=True)
    if status in PASSING or status >= 500:
        wait_s = _wait_s(headers, now)
        return EndpointFault(reason, status == 429 or bool(wait_s), wait_s)
    return Completion(request.id, "", stop="error", error=f"{reason}{_remedy(status, fault, headers)}")


def _completion(
    request: Request, data: Any, headers: Mapping[str, str], body: bytes, redact: Redact
) -> Completion | EndpointFault:
    if not isinstance(data, dict):
        kind = headers.get("content-type", "no content type")
        return EndpointFault(
            f"HTTP 200 without JSON ({kind}: {_beginning(body, redact)}); base_url may be wrong, or a proxy answered"
        )
    try:
        choice = data["choices"][0]
        message, finish = choice["message"], choice.get("finish_reason")
        content, refusal, likelihoods = message.get("content"), message.get("refusal"), choice.get("logprobs")
    except (LookupError, TypeError, AttributeError):
        return EndpointFault(f"HTTP 200 without a choice: {_beginning(body, redact)}")
    if finish in ("abort", "error"):  # how servers end replies whose engine failed
        return EndpointFault(f"the endpoint broke the reply off (finish_reason {finish})")
    if broken := choice.get("error"):
        return EndpointFault(f"the endpoint broke the reply off: {shortened(redact(_message({'error': broken})))}")
    finish = shortened(redact(str(finish)))
    limited, ended = finish.lower() in CUT_OFF, finish.lower() in ENDED
    if isinstance(content, list) and content and all(isinstance(part, dict) for part in content):
        content = _said(content)
    if content is not None and not isinstance(content, str):
        return EndpointFault(f"HTTP 200 with content that is not text: {_beginning(body, redact)}")
    prompt, completion, cached = _usage(data.get("usage"))
    error = ""
    if finish == "content_filter":
        error = "the endpoint's content filter stopped the reply"
    elif refusal and not content:
        error = f"the model refused: {redact(str(refusal))}"
    elif content is None and not limited:  # a reply cut off while the model still thinks has no text
        error = f"the reply has no text (finish_reason {finish})"
    written = "" if error else content or ""
    text = redact(written[:REPLY_CHARACTERS])
    stop = "error" if error else "stop" if ended and len(written) <= REPLY_CHARACTERS else "length"
    if not (error or ended or limited):
        error = f"the reply ended early (finish_reason {finish})"
    # Tokens of another text do not belong to this one.
    tokens = _tokens(likelihoods, text) if text == written else ()
    return Completion(request.id, text, prompt, completion, cached, stop=stop, error=error, tokens=tokens)


def _said(parts: list[dict[str, Any]]) -> str | None:
    """The text of a reply in parts, without the model's thoughts, as Mistral lists them; None without text."""
    texts = [part.get("text") for part in parts if part.get("type") == "text"]
    return "".join(text for text in texts if isinstance(text, str)) if texts else None


def _tokens(likelihoods: Any, text: str) -> Tokens:
    """The text's tokens with their log-probabilities; () where the reply has them in no known form."""
    try:
        listed = [(entry["token"], float(entry["logprob"])) for entry in likelihoods["content"]]
    except (LookupError, TypeError, ValueError, OverflowError):
        return ()
    usual = all(isinstance(token, str) and math.isfinite(logprob) for token, logprob in listed)
    return of_text(listed, text) if usual else ()


def _usage(usage: Any) -> tuple[int, int, int]:
    """Tokens of prompt, completion, and cached prompt; 0 where none are reported."""
    if not isinstance(usage, dict):
        return 0, 0, 0
    details = usage.get("prompt_tokens_details")
    # The second name is DeepSeek's.
    cached = details.get("cached_tokens") if isinstance(details, dict) else usage.get("prompt_cache_hit_tokens")
    counts = usage.get("prompt_tokens"), usage.get("completion_tokens"), cached
    prompt, completion, hits = map(counted, counts)
    return prompt, completion, hits


def _too_long(request: Request, fault: Mapping[str, Any], text: str) -> Completion:
    """A completion whose `limit_tokens` is the context minus the longest reply."""
    context = _number(CONTEXT_TOKENS, text) or counted(fault.get("n_ctx"))
    if context and context <= request.max_tokens:
        reason = f"{text}; a reply of {request.max_tokens} tokens leaves no room: lower max_tokens"
        return Completion(request.id, "", stop="error", error=reason)
    limit = _number(INPUT_TOKENS, text) or (context - request.max_tokens if context else 0)
    prompt = _number(PROMPT_TOKENS, text) or counted(fault.get("n_prompt_tokens"))
    return Completion(request.id, "", prompt, stop="too_long", error=text, limit_tokens=limit)


def _remedy(status: int, fault: Mapping[str, Any], headers: Mapping[str, str]) -> str:
    if 300 <= status < 400:
        return f"; it redirects to {headers.get('location', 'nowhere')}: give the address that answers as base_url"
    if status in (401, 403):
        return "; it needs a key with access to this model: key_env names the environment variable that holds it"
    if status == 404:
        return "; check name, and base_url, which ends with the version: http://host:8000/v1"
    parameter = fault.get("param")
    if isinstance(parameter, str) and parameter.isidentifier():
        return f"; leave out an unsupported field with extra.{parameter}=null"
    return ""


def _wait_s(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds until Retry-After, which is in seconds (or milliseconds) or a date; None without it.

    A date is compared with the reply's date, which is of the same clock.
    """
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = headers.get(name)
        if value is None:
            continue
        try:
            seconds = float(value) * unit
        except ValueError:
            then = _seconds(value)
            if then is None:
                continue
            sent = _seconds(headers.get("date", ""))
            seconds = then - (now if sent is None else sent)
        if not math.isnan(seconds):
            return max(0.0, seconds)
    return None


def _seconds(date: str) -> float | None:
    """An HTTP date in seconds since the epoch; None for any other text."""
    try:
        return email.utils.parsedate_to_datetime(date).timestamp()
    except (ValueError, TypeError, LookupError, OverflowError):
        return None


def _error(data: Any) -> Mapping[str, Any]:
    error = data.get("error", data) if isinstance(data, dict) else None
    return error if isinstance(error, dict) else {}


def _message(data: Any) -> str:
    if not isinstance(data, dict):
        return ""
    fault: Any = data.get("error", data)
    if isinstance(fault, dict):
        fault = fault.get("message") or fault.get("detail") or fault
    try:
        return fault if isinstance(fault, str) else json.dumps(fault)
    except RecursionError:
        return ""


def _beginning(body: bytes, redact: Redact) -> str:
    """The first words of a body that is not JSON, without HTML tags."""
    text = redact(body.decode(errors="replace"))[:READ_CHARACTERS]
    # `[^<>]`: many unclosed tags would take long.
    return shortened(re.sub(r"<[^<>]*>", " ", text)) or "no readable text"


def shortened(text: str) -> str:
    """Shortens a text to one line that ends with a whole word: half a key would not be redacted."""
    line = one_line(text)
    return line if len(line) <= QUOTED_CHARACTERS else f"{line[:QUOTED_CHARACTERS].rpartition(' ')[0]} …"


def _number(pattern: re.Pattern[str], text: str) -> int:
    match = pattern.search(text)
    return next((counted(int(group)) for group in match.groups() if group), 0) if match else 0


def counted(value: Any) -> int:
    """Returns a number of tokens as an endpoint states it; 0 for an impossible value."""
    return value if type(value) is int and 0 <= value <= MOST_TOKENS else 0
