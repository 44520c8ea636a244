"""Replies of other libraries' agents to a request: AutoGen's, agent-framework's, or any async function of messages."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from autogen_agentchat.base import ChatAgent
from autogen_agentchat.messages import BaseChatMessage, MultiModalMessage, TextMessage
from autogen_core import CancellationToken, Image

from actors.autogen.conversation import SourceImage, task_text
from actors.backends.chat import chat
from actors.messages import Request, Usage
from actors.pictures import data_url

# Returns a reply and the usage that the agent reports. A request with a `correction` follows the agent's own reply.
Reply = Callable[[Request], Awaitable[tuple[str, Usage]]]


def replies_of(agent: object) -> Reply:
    """Returns how an agent is asked. Raises TypeError for an object that is no agent."""
    if isinstance(agent, ChatAgent):
        return partial(_of_autogen, agent)
    if hasattr(agent, "run") and hasattr(agent, "create_session"):
        return partial(_of_framework, agent, agent.create_session())
    if callable(agent):
        return partial(_of_function, agent)
    raise TypeError(f"{type(agent).__name__} is no agent of AutoGen or agent-framework, and no async function")


async def _of_autogen(agent: ChatAgent, request: Request) -> tuple[str, Usage]:
    message: BaseChatMessage = TextMessage(content=request.correction or task_text(request), source="user")
    if request.images and not request.correction:
        parts: list[str | Image] = [task_text(request), *map(SourceImage, request.images)]
        message = MultiModalMessage(content=parts, source="user")
    response = await agent.on_messages([message], CancellationToken())
    messages = (*(response.inner_messages or ()), response.chat_message)
    counts = [message.models_usage for message in messages if message.models_usage]
    used = (Usage(1, count.prompt_tokens, 0, count.completion_tokens) for count in counts)
    return response.chat_message.to_model_text(), sum(used, Usage())


async def _of_framework(agent: Any, session: object, request: Request) -> tuple[str, Usage]:
    from agent_framework import Content, Message  # the agent's own library, which the project does without

    def part(content: dict[str, Any]) -> Any:
        return content["text"] if "text" in content else Content.from_uri(content["image_url"]["url"])

    said = [
        Message(one["role"], [one["content"]] if isinstance(one["content"], str) else [*map(part, one["content"])])
        # The session has what came before a correction.
        for one in (_messages(request)[-1:] if request.correction else _messages(request))
    ]
    response = await agent.run(said, session=session)
    used = response.usage_details or {}
    names = ("input_token_count", "cache_read_input_token_count", "output_token_count")
    return response.text, Usage(1, *(used.get(name) or 0 for name in names))


async def _of_function(function: Callable[..., Any], request: Request) -> tuple[str, Usage]:
    match await function(_messages(request)):
        case str(text):
            return text, Usage(1)
        case (str(text), int(prompt_tokens), int(completion_tokens)):
            return text, Usage(1, prompt_tokens, 0, completion_tokens)
        case other:
            raise TypeError(
                f"expected text, or (text, prompt tokens, completion tokens), and got {type(other).__name__}"
            )


def _messages(request: Request) -> list[dict[str, Any]]:
    pictures = [data_url(source.image) for source in request.images if source.image is not None]
    return chat(request, [{"type": "image_url", "image_url": {"url": url}} for url in pictures])
