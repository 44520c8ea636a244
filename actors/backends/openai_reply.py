"""Reads the response of an endpoint that speaks OpenAI's protocol: a completion, or the fault in its place."""

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from actors.errors import CONTENT_FILTER
from actors.http_client import asked_pause_s
from actors.messages import Completion, Request
from actors.prompting.likelihood import Tokens, of_text
from actors.prompting.safe_text import one_line

QUOTED_CHARACTERS, READ_CHARACTERS = 300, 10_000
REPLY_CHARACTERS = 1_000_000  # longer replies are cut off, as if the model had reached its limit
MOST_TOKENS = 10**9  # a larger number is no count of tokens
LEAST_TOKENS = 16  # a smaller number in a message is no size of a prompt
PASSING = (408, 425, 429)  # and every 5xx
TOO_LARGE = 413
PROMPT_REFUSED = (400, TOO_LARGE, 422)
NO_CREDIT, FILTERED, TOO_MANY = "insufficient_quota", "content_filter", "rate_limit_exceeded"
NUMBER = re.compile(r"(?<![\d.,-])\d{1,3}(?:,\d{3})+(?!\d)|(?<![\d.-])\d+")
# Names of a normal end, and of a limit, in the protocols that proxies translate; any other end is no normal one.
ENDED = frozenset(
    "none stop eos eos_token eosfound end_turn stop_sequence complete completed tool_calls function_call".split()
)
NO_ACCESS = "it needs a key with access to this model: key_env names the environment variable that holds it"
NOT_THERE = "check name, and base_url, which ends with the version: http://host:8000/v1"
REMEDIES = {401: NO_ACCESS, 403: NO_ACCESS, 404: NOT_THERE, 405: NOT_THERE}
CUT_OFF = frozenset(("length", "model_length", "max_tokens", "model_context_window_exceeded"))


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


def read_reply(
    request: Request, status: int, headers: Mapping[str, str], body: bytes, now: float, redact: Redact = str
) -> Completion | EndpointFault:
    """Reads one HTTP response.

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
    error = data.get("error", data) if isinstance(data, dict) else None
    fault: Mapping[str, Any] = error if isinstance(error, dict) else {}
    if 200 <= status < 300:
        if not (isinstance(data, dict) and data.get("error")):
            return _completion(request, data, headers, body, redact)
        code = counted(fault.get("code"))  # from a gateway that had already begun to answer
        status = code if 400 <= code < 600 else 500
    text = shortened(redact(_message(data))) or _beginning(body, redact)
    codes = fault.get("code"), fault.get("type")
    remedy = REMEDIES.get(status, "")
    if 300 <= status < 400:
        remedy = f"it redirects to {headers.get('location', 'nowhere')}: give the address that answers as base_url"
    reason = f"HTTP {status}: {text}{remedy and '; '}{remedy}"
    if FILTERED in codes:
        return Completion(request.id, "", stop="error", error=f"{CONTENT_FILTER}: {reason}")
    if status == TOO_LARGE and TOO_MANY in codes:  # Groq's, for an account's tokens per minute: no prompt is cut for it
        return Completion(request.id, "", stop="error", error=reason)
    if NO_CREDIT in codes or status in (401, 402):
        return EndpointFault(Why.CLOSED, reason, status)
    if status in PASSING or status >= 500:
        wait_s = asked_pause_s(headers, now)
        return EndpointFault(Why.LIMITED if status == 429 or wait_s else Why.PASSING, reason, status, wait_s)
    if isinstance(parameter := fault.get("param"), str) and parameter not in text:
        reason += f" (param: {shortened(redact(parameter))})"
    sizes = _sizes(request, fault, text) if status in PROMPT_REFUSED else (0, 0)
    return EndpointFault(Why.REFUSED, reason, status, None, *sizes)


def _completion(
    request: Request, data: Any, headers: Mapping[str, str], body: bytes, redact: Redact
) -> Completion | EndpointFault:
    if not isinstance(data, dict):
        kind = headers.get("content-type", "no content type")
        said = f"HTTP 200 without JSON ({kind}: {_beginning(body, redact)}); base_url may be wrong, or a proxy answered"
        return EndpointFault(Why.PASSING, said, 200)
    try:
        choice = data["choices"][0]
        message, finish = choice["message"], choice.get("finish_reason")
        content, refusal, likelihoods = message.get("content"), message.get("refusal"), choice.get("logprobs")
    except (LookupError, TypeError, AttributeError):
        return EndpointFault(Why.PASSING, f"HTTP 200 without a choice: {_beginning(body, redact)}", 200)
    if finish in ("abort", "error"):  # how servers end replies whose engine failed
        return EndpointFault(Why.PASSING, f"the endpoint broke the reply off (finish_reason {finish})", 200)
    if broken := choice.get("error"):
        said = shortened(redact(_message({"error": broken})))
        return EndpointFault(Why.PASSING, f"the endpoint broke the reply off: {said}", 200)
    finish = shortened(redact(str(finish)))
    limited, ended = finish.lower() in CUT_OFF, finish.lower() in ENDED
    if isinstance(content, list) and content and all(isinstance(part, dict) for part in content):
        # Without the model's thoughts, as Mistral lists them.
        texts = [part.get("text") for part in content if part.get("type") == "text"]
        content = "".join(text for text in texts if isinstance(text, str)) if texts else None
    if content is not None and not isinstance(content, str):
        return EndpointFault(Why.PASSING, f"HTTP 200 with content that is not text: {_beginning(body, redact)}", 200)
    prompt, completion, cached = _usage(data.get("usage"))
    error = ""
    if finish == "content_filter":
        error = f"{CONTENT_FILTER}: the endpoint stopped the reply"
    elif refusal and not content:
        error = f"the model refused: {redact(str(refusal))}"
    elif content is None and not limited:  # a reply cut off while the model still thinks has no text
        error = f"the reply has no text (finish_reason {finish})"
    written = "" if error else content or ""
    # In this order, so that no cut leaves half a key.
    text = redact(written)[:REPLY_CHARACTERS]
    stop = "error" if error else "stop" if ended and len(written) <= REPLY_CHARACTERS else "length"
    if not (error or ended or limited):
        error = f"the reply ended early (finish_reason {finish})"
    # Tokens of another text do not belong to this one.
    tokens = _tokens(likelihoods, text) if text == written else ()
    names = map(data.get, ("model", "provider", "system_fingerprint"))
    model, provider, build = (shortened(redact(name)) if isinstance(name, str) else "" for name in names)
    served = (model, provider, build)
    return Completion(
        request.id, text, prompt, completion, cached, stop=stop, error=error, tokens=tokens, served=served
    )


def _tokens(likelihoods: Any, text: str) -> Tokens:
    """The text's tokens with their log-probabilities. () where the reply has them in no known form."""
    try:
        listed = [(entry["token"], float(entry["logprob"])) for entry in likelihoods["content"]]
    except (LookupError, TypeError, ValueError, OverflowError):
        return ()
    usual = all(isinstance(token, str) and math.isfinite(logprob) for token, logprob in listed)
    return of_text(listed, text) if usual else ()


