"""Reads the response of an endpoint that speaks OpenAI's protocol: a completion, or the fault in its place."""

import json
import math
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from actors.errors import CONTENT_FILTER
from actors.http_client import requested_pause_s
from actors.messages import Completion, Request
from actors.prompting.likelihood import Tokens, of_text
from actors.prompting.safe_text import one_line

QUOTED_CHARACTERS = 300
READ_CHARACTERS = 10_000  # of a body that is not JSON
REPLY_CHARACTERS = 1_000_000  # longer replies are cut off, as if the model had reached its limit
MOST_TOKENS = 10**9  # a larger number is no count of tokens
LEAST_TOKENS = 16  # a smaller number in a message is no size of a prompt
NUMBER_CHARACTERS = 12
ROUNDING = 1e-3  # by which a rounded log-probability may lie above 0
# And every 5xx. At 409, 423 and 424 the server waits for something else; 420, 498 and 499 are of gateways.
PASSING = (408, 409, 420, 423, 424, 425, 429, 498, 499)
TOO_LARGE = 413
PROMPT_REFUSED = (400, TOO_LARGE, 422)
NO_CREDIT = "insufficient_quota"
FILTERED = "content_filter"
TOO_MANY = "rate_limit_exceeded"
# Words for too many requests in gateways' replies, in place of status 429.
LIMIT_NAMED = re.compile(r"rate.?limit|too.?many.?requests|resource.?exhausted|throttl", re.IGNORECASE)
NUMBER = re.compile(r"(?<![\d.,-])\d{1,3}(?:,\d{3})+(?!\d)|(?<![\d.-])\d+")
# Names of a normal end, and of a limit, in the protocols that proxies translate; any other end is no normal one.
ENDED = frozenset(
    "none stop eos eos_token eosfound end_turn stop_sequence complete completed tool_calls function_call".split()
)
CUT_OFF = frozenset(("length", "model_length", "max_tokens", "model_context_window_exceeded"))
ENGINE_FAILED = ("abort", "error")  # how servers end replies whose engine failed
NO_ACCESS = "it needs a key with access to this model: key_env names the environment variable that holds it"
NOT_THERE = "check name, and base_url, which ends with the version: http://host:8000/v1"
THOUGHTS = ("reasoning_content", "reasoning", "thinking")  # fields of a message, by servers
ONLY_THOUGHTS = (
    "all of it is in the field of the model's thoughts: start the server without its reasoning parser, or set thinking"
)
REMEDIES = {401: NO_ACCESS, 403: NO_ACCESS, 404: NOT_THERE, 405: NOT_THERE}


class Why(StrEnum):
    """Kinds of faults.

    passing: the same request may be answered when it is sent again. limited: the endpoint gets too many requests.
    refused: it will not answer this request. unreachable: nothing listens at the address. closed: it accepts no more
    requests from this account (a wrong key, or no credit).
    """

    PASSING = "passing"
    LIMITED = "limited"
    REFUSED = "refused"
    UNREACHABLE = "unreachable"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class EndpointFault:
    """The reason for a missing reply, which begins with the HTTP status and the endpoint's first sentence.

    status: of HTTP, 0 without a response. wait_s: the pause that the endpoint asks for.
    prompt_tokens, limit_tokens: the prompt's size and the largest one, where the endpoint gives both; else 0.
    """

    why: Why
    reason: str
    status: int = 0
    wait_s: float | None = None
    prompt_tokens: int = 0
    limit_tokens: int = 0

    @property
    def depends_on_request(self) -> bool:
        """True where another request may be answered, as far as is known."""
        return self.status > 0 and self.why in (Why.REFUSED, Why.PASSING)


Redact = Callable[[str], str]


class Unusable(Exception):
    """The reason why a response of HTTP 200 holds no completion."""


def read_reply(
    request: Request, status: int, headers: Mapping[str, str], body: bytes, time_s: float, redact: Redact = str
) -> Completion | EndpointFault:
    """Reads one HTTP response.

    headers: by name in lower case, or a mapping that ignores case.
    time_s: seconds since the epoch.
    redact: removes secrets from decoded text, before it is shortened.
    """
    try:
        data = json.loads(body)
    except (ValueError, RecursionError):
        data = None
    if isinstance(data, list) and len(data) == 1:  # Google wraps its errors
        data = data[0]

    if 200 <= status < 300:
        if not isinstance(data, dict) or not data.get("error"):
            try:
                return _completion(request, data, headers, body, redact)
            except Unusable as error:
                return EndpointFault(passing_or_limited(str(error)), str(error), 200)
        # From a gateway that had already begun to answer.
        status = _status_of(data["error"], body)
    return _fault(request, status, headers, data, body, time_s, redact)


def _status_of(error: Any, body: bytes) -> int:
    """Returns the HTTP status that an error in a response of HTTP 200 names; 500 where it names none."""
    if passing_or_limited(body.decode(errors="replace")[:READ_CHARACTERS]) is Why.LIMITED:
        return 429
    if not isinstance(error, dict):
        return 500
    status = counted(error.get("code")) or counted(error.get("status"))
    return status if 400 <= status < 600 else 500


