"""Makes the agent that holds a role, in whatever process. All instances of a role share it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from actors.agents.role_agent import RoleAgent
from actors.messages import Role
from actors.models import Model
from actors.settings import AgentSettings


def make_agent(role: Role, model: Model, settings: AgentSettings) -> Any:
    """Our own agent, or an AutoGen agent where the role names one."""
    if role.agent is None:
        return RoleAgent(role, model, settings)
    from actors.autogen.hosted import HostedAgent  # AutoGen takes longer to import than everything else here together

    return HostedAgent(role, model, settings)


def roles_held(agents: Iterable[Role]) -> dict[str, Role]:
    """The roles that agents have, each once, by name."""
    return {agent.played: replace(agent, name=agent.played, of=None) for agent in agents}


def instances_of(agents: Iterable[Role]) -> dict[str, str]:
    """The role of each agent that is one of several of it, by the agent's name."""
    return {agent.name: agent.of for agent in agents if agent.of}


def role_of_each(roles: Iterable[str], instances: Mapping[str, str]) -> dict[str, str]:
    """The role of every agent, by the agent's name, which is the role's where it has no `instances`."""
    several = set(instances.values())
    return {**{role: role for role in roles if role not in several}, **instances}
