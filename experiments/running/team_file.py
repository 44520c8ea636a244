"""Loads the team of a `team.json`, also one that somebody else made.

AutoGen imports whatever class a component's file names. Here only the components that we write are made, so that a
file runs no code, and reaches no address, that its user has not named.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

from autogen_agentchat.teams import GraphFlow

from actors.autogen.agent import RoleChatAgent
from actors.autogen.client import ModelClient
from actors.backends.model_choice import ModelChoice
from actors.errors import UserError
from actors.prompting.safe_text import one_line

FILE_BYTES = 100_000_000


def load_team(path: Path, trusted: Collection[str] = ()) -> GraphFlow:
    """The team.

    Args:
        trusted: the addresses of endpoints that it may ask, and the environment variables whose keys it may send them.

    Raises:
        UserError: the file is not one that a run writes, or names what is not trusted.
    """
    try:
        if path.stat().st_size > FILE_BYTES:
            raise ValueError(f"it has more than {FILE_BYTES:,} bytes")
        component = json.loads(path.read_text(encoding="utf-8"))
        team = _config(component, GraphFlow.component_provider_override)
        if team.get("termination_condition") is not None:
            raise ValueError("it has a condition of its own")
        for participant in team["participants"]:
            speaker = _config(participant, RoleChatAgent.component_provider_override)
            if speaker["role"].get("agent") is not None:
                raise ValueError("a role is played by an agent of somebody's own")
            client = _config(speaker["model_client"], ModelClient.component_provider_override)
            named = _names(ModelChoice.model_validate(client))
            if unknown := [name for name in named if name not in trusted]:
                raise ValueError(f"it names {', '.join(unknown)}; pass trusted={unknown} if you trust the file")
        return GraphFlow.load_component(component)
    # RuntimeError: nested too deep, or of another version of AutoGen.
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RuntimeError) as error:
        raise UserError(f"{path}: no team that can be loaded: {one_line(str(error))[:300]}") from error


def _config(component: Any, provider: str | None) -> dict[str, Any]:
    """The configuration of a component. Raises ValueError where it is of another class, which would be imported."""
    if component["provider"] != provider:
        raise ValueError(f"expected {provider}, and not {str(component['provider'])[:100]}")
    config: dict[str, Any] = component["config"]
    return config


def _names(choice: ModelChoice) -> list[str]:
    """The address and the key's variable that a model's choice names."""
    return [str(name) for name in (choice.settings.get("base_url"), choice.key_env) if name]
