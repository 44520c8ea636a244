"""Defines what experiments ask of a runtime, whether agents are processes or objects of this process."""

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
    """Drops an event."""


class AgentTeam(Protocol):
    """Agents to ask, for one program that holds discussions."""

    usage: dict[str, Usage]
    recorded: bool

    async def ask(self, turn: Turn) -> Message:
        """The answer of the agent that is named in the turn."""

    def close(self, discussion: str) -> None:
        """Let all agents forget a discussion; no more turns of it may come."""

    def metered(self) -> AgentTeam:
        """Return a team of the same agents that counts its usage separately."""

    async def part(self) -> None:
        """Let agents that others go on asking forget what this team has closed."""


class Agents(Protocol):
    """Agents that were launched. Can be sent to other processes."""

    def team(self, name: str = "") -> AgentTeam:
        """A team of these agents; `name` keeps its discussions apart from other teams'."""

    async def close(self) -> None:
        """Close the connections of this process to the agents."""


class ModelPool(Protocol):
    """Replicas of a model. Can be sent to other processes."""

    def model(self, sender: str, reuse: Reuse | None) -> Model:
        """The pool as a model. `sender` is a name that no other process has."""


class Runtime(Protocol):
    """Launches pools of replicas, agents and other objects. A context manager: all of them end with its block."""

    @property
    def gpus(self) -> float:
        """GPUs that models can have."""

    @property
    def starting(self) -> int:
        """Number of actors or models that `wait_until_ready` waits for."""

    @property
    def loading(self) -> int:
        """Number of replicas among them, which take as long as their model takes to load."""

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
        """Start a pool of replicas, each of which works on at most `capacity` requests at once."""

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
        """Return the abilities of a pool's model."""

    def launch(self, name: str, made: Mapping[str, Callable[[], Any]]) -> Mapping[str, Any]:
        """Make objects in one process, and return them with their methods as coroutines.

        Each object has `state`, and `load`, which takes what `state` returned. `name` is for messages.
        """

    async def wait_until_ready(
        self, on_started: Callable[[str, int], None] = lambda kind, loading: None, on_event: OnEvent = ignore
    ) -> None:
        """Wait until everything that was launched is up. Raises ClusterError where something does not come up."""

    def clear(self) -> None:
        """End everything that was launched. More can be launched afterwards."""