def _usage(usage: Any) -> tuple[int, int, int]:
    """Tokens of prompt, completion, and cached prompt; 0 where none are reported.

    Some providers count a model's thoughts in the total alone.
    """
    if not isinstance(usage, dict):
        return 0, 0, 0
    details = usage.get("prompt_tokens_details")
    # The second name is DeepSeek's.
    cached = details.get("cached_tokens") if isinstance(details, dict) else usage.get("prompt_cache_hit_tokens")
    counts = (usage.get(f"{part}_tokens") for part in ("prompt", "completion", "total"))
    prompt, completion, total = map(counted, counts)
    return prompt, max(completion, total - prompt if prompt else 0), counted(cached)


def _sizes(request: Request, fault: Mapping[str, Any], text: str) -> tuple[int, int]:
    """Returns the tokens of the prompt and of the longest one, as far as a refusal names them.

    All endpoints give the context, and the prompt with or without its reply, in dozens of wordings.
    """
    reply = request.max_tokens
    stated = [counted(fault.get(name)) for name in ("n_ctx", "n_prompt_tokens")]
    stated += [counted(int(number.replace(",", ""))) for number in NUMBER.findall(text) if len(number) <= 12]
    numbers = sorted({number for number in stated if number >= LEAST_TOKENS} - {reply})
    if not numbers:
        return 0, 0
    largest = prompt = numbers.pop()
    if largest - reply in numbers:
        numbers.remove(prompt := largest - reply)
    if not numbers:
        return 0, max(0, largest - reply)
    context = numbers[-1]
    # Where the prompt may fit without its reply, either number may be the context: the smaller one is safe.
    return (prompt, context - reply) if context > reply else (0, 0)


def _message(data: Any) -> str:
    """The words of an error. Behind a router's, those of the provider, which it passes on as `metadata.raw`."""
    if not isinstance(data, dict):
        return ""
    fault: Any = data.get("error", data)
    behind = ""
    if isinstance(fault, dict):
        metadata = fault.get("metadata")
        if isinstance(metadata, dict) and isinstance(raw := metadata.get("raw"), str):
            try:
                behind = _message(json.loads(raw))
            except (ValueError, RecursionError):
                behind = raw
        fault = fault.get("message") or fault.get("detail") or fault
    try:
        text = fault if isinstance(fault, str) else json.dumps(fault)
    except RecursionError:
        return ""
    return f"{text}: {behind}" if behind else text


def _beginning(body: bytes, redact: Redact) -> str:
    """The first words of a body that is not JSON, without HTML tags."""
    text = redact(body.decode(errors="replace"))[:READ_CHARACTERS]
    # `[^<>]`: many unclosed tags would take long.
    return shortened(re.sub(r"<[^<>]*>", " ", text)) or "no readable text"


def shortened(text: str) -> str:
    """Shortens a text to one line that ends with a whole word. Half a key would not be redacted."""
    line = one_line(text)
    return line if len(line) <= QUOTED_CHARACTERS else f"{line[:QUOTED_CHARACTERS].rpartition(' ')[0]} …"


def counted(value: Any) -> int:
    """Returns a number of tokens as an endpoint states it. 0 for an impossible value."""
    return value if type(value) is int and 0 <= value <= MOST_TOKENS else 0
