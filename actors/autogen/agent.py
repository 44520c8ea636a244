"""Makes one of our roles an AutoGen agent for any AutoGen team. The prompts are the simulator's."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from autogen_agentchat.agents import BaseChatAgent
from autogen_agentchat.base import Response
from autogen_agentchat.messages import BaseChatMessage, MultiModalMessage, StructuredMessage, TextMessage
from autogen_core import CancellationToken, Component, ComponentModel, Image
from autogen_core.models import RequestUsage
from pydantic import BaseModel, TypeAdapter

from actors.agents.role_agent import RoleAgent
from actors.autogen.client import ModelClient
from actors.autogen.conversation import source_of
from actors.autogen.hosted import HostedAgent
from actors.errors import MemoryLost
from actors.messages import Heard, Message, Modality, Question, Role, Status, Turn, derive_seed
from actors.prompting.prompt import message_text, shared_part
from actors.prompting.reply import parse_reply
from actors.prompting.safe_text import safe_line
from actors.settings import AgentSettings

USER = "user"
MESSAGE = "message"
# Built once: pydantic compiles a validator for it.
_MESSAGES = TypeAdapter(Message)


class QuestionContent(BaseModel):
    """A question with its evidence, as a message's content."""

    question: Question


class QuestionMessage(StructuredMessage[QuestionContent]):
    """Gives a team a question with its evidence. Other agents read it as text, without pictures."""

    def to_text(self) -> str:
        return shared_part(self.content.question, Modality.BOTH)[0]

    def to_model_text(self) -> str:
        return self.to_text()

    @classmethod
    def of(cls, question: Question) -> "QuestionMessage":
        return cls(content=QuestionContent(question=question), source=USER)


class RoleChatAgentState(BaseModel):
    """The question under discussion, each sender's last message on it (`last`), and this agent's turns (`own`)."""

    question: Question = Question(id="", text="")
    round: int = 1
    last: dict[str, Message] = {}
    own: list[Message] = []


class RoleChatAgentConfig(BaseModel):
    """The configuration of a `RoleChatAgent` as a component: its arguments by name."""

    role: Role
    model_client: ComponentModel
    name: str | None = None
    round: int = 1
    weights: dict[str, float] | None = None
    earlier: list[str] = []
    seed: int = 0
    settings: AgentSettings = AgentSettings()


