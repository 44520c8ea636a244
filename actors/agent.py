"""One agent: recalls, reads, asks its model, remembers, and says. It is an AutoGen chat agent as well."""

from __future__ import annotations

from collections.abc import Sequence

from autogen_agentchat.agents import BaseChatAgent
from autogen_agentchat.base import Response
from autogen_agentchat.messages import BaseChatMessage, TextMessage
from autogen_core import CancellationToken

from actors.memory import Memory
from actors.messages import Completion, Heard, Message, Question, Request, Status, Turn
from actors.models import Model, ModelError
from actors.prompt import build_request, said
from actors.reply import parse_reply
from actors.roles import DUMMY_SENTENCE, Role
from actors.settings import AgentSettings


class RoleAgent(BaseChatAgent):
    """Plays one role with one model. `take` is the simulator's way in, `on_messages` AutoGen's.

    Args:
        role: who it is and what it reads.
        model: usually a pool of replicas.
        settings: what all agents share. A call that failed is repeated with the same seed, so that a retry gives what
            the first call would have given.
    """

    def __init__(self, role: Role, model: Model, settings: AgentSettings | None = None) -> None:
        super().__init__(name=role.name, description=role.instruction)
        self.role = role
        self.memory = Memory()
        self._model = model
        self._settings = settings or AgentSettings()
        self._task = ""
        self._chat: list[Heard] = []
        self._chats = 0

    async def take(self, turn: Turn) -> Message:
        """Answer one turn. Failure is data: the message's status says `unparsed` or `failed`, with the error.

        Raises:
            MemoryLost: this agent was restarted in the middle of the discussion.
        """
        recalled = self.memory.recall(turn)
        message = self._dummy(turn) if self.role.dummy else await self._answer(turn, recalled)
        self.memory.remember(turn, message)
        return message

    async def _answer(self, turn: Turn, recalled: Sequence[Message]) -> Message:
        role = self.role
        request = build_request(turn, role.modality, role.instruction, recalled, self._settings)
        completion, calls = await self._complete(request)
        reply = None if completion.stop == "error" else parse_reply(completion.text)
        status = Status.OK if reply else Status.FAILED if completion.stop == "error" else Status.UNPARSED
        return Message(
            id=f"{turn.round}/{role.name}",
            agent=role.name,
            round=turn.round,
            content=reply.content if reply else completion.text,
            answer=reply.answer if reply else None,
            confidence=reply.confidence if reply else None,
            status=status,
            error=completion.error,
            heard=tuple(heard.message.id for heard in turn.heard),
            seed=turn.seed,
            calls=calls,
            prompt_tokens=completion.prompt_tokens,
            completion_tokens=completion.completion_tokens,
            cached_tokens=completion.cached_tokens,
        )

    async def _complete(self, request: Request) -> tuple[Completion, int]:
        """The completion, or one with `stop="error"` after the last retry, and how many calls it took."""
        for call in range(1, self._settings.retries + 2):
            try:
                return await self._model.complete(request), call
            except ModelError as error:
                reason = str(error)
        return Completion(id=request.id, text="", stop="error", error=reason), call

    def _dummy(self, turn: Turn) -> Message:
        heard = tuple(heard.message.id for heard in turn.heard)
        name = self.role.name
        return Message(f"{turn.round}/{name}", name, turn.round, content=DUMMY_SENTENCE, heard=heard, seed=turn.seed)

    @property
    def produced_message_types(self) -> Sequence[type[BaseChatMessage]]:
        return (TextMessage,)

    async def on_messages(self, messages: Sequence[BaseChatMessage], cancellation_token: CancellationToken) -> Response:
        """AutoGen's way in: a message from `user` is the question, any other is what a colleague said."""
        for m in messages:
            if m.source == "user":
                self._task = m.to_text()
            elif m.source != self.name:
                said_answer = m.metadata.get("answer")
                self._chat.append(Heard(Message(f"0/{m.source}", m.source, 0, m.to_text(), said_answer), weight=1.0))
        self._chats += 1
        discussion = f"chat-{self._chats}"
        question = Question(id=discussion, text=self._task)
        turn = Turn(discussion, question, self.name, round=1, seed=self._chats, heard=tuple(self._chat))
        message = await self.take(turn)
        self.memory.forget([discussion])
        metadata = {"status": message.status.value} | ({"answer": message.answer} if message.answer else {})
        return Response(chat_message=TextMessage(content=said(message), source=self.name, metadata=metadata))

    async def on_reset(self, cancellation_token: CancellationToken) -> None:
        self._task = ""
        self._chat.clear()
        self._chats = 0
