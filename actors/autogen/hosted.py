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
from autogen_core import CancellationToken
from autogen_core.models import ChatCompletionClient

from actors.agents.role_agent import Complete, RoleAgent
from actors.autogen.client import ModelClient
from actors.autogen.conversation import SourceImage, task_text
from actors.backends.chat import chat, picture_urls
from actors.errors import ModelGone, UserError
from actors.lookup import imported, is_reference
from actors.messages import Abilities, Completion, Message, Request, Role, Turn, TurnResult, Usage
from actors.models import Model, ModelResponse
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
    ) -> TurnResult:
        def make_agent(task: Request, on_response: Callable[[ModelResponse], None]) -> object:
            client = ModelClient(self._model, self._settings, turn.seed, task, on_response=on_response)
            return self._factory(self.role, client)

        host = Host(make_agent)
        try:
            return await super()._answer(turn, recalled, cut, host.complete)
        finally:
            await host.close()


class Host:
    """The user's agent in the place of a model, for one turn. A repair is asked of the agent that gave the reply.

    make_agent: called with the first request, and a function that takes each response of the run's model.
    """

    def __init__(self, make_agent: Callable[[Request, Callable[[ModelResponse], None]], object]) -> None:
        self._make_agent = make_agent
        self._agent: object = None
        self._ask: Reply | None = None
        self._responses: list[ModelResponse] = []  # of the run's model, for the present request

    async def complete(self, request: Request) -> ModelResponse:
        """Returns the agent's reply with all that it has used. Raises ModelGone."""
        self._responses.clear()
        if not request.correction:
            await self.close()
        is_new = self._ask is None
        agent_usage = Usage()
        try:
            if self._ask is None:
                self._agent = self._make_agent(request, self._responses.append)
                self._ask = reply_function(self._agent)
            text, agent_usage = await self._ask(request, is_new)
            is_cut_off = bool(self._responses) and self._responses[-1].completion.stop == "length"
            reply = Completion(request.id, text, stop="length" if is_cut_off else "stop")
        except ModelGone:  # ends the run: later turns would fail, too
            raise
        except Exception as error:  # the user's agent may raise anything
            # An agent may have handled a request that did not fit: then nothing is cut.
            for response in self._responses:
                if response.completion.stop == "too_long":
                    await self.close()  # the agent would remember the evidence that is cut
                    return ModelResponse(response.completion, 0, self._usage())
            reply = Completion(request.id, "", stop="error", error=one_line(f"{type(error).__name__}: {error}"))
        return self._counted(reply, agent_usage)

    def _counted(self, reply: Completion, agent_usage: Usage) -> ModelResponse:
        """Adds the tokens of the run's model to a reply. Without a call of that model, the agent's report counts."""
        completions = [response.completion for response in self._responses if response.calls]
        usage = self._usage()
        nominal = agent_usage
        if completions:
            nominal = Usage(
                calls=len(completions),
                prompt_tokens=sum(completion.prompt_tokens for completion in completions),
                completion_tokens=sum(completion.completion_tokens for completion in completions),
            )
        else:
            usage += agent_usage
        reply = replace(reply, prompt_tokens=nominal.prompt_tokens, completion_tokens=nominal.completion_tokens)
        return ModelResponse(reply, nominal.calls, usage)

    def _usage(self) -> Usage:
        return sum((response.usage for response in self._responses), Usage())

    async def close(self) -> None:
        """Closes the agent, if there is one. The next request gets a new one."""
        agent = self._agent
        self._agent = None
        self._ask = None
        if isinstance(agent, ChatAgent):
            try:
                await agent.close()
            except Exception as error:  # the user's agent may raise anything; it has answered
                LOG.warning("%s could not be closed: %s", agent.name, one_line(str(error)))


def load_factory(spec: str, key: str) -> Factory:
    """Imports the function `package.module:function`; one that returns an async function of messages, for such a one.

    Raises UserError, which names the setting `key`, where it takes neither a role and a client nor messages.
    """
    if not is_reference(spec):
        raise UserError(f"{key}={shown(spec)}: expected package.module:function, such as my_agents:make_critic")
    name = shown(spec.rpartition(":")[2])
    function = imported(spec, key)
    if not callable(function):
        raise UserError(f"{key}={shown(spec)}: {name} is not a function")

    is_agent = inspect.iscoroutinefunction(function)
    parameters = ("messages",) if is_agent else ("role", "client")
    try:
        inspect.signature(function).bind(*parameters)
    except TypeError as error:
        call = f"{name}({', '.join(parameters)})"
        raise UserError(f"{key}={shown(spec)}: {name} is called as {call}, but it has {error}") from error
    if is_agent:
        return lambda role, client: function
    return cast(Factory, function)


# Returns a reply and the usage that the agent reports. A new agent has not read what comes before a correction.
Reply = Callable[[Request, bool], Awaitable[tuple[str, Usage]]]


def reply_function(agent: object) -> Reply:
    """Returns how an agent is asked. Raises TypeError for an object that is no agent."""
    if isinstance(agent, ChatAgent):
        return partial(_ask_autogen, agent)
    if hasattr(agent, "run") and hasattr(agent, "create_session"):
        return partial(_ask_framework, agent, agent.create_session())
    if callable(agent):
        return partial(_ask_function, agent)
    raise TypeError(f"{type(agent).__name__} is no agent of AutoGen or agent-framework, and no async function")


async def _ask_autogen(agent: ChatAgent, request: Request, is_new: bool) -> tuple[str, Usage]:
    text = task_text(request)
    messages: list[BaseChatMessage]
    if request.images:
        messages = [MultiModalMessage(content=[text, *map(SourceImage, request.images)], source="user")]
    else:
        messages = [TextMessage(content=text, source="user")]
    if request.correction:
        messages.append(TextMessage(content=request.rejected, source=agent.name))
        messages.append(TextMessage(content=request.correction, source="user"))
    response = await agent.on_messages(messages if is_new else messages[-1:], CancellationToken())
    usage = Usage()
    for message in (*(response.inner_messages or ()), response.chat_message):
        if message.models_usage:
            tokens = message.models_usage
            usage += Usage(1, prompt_tokens=tokens.prompt_tokens, completion_tokens=tokens.completion_tokens)
    return response.chat_message.to_model_text(), usage


async def _ask_framework(agent: Any, session: object, request: Request, is_new: bool) -> tuple[str, Usage]:
    from agent_framework import Content, Message  # the agent's own library, which the project does without

    def contents(message: dict[str, Any]) -> list[Any]:
        content = message["content"]
        if isinstance(content, str):
            return [content]
        return [part["text"] if "text" in part else Content.from_uri(part["image_url"]["url"]) for part in content]

    turns = chat(request, picture_urls(request))
    messages = [Message(turn["role"], contents(turn)) for turn in (turns if is_new else turns[-1:])]
    response = await agent.run(messages, session=session)
    details = response.usage_details or {}
    return response.text, Usage(
        1,
        prompt_tokens=details.get("input_token_count") or 0,
        cached_tokens=details.get("cache_read_input_token_count") or 0,
        completion_tokens=details.get("output_token_count") or 0,
    )


async def _ask_function(function: Callable[..., Any], request: Request, is_new: bool) -> tuple[str, Usage]:
    match await function(chat(request, picture_urls(request))):
        case str(text):
            return text, Usage(1)
        case (str(text), int(prompt_tokens), int(completion_tokens)):
            return text, Usage(1, prompt_tokens=prompt_tokens, completion_tokens=completion_tokens)
        case reply:
            raise TypeError(
                f"expected text, or (text, prompt tokens, completion tokens), and got {type(reply).__name__}"
            )
