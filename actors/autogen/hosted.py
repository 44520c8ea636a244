"""A role played by the user's own AutoGen agent: `roles.text_critic.agent=package.module:function`.

The function is called as `function(role, client)` and returns the agent; `client` is an AutoGen client of the run's
own model. Every turn gets an agent of its own, so nothing can leak from one discussion into another, and turns need
not wait for each other.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

from autogen_agentchat.base import ChatAgent, Response
from autogen_agentchat.messages import BaseChatMessage, MultiModalMessage, TextMessage
from autogen_core import CancellationToken
from autogen_core.models import ChatCompletionClient, RequestUsage

from actors.agents.memory import Memory
from actors.agents.roles import DUMMY_SENTENCE
from actors.autogen.client import ModelClient
from actors.autogen.conversation import task_text
from actors.autogen.pictures import SourceImage
from actors.errors import ModelGone, UserError
from actors.lookup import imported, is_reference
from actors.messages import Message, Request, Role, Status, Turn, Usage
from actors.models import Model
from actors.prompting.form import form_of, still_asked
from actors.prompting.prompt import build_request, correction, in_own_form
from actors.prompting.reply import ParsedReply, read, reply_of
from actors.prompting.safe_text import clean, one_line
from actors.prompting.truncation import cut_more
from actors.settings import AgentSettings

Factory = Callable[[Role, ChatCompletionClient], ChatAgent]


class HostedAgent:
    """Lets the agent that `role.agent` makes play a role; the same interface as `RoleAgent`.

    The agent reads the request that a `RoleAgent` would send its model as one message (with the pictures, if any), and
    its final message is parsed as a model's reply is. One that does not parse gets one request to put it right.

    Raises:
        ValueError: `role.agent` does not name such a function.
    """

    def __init__(self, role: Role, model: Model, settings: AgentSettings | None = None) -> None:
        self.role = role
        self.memory = Memory()
        self._factory = load_factory(role.agent or "")
        self._model = model
        self._settings = settings or AgentSettings()

    async def take(self, turn: Turn) -> tuple[Message, Usage]:
        """Answers one turn. Where the agent raises an error, the turn has failed for that reason.

        Raises:
            MemoryLost: this agent was restarted in the middle of the discussion.
        """
        recalled, turn = self.memory.recall(turn), in_own_form(turn, self.role)
        message, usage = (self._dummy(turn), Usage()) if self.role.dummy else await self._answer(turn, recalled)
        # A failed turn too: `turn.recall` counts turns, whatever came of them.
        self.memory.remember(turn, message)
        return message, usage

    async def _answer(self, turn: Turn, recalled: Sequence[Message]) -> tuple[Message, Usage]:
        cut: tuple[str, ...] = ()
        usage = Usage()
        while True:
            role = self.role
            request = build_request(
                turn, role.modality, role.instruction, recalled, self._settings, cut, reads=role.evidence
            )
            # One client for each attempt: its counts and `too_long` are of this prompt alone.
            client = ModelClient(self._model, self._settings, seed=turn.seed, task=request)
            outcome = await self._ask(turn, request, client)
            # An agent that asks a model of its own has not called ours: then its own count is all there is.
            usage += client.spent if client.calls else client.spent + outcome.reported
            more: Sequence[str] = ()
            # An agent may have coped with a request that did not fit: then nothing has to be cut.
            if outcome.error and client.too_long is not None:
                more = cut_more(turn.question, self.role.evidence, cut, *client.too_long)
            if not more:
                break
            cut = (*cut, *more)
        reply, total = outcome.reply, client.total_usage() if client.calls else outcome.reported
        message = Message(
            id=f"{turn.round}/{turn.agent}",
            agent=turn.agent,
            round=turn.round,
            # A reply without reasoning is shown whole.
            content=(reply.content if reply else clean(outcome.text)) or one_line(outcome.text),
            answer=reply.answer if reply else None,
            confidence=reply.confidence if reply else None,
            status=Status.FAILED if outcome.error else Status.OK if reply else Status.UNPARSED,
            error=outcome.error,
            heard=tuple(heard.message.id for heard in turn.heard),
            cut=cut,
            seed=turn.seed,
            calls=client.calls or outcome.reported.calls,
            prompt_tokens=total.prompt_tokens,
            completion_tokens=total.completion_tokens,
            fields=reply.fields if reply else (),
            repair_tokens=_tokens(total) - outcome.first_tokens if outcome.first_tokens else 0,
        )
        return message, usage

    async def _ask(self, turn: Turn, request: Request, client: ModelClient) -> _Outcome:
        """A new agent's reply to a request; it gets a second chance where the first one cannot be read."""
        text, reply, reported, first_tokens = "", None, Usage(), 0
        try:
            agent = self._factory(self.role, client)
            try:
                whole, reading, message = form_of(turn), None, task_message(request)
                form = whole
                for _ in range(2):
                    # Zero before the first message, and what that one cost before the second.
                    first_tokens = _tokens(client.total_usage() if client.calls else reported)
                    response = await agent.on_messages([message], CancellationToken())
                    text = response.chat_message.to_model_text()
                    reported += _reported(response)
                    said = read(form, text, client.cut_off, whole)
                    reading = said if reading is None else reading.repaired_by(said)
                    reply = reply_of(turn, reading)
                    if reply is not None:
                        break
                    message = TextMessage(content=correction(form, said.faults), source="user")
                    form = still_asked(form, said.faults)
            finally:
                await agent.close()
        except ModelGone:  # ends the run: no later turn would fare better
            raise
        except Exception as error:  # the user's agent may raise anything
            return _Outcome(text, None, one_line(f"{type(error).__name__}: {error}"), reported, first_tokens)
        return _Outcome(text, reply, "", reported, first_tokens)

    def _dummy(self, turn: Turn) -> Message:
        heard = tuple(heard.message.id for heard in turn.heard)
        name = turn.agent
        return Message(f"{turn.round}/{name}", name, turn.round, content=DUMMY_SENTENCE, heard=heard, seed=turn.seed)


