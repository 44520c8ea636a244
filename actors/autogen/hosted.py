"""A role played by the user's agent: `roles.text_critic.agent=package.module:function`.

The function is called as `function(role, client)`, with an AutoGen client of the run's model, and returns an agent of
AutoGen or agent-framework, or an async function of messages, which may also be named itself. Every turn gets a new
agent, so that nothing leaks between discussions.
"""

import inspect
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, cast

from autogen_agentchat.base import ChatAgent
from autogen_agentchat.messages import BaseChatMessage, MultiModalMessage, TextMessage
from autogen_core import CancellationToken, Image
from autogen_core.models import ChatCompletionClient

from actors.agents.role_agent import RoleAgent, cut_more
from actors.autogen.client import ModelClient
from actors.autogen.conversation import SourceImage, task_text
from actors.backends.chat import chat, picture_urls
from actors.errors import ModelGone, UserError
from actors.lookup import imported, is_reference
from actors.messages import Message, Request, Role, Status, Turn, Usage
from actors.models import Model
from actors.prompting.form import form_of, still_asked
from actors.prompting.prompt import build_request, correction
from actors.prompting.reply import read, reply_of, unread
from actors.prompting.safe_text import clean, one_line
from actors.settings import AgentSettings, shown

Factory = Callable[[Role, ChatCompletionClient], object]


class HostedAgent(RoleAgent):
    """Plays a role with the agent of `role.agent`. An error of the agent is the reason of a failed turn.

    The agent reads a `RoleAgent`'s request as one message. Its final message is parsed like a model's reply, with one
    repair. Raises UserError as `load_factory`.
    """

    def __init__(self, role: Role, model: Model, settings: AgentSettings | None = None) -> None:
        super().__init__(role, model, settings)
        self._factory = load_factory(role.agent or "", f"roles.{role.name}.agent")

    async def _answer(
        self, turn: Turn, recalled: Sequence[Message], cut: tuple[str, ...] = ()
    ) -> tuple[Message, Usage]:
        usage = Usage()
        while True:
            request = build_request(turn, self.role, recalled, self._settings, cut)
            client = ModelClient(self._model, self._settings, seed=turn.seed, task=request)
            text, reply, error, reported, first_tokens = "", None, "", Usage(), 0
            try:
                agent = self._factory(self.role, client)
                ask, asked = replies_of(agent), request
                try:
                    reading, form, whole = None, form_of(turn), form_of(turn)
                    for _ in range(2):
                        # Zero before the first message, and its tokens before the second.
                        so_far = client.total_usage() if client.calls else reported
                        first_tokens = so_far.prompt_tokens + so_far.completion_tokens
                        text, used = await ask(asked)
                        reported += used
                        now = read(form, text, client.cut_off, whole)
                        reading = now if reading is None else reading.repaired_by(now)
                        reply = reply_of(turn, reading)
                        if reply is not None:
                            break
                        asked = replace(request, rejected=text, correction=correction(form, now.faults))
                        form = still_asked(form, now.faults)
                finally:
                    if isinstance(agent, ChatAgent):
                        await agent.close()
            except ModelGone:  # ends the run: later turns would fail, too
                raise
            except Exception as raised:  # the user's agent may raise anything
                reply, error = None, one_line(f"{type(raised).__name__}: {raised}")
            # An agent with another model has not called ours: then only its report counts.
            usage += client.usage if client.calls else client.usage + reported
            more: Sequence[str] = ()
            # An agent may have handled a request that did not fit: then nothing is cut.
            if error and client.too_long is not None:
                more = cut_more(turn.question, self.role.evidence, cut, *client.too_long)
            if not more:
                break
            cut = (*cut, *more)
        total = client.total_usage() if client.calls else reported
        message = replace(
            reply or unread(turn),
            # A reply without reasoning is shown whole.
            content=(reply.content if reply else clean(text)) or one_line(text),
            status=Status.FAILED if error else Status.OK if reply else Status.UNPARSED,
            error=error,
            cut=cut,
            calls=client.calls or reported.calls,
            prompt_tokens=total.prompt_tokens,
            completion_tokens=total.completion_tokens,
            repair_tokens=first_tokens and total.prompt_tokens + total.completion_tokens - first_tokens,
        )
        return message, usage


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
        for one in chat(request, picture_urls(request))[-1 if request.correction else 0 :]
    ]
    response = await agent.run(said, session=session)
    used = response.usage_details or {}
    names = ("input_token_count", "cache_read_input_token_count", "output_token_count")
    return response.text, Usage(1, *(used.get(name) or 0 for name in names))


async def _of_function(function: Callable[..., Any], request: Request) -> tuple[str, Usage]:
    match await function(chat(request, picture_urls(request))):
        case str(text):
            return text, Usage(1)
        case (str(text), int(prompt_tokens), int(completion_tokens)):
            return text, Usage(1, prompt_tokens, 0, completion_tokens)
        case other:
            raise TypeError(
                f"expected text, or (text, prompt tokens, completion tokens), and got {type(other).__name__}"
            )
