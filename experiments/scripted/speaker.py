"""Agents in this process, with scripted replies in the place of a model's."""

import asyncio
import re
from collections.abc import Callable, Collection, Iterable
from random import Random

from actors.agents.role_agent import RoleAgent
from actors.errors import ModelError
from actors.messages import Completion, Message, Request, Role, Turn, TurnResult
from actors.models import Model
from actors.prompting.prompt import in_own_form
from actors.reader.reader import Reader, ReaderSettings
from actors.settings import AgentSettings

NONSENSE = "I would rather not say anything about that."
"""A reply in which no line has the form of a field."""
LONGEST_DELAY_S = 0.002  # enough to change which of two concurrent calls ends first
# Suffixes of a turn's id in its requests' ids: of a prompt that was cut to fit, and of a repair.
_SUFFIX = re.compile(r"(/cut-\d+)?(/repair)?$")

Reply = Callable[[Turn], str]
"""Writes the reply to a turn. The turn has the form of its role, where that has one."""


class ScriptedSpeaker:
    """Takes turns for agents over a model (by default the embedded reader) or a function of each turn.

    failing: agents whose model cannot be reached. babbling: agents whose replies have no form.
    delays: draws the duration of each turn. turns, requests: in the order of calls; messages: of answers.
    """

    def __init__(
        self,
        roles: Iterable[Role],
        model: Model | Reply | None = None,
        *,
        settings: AgentSettings | None = None,
        failing: Collection[str] = (),
        babbling: Collection[str] = (),
        delays: Random | None = None,
    ) -> None:
        self.roles = {role.name: role for role in roles}
        self.turns: list[Turn] = []
        self.requests: list[Request] = []
        self.messages: list[Message] = []
        self._model = model or Reader(ReaderSettings())
        self._failing = failing
        self._babbling = babbling
        self._delays = delays
        self._turn_of_request: dict[str, Turn] = {}
        # By turn: an unreadable reply is the same when it is asked for once more.
        self._texts: dict[str, str] = {}
        # The speaker is the model of each agent.
        self._agents = {name: RoleAgent(role, self, settings) for name, role in self.roles.items()}

    async def take(self, turn: Turn) -> TurnResult:
        self.turns.append(turn)
        self._texts.pop(turn.id, None)
        self._turn_of_request[turn.id] = in_own_form(turn, self.roles[turn.agent])
        delay_s = self._delays.random() * LONGEST_DELAY_S if self._delays else 0.0
        await asyncio.sleep(delay_s)
        result = await self._agents[turn.agent].take(turn)
        self.messages.append(result.message)
        return result

    async def ask(self, turn: Turn) -> Message:
        """Takes a turn for a topology, which sees its message alone."""
        return (await self.take(turn)).message

    def turn_of(self, request: Request) -> Turn:
        """Returns the turn, in the form of its role, for which an agent makes a request."""
        return self._turn_of_request[_SUFFIX.sub("", request.id)]

    async def complete(self, request: Request) -> Completion:
        """Completes a request of one of the agents."""
        self.requests.append(request)
        turn = self.turn_of(request)
        if turn.agent in self._failing:
            raise ModelError("the connection was refused")
        if turn.agent in self._babbling:
            return Completion(request.id, NONSENSE, prompt_tokens=9, completion_tokens=9)
        if not callable(self._model):
            return await self._model.complete(request)
        if turn.id not in self._texts:
            self._texts[turn.id] = self._model(turn)
        return Completion(request.id, self._texts[turn.id], prompt_tokens=9, completion_tokens=9)

    def close(self, discussion: str) -> None:
        for agent in self._agents.values():
            agent.memory.forget([discussion])