class RoleChatAgent(BaseChatAgent, Component[RoleChatAgentConfig]):
    """Plays a role in an AutoGen team.

    A message from `user` is a new question: a `QuestionMessage`, or a text (with pictures) without further evidence.
    All other messages are colleagues'. The agent remembers its earlier turns on the question.

    role: instruction and modality; `role.agent` may name another AutoGen agent that plays it.
    model_client: any of our models.
    name: the agent's name in the team (default: the role's).
    round: number of the first turn.
    weights: the senders that the agent hears, with their weights. None: all, equally.
    earlier: names of the role's agents in the rounds before `round`, oldest first; their messages count as this
        agent's turns.
    seed: with the question's id, the round and the role, the source of every turn's seed.
    settings: settings that all agents share.
    """

    component_config_schema = RoleChatAgentConfig
    component_provider_override = "actors.autogen.agent.RoleChatAgent"

    def __init__(
        self,
        role: Role,
        model_client: ModelClient,
        name: str | None = None,
        round: int = 1,
        weights: Mapping[str, float] | None = None,
        earlier: Sequence[str] = (),
        seed: int = 0,
        settings: AgentSettings | None = None,
    ) -> None:
        super().__init__(name=name or role.name, description=role.instruction)
        self._role = role
        self._client = model_client
        self._first_round = round
        self._weights = None if weights is None else dict(weights)
        self._earlier = tuple(earlier)
        self._seed = seed
        self._settings = settings or AgentSettings()
        self._agent = (HostedAgent if role.agent else RoleAgent)(role, model_client.model, self._settings)
        self._state = RoleChatAgentState(round=round)

    @property
    def produced_message_types(self) -> Sequence[type[BaseChatMessage]]:
        """Includes `QuestionMessage`, which the agent only reads: a team passes on only declared message types."""
        return (TextMessage, QuestionMessage)

    async def on_messages(self, messages: Sequence[BaseChatMessage], cancellation_token: CancellationToken) -> Response:
        """Takes one turn after these messages. Raises MemoryLost where one under an `earlier` name is missing."""
        for message in messages:
            if message.source == USER:
                self._state = RoleChatAgentState(question=_question(message), round=self._first_round)
            # The team returns the agent's messages, which `own` has already.
            elif message.source != self.name:
                self._state.last[message.source] = _message(message, self._state.round)
        state = self._state
        remembered = [state.last[name] for name in self._earlier if name in state.last]
        if len(remembered) < len(self._earlier):
            raise MemoryLost(f"{self.name}: {len(remembered)} of {len(self._earlier)} earlier turns are there")
        turn = Turn(
            discussion=self.name,
            question=state.question,
            agent=self._role.name,
            round=state.round,
            seed=derive_seed(self._seed, state.question.id, state.round, self._role.name),
            heard=tuple(self._heard()),
            memories=(*remembered, *state.own),
        )
        try:
            taking = asyncio.ensure_future(self._agent.take(turn))
            cancellation_token.link_future(taking)
            answer = (await taking).message
        finally:
            # AutoGen can save and load `self._state`, which has the turns.
            self._agent.memory.forget([turn.discussion])
        state.own.append(answer)
        state.round += 1
        return Response(chat_message=text_message(answer, self.name))

    def _heard(self) -> Iterator[Heard]:
        """Yields the senders' last messages, as far as there are any that can be read."""
        messages = self._state.last
        weights = self._weights
        if weights is None:
            # Messages under earlier names are memory and not heard.
            senders = [name for name in messages if name not in self._earlier]
            weights = {name: 1 / len(senders) for name in senders}
        for name, weight in weights.items():
            message = messages.get(name)
            if message is not None and message.status is Status.OK:
                # A message of an earlier round comes over a temporal edge.
                yield Heard(message, weight, temporal=message.round < self._state.round)

    async def on_reset(self, cancellation_token: CancellationToken) -> None:
        self._state = RoleChatAgentState(round=self._first_round)

    async def save_state(self) -> Mapping[str, Any]:
        return self._state.model_dump(mode="json")

    async def load_state(self, state: Mapping[str, Any]) -> None:
        self._state = RoleChatAgentState.model_validate(state)

    def _to_config(self) -> RoleChatAgentConfig:
        return RoleChatAgentConfig(
            role=self._role,
            model_client=self._client.dump_component(),
            name=self.name,
            round=self._first_round,
            weights=self._weights,
            earlier=list(self._earlier),
            seed=self._seed,
            settings=self._settings,
        )

    @classmethod
    def _from_config(cls, config: RoleChatAgentConfig) -> "RoleChatAgent":
        # `dict` and not `model_dump`: role and settings have to stay objects.
        return cls(**{**dict(config), "model_client": ModelClient.load_component(config.model_client)})


def text_message(answer: Message, source: str) -> TextMessage:
    """Returns a message as others read it, with the whole as metadata."""
    metadata = {MESSAGE: _MESSAGES.dump_json(answer).decode(), "status": answer.status.value}
    if answer.answer is not None:
        metadata["answer"] = answer.answer
    if answer.status is Status.FAILED:
        text = f"(failed: {answer.error})"
    else:
        text = message_text(answer, safe_line(answer.content))
    return TextMessage(
        content=text,
        source=source,
        metadata=metadata,
        models_usage=RequestUsage(answer.prompt_tokens, answer.completion_tokens),
    )


def message_of(message: BaseChatMessage) -> Message | None:
    """Returns the whole message of a `RoleChatAgent`. None for another agent's."""
    packed = message.metadata.get(MESSAGE)
    return None if packed is None else _MESSAGES.validate_json(packed)


def _message(message: BaseChatMessage, round: int) -> Message:
    packed = message_of(message)
    if packed is not None:
        return packed
    text = message.to_model_text()
    source = message.source
    # A message without an answer in our form is heard as text.
    parsed = parse_reply(text) or Message("", source, round, content=text)
    return replace(parsed, id=f"{round}/{source}", agent=source, round=round)


def _question(message: BaseChatMessage) -> Question:
    """The question of a user's message, with its pictures as evidence."""
    if isinstance(message, QuestionMessage):
        return message.content.question
    if not isinstance(message, MultiModalMessage):
        text = message.to_model_text()
        # The text is also the id, so that equal questions get equal seeds.
        return Question(id=text, text=text)
    text = "\n".join(part for part in message.content if isinstance(part, str))
    pictures = [source_of(part) for part in message.content if isinstance(part, Image)]
    return Question(id=text, text=text, evidence=tuple(pictures))
