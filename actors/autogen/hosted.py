"""A role played by the user's agent: `roles.text_critic.agent=package.module:function`.

The function is called as `function(role, client)`, with an AutoGen client of the run's model, and returns an agent of
AutoGen or agent-framework, or an async function of messages, which may also be named itself. Every turn gets a new
agent, so that nothing leaks between discussions.
"""

import inspect
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, cast

from autogen_agentchat.base import ChatAgent
from autogen_agentchat.messages import BaseChatMessage, MultiModalMessage, TextMessage
from autogen_core import CancellationToken, Image
from autogen_core.models import ChatCompletionClient

from actors.agents.role_agent import Asked, Complete, RoleAgent
from actors.autogen.client import ModelClient
from actors.autogen.conversation import SourceImage, task_text
from actors.backends.chat import chat, picture_urls
from actors.errors import ModelGone, UserError
from actors.lookup import imported, is_reference
from actors.messages import Abilities, Completion, Message, Request, Role, Turn, Usage
from actors.models import Model
from actors.prompting.safe_text import one_line
from actors.settings import AgentSettings, shown

LOG = logging.getLogger(__name__)

Factory = Callable[[Role, ChatCompletionClient], object]


class HostedAgent(RoleAgent):
    """Plays a role with the agent of `role.agent`. An error of the agent is the reason of a failed turn.

    The agent reads a `RoleAgent`'s request as one message. Its final message is read like a model's reply, with one
    repair. Raises UserError as `load_factory`.
    """

    def __init__(self, role: Role, model: Model, settings: AgentSettings | None = None) -> None:
        super().__init__(role, model, settings)
        self._factory = load_factory(role.agent or "", f"roles.{role.name}.agent")
        self._abilities = Abilities()  # whatever the run's model can: the agent is asked in words

    async def _answer(
        self, turn: Turn, recalled: Sequence[Message], cut: tuple[str, ...], complete: Complete
    ) -> tuple[Message, Usage]:
        host = Host(self._factory, self.role, self._model, self._settings, turn.seed)
        try:
            return await super()._answer(turn, recalled, cut, host.complete)
        finally:
            await host.close()


class Host:
    """The user's agent in the place of a model, for one turn. A repair is asked of the agent that gave the reply."""

    def __init__(self, factory: Factory, role: Role, model: Model, settings: AgentSettings, seed: int) -> None:
        self._make = partial(factory, role)
        self._make_client = partial(ModelClient, model, settings, seed)
        self._client: ModelClient | None = None
        self._agent: object = None

    async def complete(self, request: Request) -> Asked:
        """Returns the agent's reply, the number of its completions, and what it has used. Raises ModelGone."""
        if new := self._client is None or not request.correction:
            await self.close()
            self._client = self._make_client(task=request)
        client, reported, completion = self._client, Usage(), Completion(request.id, "")
        client.count_anew()
        try:
            if new:
                self._agent = agent = self._make(client)
                self._ask = replies_of(agent)
            text, reported = await self._ask(request, new)
            completion = replace(completion, text=text, stop="length" if client.cut_off else "stop")
        except ModelGone:  # ends the run: later turns would fail, too
            raise
        except Exception as raised:  # the user's agent may raise anything
            # An agent may have handled a request that did not fit: then nothing is cut.
            if client.too_long is not None:
                self._client = None  # the agent would remember the evidence that is cut
                return Asked(client.too_long[1], 0, client.usage)
            completion = replace(completion, stop="error", error=one_line(f"{type(raised).__name__}: {raised}"))
        # An agent with another model has not called ours: then only its report counts.
        total, used = (client.total_usage(), client.usage) if client.calls else (reported, client.usage + reported)
        prompt, reply = total.prompt_tokens, total.completion_tokens
        counted = replace(completion, prompt_tokens=prompt, completion_tokens=reply)
        return Asked(counted, client.calls or reported.calls, used)

    async def close(self) -> None:
        """Closes the agent, if there is one."""
        agent, self._agent = self._agent, None
        if isinstance(agent, ChatAgent):
            try:
                await agent.close()
            except Exception as error:  # the user's agent may raise anything; it has answered
                LOG.warning("%s could not be closed: %s", agent.name, one_line(str(error)))