@dataclass(frozen=True, slots=True)
class _Outcome:
    """An agent's last message, the reply in it, or why there is none, and the usage that the agent itself reports.

    `first_tokens` are those of its first message where it was asked for a second one, else 0.
    """

    text: str
    reply: ParsedReply | None
    error: str
    reported: Usage
    first_tokens: int


def task_message(request: Request) -> BaseChatMessage:
    """The request as the agent reads it: its text, with its pictures after it."""
    text = task_text(request)
    if not request.images:
        return TextMessage(content=text, source="user")
    return MultiModalMessage(content=[text, *map(SourceImage, request.images)], source="user")


def _reported(response: Response) -> Usage:
    """The usage that an agent with a client of its own reports."""
    messages = (*(response.inner_messages or ()), response.chat_message)
    counts = [message.models_usage for message in messages if message.models_usage]
    return sum((Usage(1, count.prompt_tokens, 0, count.completion_tokens) for count in counts), Usage())


def _tokens(usage: Usage | RequestUsage) -> int:
    return usage.prompt_tokens + usage.completion_tokens


def load_factory(spec: str) -> Factory:
    """The function that `package.module:function` names.

    Raises:
        ValueError: there is no such module or function, or it does not take a role and a client.
    """
    name = spec.rpartition(":")[2]
    if not is_reference(spec):
        raise ValueError(f"agent={spec!r}: expected package.module:function, such as my_agents:make_critic")
    try:
        factory = imported(spec, "agent")
    except UserError as error:
        raise ValueError(f"{error}; it must be where Python looks for modules (PYTHONPATH)") from error
    if not callable(factory) or inspect.iscoroutinefunction(factory):
        raise ValueError(f"agent={spec}: {name} is not a plain function; expected one of a role and a client")
    try:
        # A wrong signature shows here and not at the first turn.
        inspect.signature(factory).bind(None, None)
    except TypeError as error:
        raise ValueError(f"agent={spec}: {name} is called as {name}(role, client), but it has {error}") from error
    return cast(Factory, factory)
