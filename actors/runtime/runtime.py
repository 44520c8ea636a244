"""What experiments ask of a runtime, whether agents are processes of a cluster or objects of this process."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Protocol

from actors.completions.cache import Reuse
from actors.messages import Abilities, Message, Role, Turn, Usage
from actors.models import Model
from actors.settings import AgentSettings

START_S = 120.0  # all comes up, unless there is a model to load that takes longer
OnEvent = Callable[[str], None]


def ignore(event: str) -> None:
    """Takes events that nobody wants to see."""


class AgentTeam(Protocol):
    """Agents to ask, for one holder of discussions."""

    usage: dict[str, Usage]
    recorded: bool

    async def ask(self, turn: Turn) -> Message:
        """The answer of the agent that is named in the turn."""

    def close(self, discussion: str) -> None:
        """Let all agents forget a discussion; no more turns of it may come."""

    def metered(self) -> AgentTeam:
        """The same agents, with what is spent through it counted in its own `usage` alone."""

    async def part(self) -> None:
        """Let agents that go on without this team forget what it has closed."""


class Agents(Protocol):
    """Agents that were launched. Can be sent to other processes."""

    def team(self, name: str = "") -> AgentTeam:
        """A team of these agents; `name` keeps its discussions apart from other teams'."""

    async def close(self) -> None:
        """Close what this process holds open for them."""


class ModelPool(Protocol):
    """Replicas of a model. Can be sent to other processes."""

    def model(self, sender: str, reuse: Reuse | None) -> Model:
        """The pool as a model. `sender` is a name that no other process has."""


class Runtime(Protocol):
    """Launches pools of replicas, agents and other objects, and ends them with the block that it is the context of."""

    @property
    def gpus(self) -> float:
        """GPUs that models can have."""

    @property
    def starting(self) -> int:
        """What `wait_until_ready` waits for."""

    @property
    def loading(self) -> int:
        """Replicas among them, which take as long as their model takes to load."""

    def launch_replicas(
        self,
        make_model: Callable[[], Model],
        replicas: int,
        cpus: float,
        gpus: float,
        capacity: int = 64,
        pool: str = "model",
        start_timeout_s: float = START_S,
    ) -> None:
        """Start a pool of so many replicas, each of which works on at most `capacity` requests at once."""

    def launch_agents(
        self,
        roles: Sequence[Role],
        settings: AgentSettings,
        reuse: Reuse | None = None,
        pool: str = "model",
        others: Mapping[str, tuple[str, Reuse | None]] = MappingProxyType({}),
    ) -> Agents:
        """Start an agent for each role, over pools that were launched before."""

    def pool(self, name: str = "model") -> ModelPool:
        """A pool, for a sender in another process."""

    def model(self, reuse: Reuse | None = None, pool: str = "model") -> Model:
        """A pool as a model for this process."""

    async def abilities(self, pool: str = "model") -> Abilities:
        """What the model of a pool can do."""

    def launch(self, name: str, made: Mapping[str, Callable[[], Any]]) -> Mapping[str, Any]:
        """What is `made`, in one process, with its methods as coroutines. Each has `state` and `load`, which takes back
        what that gave; `name` is for messages about the process."""

    async def wait_until_ready(
        self, on_started: Callable[[str, int], None] = lambda kind, loading: None, on_event: OnEvent = ignore
    ) -> None:
        """Wait until all that was launched is up. Raises ClusterError where it cannot be."""

    def clear(self) -> None:
        """End everything that was launched. More can be launched afterwards."""
