"""The checks of a model: the properties of completions that an agent relies on."""

from __future__ import annotations

import asyncio

from actors.agents.roles import SINGLE
from actors.errors import ModelError
from actors.messages import Completion, Kind, Modality, Question, Request, Source, Turn
from actors.models import Model
from actors.prompting.prompt import build_request
from experiments.conformance.require import require

STOPS = ("stop", "length", "too_long", "error")
EVIDENCE = Source("s1", "d1", Kind.TEXT, "Mill Lane", "The mill in Mill Lane was built in 1820.")


def check_model(model: Model, name: str) -> None:
    """Several requests at once, each answered as itself. Raises NotConforming with the first thing that is wrong."""
    requests = [_request(number) for number in range(4)]
    for request, completion in zip(requests, asyncio.run(_complete(model, requests)), strict=True):
        if isinstance(completion, ModelError):
            continue  # a call that fails is retried, and then a failed turn
        require(isinstance(completion, Completion), f"{name}: complete() gives no Completion but {completion!r}")
        # For the type checker.
        assert isinstance(completion, Completion)
        require(completion.id == request.id, f"{name}: the completion of {request.id} is called {completion.id}")
        require(completion.stop in STOPS, f"{name}: stop={completion.stop!r}, expected one of {', '.join(STOPS)}")
        require(isinstance(completion.text, str), f"{name}: a completion's text is no text")
        explained = completion.stop != "error" or bool(completion.error)
        require(explained, f"{name}: a completion with stop='error' does not say why")
        counts = completion.prompt_tokens, completion.completion_tokens, completion.cached_tokens
        require(min(counts) >= 0, f"{name}: a completion counts fewer than 0 tokens")


async def _complete(model: Model, requests: list[Request]) -> list[Completion | BaseException]:
    # Models that need an event loop to start in have `start`; others have not.
    start = getattr(model, "start", None)
    if start is not None:
        await start()
    # All at once: a model that mixes up concurrent requests would pass one by one.
    return await asyncio.gather(*map(model.complete, requests), return_exceptions=True)


def _request(number: int) -> Request:
    question = Question(f"q{number}", "When was the mill in Mill Lane built?", evidence=(EVIDENCE,))
    turn = Turn("conformance", question, SINGLE.name, 1, seed=number)
    return build_request(turn, Modality.BOTH, SINGLE.instruction)