def passing_or_limited(text: str) -> Why:
    """Returns the kind of a fault that passes, by its words."""
    return Why.LIMITED if LIMIT_NAMED.search(text) else Why.PASSING


def _fault(
    request: Request,
    status: int,
    headers: Mapping[str, str],
    data: Any,
    body: bytes,
    time_s: float,
    redact: Redact,
) -> Completion | EndpointFault:
    """Returns the fault of a refusal. A filter's refusal, and one for an account's limit, is the request's outcome."""
    error: Any = {}
    if isinstance(data, dict) and isinstance(data.get("error", data), dict):
        error = data.get("error", data)
    text = shortened(redact(_message(data))) or _beginning(body, redact)
    reason = f"HTTP {status}: {text}"
    if 300 <= status < 400:
        location = headers.get("location", "nowhere")
        reason = f"{reason}; it redirects to {location}: give the address that answers as base_url"
    elif status in REMEDIES:
        reason = f"{reason}; {REMEDIES[status]}"

    codes = (error.get("code"), error.get("type"))
    if FILTERED in codes:
        return Completion(request.id, "", stop="error", error=f"{CONTENT_FILTER}: {reason}")
    if status == TOO_LARGE and TOO_MANY in codes:  # Groq's, for an account's tokens per minute: no prompt is cut for it
        return Completion(request.id, "", stop="error", error=reason)
    if NO_CREDIT in codes or status in (401, 402):
        return EndpointFault(Why.CLOSED, reason, status)
    if status in PASSING or status >= 500:
        wait_s = requested_pause_s(headers, time_s)
        why = Why.LIMITED if status == 429 or wait_s else passing_or_limited(reason)
        return EndpointFault(why, reason, status, wait_s)

    parameter = error.get("param")
    if isinstance(parameter, str) and parameter not in text:
        reason = f"{reason} (param: {shortened(redact(parameter))})"
    prompt_tokens = limit_tokens = 0
    if status in PROMPT_REFUSED:
        prompt_tokens, limit_tokens = _sizes(request, error, text)
    return EndpointFault(Why.REFUSED, reason, status, prompt_tokens=prompt_tokens, limit_tokens=limit_tokens)


def _completion(request: Request, data: Any, headers: Mapping[str, str], body: bytes, redact: Redact) -> Completion:
    """Returns the completion of a response. Raises Unusable where it has none."""
    if not isinstance(data, dict):
        kind = headers.get("content-type", "no content type")
        raise Unusable(
            f"HTTP 200 without JSON ({kind}: {_beginning(body, redact)}); base_url may be wrong, or a proxy answered"
        )
    try:
        choice = data["choices"][0]
        content = choice["message"].get("content")
        refusal = choice["message"].get("refusal")
        finish = choice.get("finish_reason")
    except (LookupError, TypeError, AttributeError):
        raise Unusable(f"HTTP 200 without a choice: {_beginning(body, redact)}") from None
    if finish in ENGINE_FAILED:
        raise Unusable(f"the endpoint broke the reply off (finish_reason {finish})")
    if choice.get("error"):
        raise Unusable(f"the endpoint broke the reply off: {shortened(redact(_message(choice)))}")
    if isinstance(content, list) and content and all(isinstance(part, dict) for part in content):
        content = _text_of_parts(content)
    if content is not None and not isinstance(content, str):
        raise Unusable(f"HTTP 200 with content that is not text: {_beginning(body, redact)}")

    finish = shortened(redact(str(finish)))
    has_ended = finish.lower() in ENDED
    is_cut_off = finish.lower() in CUT_OFF
    error = ""
    if finish == FILTERED:
        error = f"{CONTENT_FILTER}: the endpoint stopped the reply"
    elif refusal and not content:
        error = f"the model refused: {redact(str(refusal))}"
    elif content is None and not is_cut_off:  # a reply cut off while the model still thinks has no text
        error = f"the reply has no text (finish_reason {finish})"
    reply = "" if error else content or ""
    # In this order, so that no cut leaves half a key.
    text = redact(reply)[:REPLY_CHARACTERS]
    if error:
        stop = "error"
    elif has_ended and len(reply) <= REPLY_CHARACTERS:
        stop = "stop"
    else:
        stop = "length"
        if not has_ended and not is_cut_off:
            error = f"the reply ended early (finish_reason {finish})"
    if not text.strip() and not is_cut_off and any(choice["message"].get(name) for name in THOUGHTS):
        error = "; ".join(filter(None, (error, ONLY_THOUGHTS)))

    # Tokens of another text do not belong to this one.
    tokens: Tokens = ()
    if text == reply:
        tokens = _tokens(choice.get("logprobs"), text)
    prompt_tokens, completion_tokens, cached_tokens = _usage(data.get("usage"))
    served = []
    for key in ("model", "provider", "system_fingerprint"):
        name = data.get(key)
        served.append(shortened(redact(name)) if isinstance(name, str) else "")
    model, provider, build = served
    return Completion(
        request.id,
        text,
        prompt_tokens,
        completion_tokens,
        cached_tokens,
        stop=stop,
        error=error,
        tokens=tokens,
        served=(model, provider, build),
    )