def load_factory(spec: str, key: str) -> Factory:
    """Imports the function `package.module:function`; one that returns an async function of messages, for such a one.

    Raises UserError, which names the setting `key`, where it takes neither a role and a client nor messages.
    """
    name = spec.rpartition(":")[2]
    if not is_reference(spec):
        raise UserError(f"{key}={shown(spec)}: expected package.module:function, such as my_agents:make_critic")
    factory = imported(spec, key)
    if not callable(factory):
        raise UserError(f"{key}={shown(spec)}: {shown(name)} is not a function")
    is_agent = inspect.iscoroutinefunction(factory)
    try:
        inspect.signature(factory).bind(*([None] if is_agent else [None, None]))
    except TypeError as error:
        call = f"{name}(messages)" if is_agent else f"{name}(role, client)"
        raise UserError(f"{key}={shown(spec)}: {shown(name)} is called as {call}, but it has {error}") from error
    return (lambda role, client: factory) if is_agent else cast(Factory, factory)


# Returns a reply and the usage that the agent reports. A `new` agent has not read what comes before a correction.
Reply = Callable[[Request, bool], Awaitable[tuple[str, Usage]]]


def replies_of(agent: object) -> Reply:
    """Returns how an agent is asked. Raises TypeError for an object that is no agent."""
    if isinstance(agent, ChatAgent):
        return partial(_of_autogen, agent)
    if hasattr(agent, "run") and hasattr(agent, "create_session"):
        return partial(_of_framework, agent, agent.create_session())
    if callable(agent):
        return partial(_of_function, agent)
    raise TypeError(f"{type(agent).__name__} is no agent of AutoGen or agent-framework, and no async function")


async def _of_autogen(agent: ChatAgent, request: Request, new: bool) -> tuple[str, Usage]:
    message: BaseChatMessage = TextMessage(content=task_text(request), source="user")
    if request.images:
        parts: list[str | Image] = [task_text(request), *map(SourceImage, request.images)]
        message = MultiModalMessage(content=parts, source="user")
    asked = [message]
    if request.correction:
        asked.append(TextMessage(content=request.rejected, source=agent.name))
        asked.append(TextMessage(content=request.correction, source="user"))
    response = await agent.on_messages(asked if new else asked[-1:], CancellationToken())
    messages = (*(response.inner_messages or ()), response.chat_message)
    counts = [message.models_usage for message in messages if message.models_usage]
    used = (Usage(1, count.prompt_tokens, 0, count.completion_tokens) for count in counts)
    return response.chat_message.to_model_text(), sum(used, Usage())


async def _of_framework(agent: Any, session: object, request: Request, new: bool) -> tuple[str, Usage]:
    from agent_framework import Content, Message  # the agent's own library, which the project does without

    def part(content: dict[str, Any]) -> Any:
        return content["text"] if "text" in content else Content.from_uri(content["image_url"]["url"])

    said = [
        Message(one["role"], [one["content"]] if isinstance(one["content"], str) else [*map(part, one["content"])])
        for one in chat(request, picture_urls(request))[0 if new else -1 :]
    ]
    response = await agent.run(said, session=session)
    used = response.usage_details or {}
    names = ("input_token_count", "cache_read_input_token_count", "output_token_count")
    return response.text, Usage(1, *(used.get(name) or 0 for name in names))


async def _of_function(function: Callable[..., Any], request: Request, new: bool) -> tuple[str, Usage]:
    match await function(chat(request, picture_urls(request))):
        case str(text):
            return text, Usage(1)
        case (str(text), int(prompt_tokens), int(completion_tokens)):
            return text, Usage(1, prompt_tokens, 0, completion_tokens)
        case other:
            raise TypeError(
                f"expected text, or (text, prompt tokens, completion tokens), and got {type(other).__name__}"
            )
