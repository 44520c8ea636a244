"""Makes agents, and asks them wherever they are."""

from collections.abc import Awaitable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol

from actors.agents.role_agent import RoleAgent
from actors.backends.redaction import without_keys
from actors.errors import UserError
from actors.messages import Role, Turn, TurnResult
from actors.models import Model
from actors.settings import AgentSettings
from actors.wire import replace


def make_agent(role: Role, model: Model, settings: AgentSettings) -> RoleAgent:
    """Returns our own agent, or an AutoGen agent where the role names one. All instances of a role share it."""
    if role.agent is None:
        return RoleAgent(role, model, settings)
    from actors.autogen.hosted import HostedAgent  # AutoGen takes longer to import than everything else here together

    return HostedAgent(role, model, settings)


def distinct_roles(agents: Iterable[Role]) -> dict[str, Role]:
    """Returns the roles that agents have, each once, by name."""
    return {agent.played: replace(agent, name=agent.played, of=None) for agent in agents}


def instances_of(agents: Iterable[Role]) -> dict[str, str]:
    """Returns the role of each agent that is one of several of it, by the agent's name."""
    return {agent.name: agent.of for agent in agents if agent.of}


class AgentClient(Protocol):
    """Asks the agents of one role: a `Client`, agents of this process, or a test's own."""

    def __call__(self, item: Turn) -> Awaitable[TurnResult]:
        """Returns the result of a turn. Raises AgentLost."""

    def note(self, note: str) -> None:
        """Lets the agents forget a discussion, with the next turn at the latest."""

    def close(self) -> None:
        """Sends the notes that are left and leaves the agents."""


class LiveSpeaker:
    """Agents that take the turns of discussions.

    Agents elsewhere learn with their next turns that a discussion has ended, so that forgetting costs no call.

    agents: by role; an agent that is the only one of its role has the role's name.
    name: keeps these discussions apart from other speakers' with the same agents. Only the agents see it, before the
        discussion's id.
    instances: the role of each agent that is one of several of it.
    """

    def __init__(
        self, agents: Mapping[str, AgentClient], name: str = "", instances: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        self._agents = dict(agents)
        self._prefix = f"{name}/" if name else ""
        shared_roles = set(instances.values())
        self._role_of = {role: role for role in agents if role not in shared_roles} | dict(instances)

    async def take(self, turn: Turn) -> TurnResult:
        """Asks the turn's agent. Raises MemoryLost or AgentLost where the discussion has to be replayed."""
        if turn.agent not in self._role_of:
            raise UserError(f"a method asks {turn.agent!r}; the run's agents are {', '.join(self._role_of)}")
        if self._prefix:
            turn = replace(turn, discussion=f"{self._prefix}{turn.discussion}")
        result = await self._agents[self._role_of[turn.agent]](turn)
        # Before any agent hears the message. Requests are long: they are masked where they are written.
        return replace(result, message=without_keys(result.message))

    def close(self, discussion: str) -> None:
        """Lets all agents forget a discussion. No more turns of it may come."""
        for agent in self._agents.values():
            agent.note(f"{self._prefix}{discussion}")

    async def part(self) -> None:
        """Lets agents forget what was closed since their last turns, and leaves them to other speakers."""
        for agent in self._agents.values():
            agent.close()


class RoleSource(Protocol):
    """Agents of one role that were launched. Can be sent to other processes."""

    def client(self) -> AgentClient:
        """Returns a client for this process."""

    async def unload(self) -> None:
        """Closes what the client's process has loaded."""


@dataclass(frozen=True, slots=True)
class Agents:
    """Agents that were launched, for whoever holds discussions in any process.

    sources: by role; instances: the role of each agent that is one of several of it.
    """

    sources: Mapping[str, RoleSource]
    instances: Mapping[str, str]

    def speaker(self, name: str = "") -> LiveSpeaker:
        """Returns a speaker of these agents. `name` keeps its discussions apart from other speakers'."""
        clients = {role: source.client() for role, source in self.sources.items()}
        return LiveSpeaker(clients, name, self.instances)

    async def close(self) -> None:
        """Closes the models and caches that this process has loaded for them."""
        for source in self.sources.values():
            await source.unload()