def _text_of_parts(parts: list[dict[str, Any]]) -> str | None:
    """Joins the texts of a content, without the model's thoughts, as Mistral lists them. None where there is none."""
    texts = [part.get("text") for part in parts if part.get("type") == "text"]
    if not texts:
        return None
    return "".join(text for text in texts if isinstance(text, str))


def _tokens(likelihoods: Any, text: str) -> Tokens:
    """Returns the text's tokens with their log-probabilities. () where the reply has them in no known form."""
    try:
        tokens = [(entry["token"], float(entry["logprob"])) for entry in likelihoods["content"]]
    except (LookupError, TypeError, ValueError, OverflowError):
        return ()
    if not all(isinstance(token, str) and math.isfinite(logprob) and logprob <= ROUNDING for token, logprob in tokens):
        return ()
    return of_text([(token, min(logprob, 0.0)) for token, logprob in tokens], text)


def _usage(usage: Any) -> tuple[int, int, int]:
    """Returns the tokens of prompt, completion, and cached prompt; 0 where none are reported.

    Some providers count a model's thoughts in the total alone.
    """
    if not isinstance(usage, dict):
        return 0, 0, 0
    prompt = counted(usage.get("prompt_tokens"))
    completion = counted(usage.get("completion_tokens"))
    if prompt:
        completion = max(completion, counted(usage.get("total_tokens")) - prompt)
    details = usage.get("prompt_tokens_details")
    # The second name is DeepSeek's.
    cached = details.get("cached_tokens") if isinstance(details, dict) else usage.get("prompt_cache_hit_tokens")
    return prompt, completion, min(counted(cached), prompt)


def _sizes(request: Request, error: Mapping[str, Any], text: str) -> tuple[int, int]:
    """Returns the tokens of the prompt and of the longest one, as far as a refusal names them.

    All endpoints give the context, and the prompt with or without its reply, in dozens of wordings.
    """
    reply = request.max_tokens
    sizes = {counted(error.get("n_ctx")), counted(error.get("n_prompt_tokens"))}
    for number in NUMBER.findall(text):
        if len(number) <= NUMBER_CHARACTERS:
            sizes.add(counted(int(number.replace(",", ""))))
    numbers = sorted(size for size in sizes if size >= LEAST_TOKENS and size != reply)
    if not numbers:
        return 0, 0
    largest = numbers.pop()
    prompt = largest
    if largest - reply in numbers:
        prompt = largest - reply
        numbers.remove(prompt)
    if not numbers:
        return 0, max(0, largest - reply)
    context = numbers[-1]
    if context <= reply:
        return 0, 0
    # Where the prompt may fit without its reply, either number may be the context: the smaller one is safe.
    return prompt, context - reply


def _message(data: Any) -> str:
    """Returns the words of an error. Behind a router's, those of the provider, which it passes on as `metadata.raw`."""
    if not isinstance(data, dict):
        return ""
    error: Any = data.get("error", data)
    provider_message = ""
    if isinstance(error, dict):
        metadata = error.get("metadata")
        raw = metadata.get("raw") if isinstance(metadata, dict) else None
        if isinstance(raw, str):
            try:
                provider_message = _message(json.loads(raw))
            except (ValueError, RecursionError):
                provider_message = raw
        error = error.get("message") or error.get("detail") or error
    try:
        text = error if isinstance(error, str) else json.dumps(error)
    except RecursionError:
        return ""
    return f"{text}: {provider_message}" if provider_message else text


def _beginning(body: bytes, redact: Redact) -> str:
    """Returns the first words of a body that is not JSON, without HTML tags."""
    text = redact(body.decode(errors="replace"))[:READ_CHARACTERS]
    # `[^<>]`: many unclosed tags would take long.
    return shortened(re.sub(r"<[^<>]*>", " ", text)) or "no readable text"


def shortened(text: str) -> str:
    """Shortens a text to one line that ends with a whole word. Half a key would not be redacted."""
    line = one_line(text)
    if len(line) <= QUOTED_CHARACTERS:
        return line
    return f"{line[:QUOTED_CHARACTERS].rpartition(' ')[0]} …"


def counted(value: Any) -> int:
    """Returns a whole number as an endpoint states it, such as 20, 20.0, "20" or "1,024". 0 for an impossible one."""
    if isinstance(value, str) and len(value) <= NUMBER_CHARACTERS:
        with suppress(ValueError):
            value = float(value.replace(",", ""))
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MOST_TOKENS:
        return 0
    return int(value) if value == int(value) else 0
