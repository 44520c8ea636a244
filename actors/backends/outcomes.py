"""Completions of requests that a model in this project's own process cannot serve."""

from __future__ import annotations

from actors.messages import Completion, Request
from actors.prompting.text import one_line


def refused(request: Request, reason: str) -> Completion:
    """The completion of a request that will never be served, with the reason on one line."""
    return Completion(id=request.id, text="", stop="error", error=one_line(reason))


def too_long(request: Request, prompt_tokens: int, context: int) -> Completion | None:
    """The completion of a request whose prompt and longest reply do not fit `context` tokens; None where they do."""
    limit = context - request.max_tokens
    if limit < 1:
        return refused(request, f"{request.max_tokens} tokens of reply leave no room in a context of {context}")
    if prompt_tokens <= limit:
        return None
    reason = f"{prompt_tokens} tokens of prompt and {request.max_tokens} of reply in a context of {context}"
    return Completion(request.id, "", prompt_tokens, stop="too_long", error=reason, limit_tokens=limit)
