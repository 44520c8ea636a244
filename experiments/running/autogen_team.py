"""Exports a wiring as an AutoGen GraphFlow team, which answers as the simulator's agents do, and loads one.

AutoGen imports whatever class a component's file names. `load_team` makes only the components that `write_team` writes,
so that a file runs no code, and reaches no address, that its user has not named.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from autogen_agentchat.teams import DiGraphBuilder, GraphFlow

from actors.autogen.agent import RoleChatAgent
from actors.autogen.client import ModelClient
from actors.backends.model_choice import ModelChoice
from actors.errors import UserError
from actors.messages import Role
from actors.prompting.safe_text import one_line
from actors.received import BROKEN, read_plain
from actors.settings import AgentSettings
from experiments.planning.run_models import RunModels
from experiments.records.run_files import write_atomically
from topologies.topology import DECISION_AGENT
from topologies.wiring import Wiring, needed_turns, weighed_senders

FILE = "team.json"
FILE_BYTES = 100_000_000


def export_team(
    wiring: Wiring,
    agents: Sequence[str],
    roles: Mapping[str, Role],
    seed: int,
    model: ModelChoice,
    settings: AgentSettings | None = None,
    of_roles: Mapping[str, ModelChoice] = MappingProxyType({}),
) -> GraphFlow:
    """Makes one node for each turn on which the answer depends, `<agent>_<round>`, and `decision`.

    A node waits for its incoming edges: its senders of this round and the last, and its own last turn. AutoGen delivers
    every message to every node, so each lists the senders that it hears and their weights (Eqs. 6, 10); edges have no
    conditions. The decision waits for those of the last round, as the simulator's does.

    wiring: of N agents over T rounds; agents: N names.
    roles: by name, the agents' and `decision`.
    model: answers the agents; the nodes of a team share it. of_roles: the models of roles that have another, by role.

    Raises ValueError for an agent's name that is not an identifier.
    """
    speaks = needed_turns(wiring)
    spatial = weighed_senders(wiring.spatial, wiring.spatial_p, wiring.agents)
    temporal = weighed_senders(wiring.temporal, wiring.temporal_p, wiring.agents)
    client = ModelClient(model.model(), choice=model)
    clients = {role: ModelClient(choice.model(), choice=choice) for role, choice in of_roles.items()}
    # Each node with the names of the nodes that it waits for.
    nodes: list[tuple[RoleChatAgent, list[str]]] = []
    for t, i in np.argwhere(speaks).tolist():
        agent = agents[i]
        # An agent that speaks remembers the turns that it took before, all of which are needed too.
        own_turns = [node(agent, earlier + 1) for earlier in np.flatnonzero(speaks[:t, i]).tolist()]
        weights = {node(agents[sender], t + 1): weight for sender, weight in spatial.get((t, i), {}).items()}
        weights |= {node(agents[sender], t): weight for sender, weight in temporal.get((t, i), {}).items()}
        speaker = RoleChatAgent(
            roles[agent], clients.get(agent, client), node(agent, t + 1), t + 1, weights, own_turns, seed, settings
        )
        # Its last own turn is enough to wait for: that one has waited for those before it.
        nodes.append((speaker, [*weights, *own_turns[-1:]]))

    # The decision waits for all that speak in the last round, and reads only agents that the wiring lets it.
    last_round = [node(agents[i], wiring.rounds) for i in np.flatnonzero(speaks[-1]).tolist()]
    decision_senders = [node(agents[i], wiring.rounds) for i in np.flatnonzero(wiring.decision).tolist()]
    decision = RoleChatAgent(
        roles[DECISION_AGENT],
        clients.get(DECISION_AGENT, client),
        DECISION_AGENT,
        wiring.rounds + 1,
        {name: 1 / len(decision_senders) for name in decision_senders},
        (),
        seed,
        settings,
    )
    nodes.append((decision, last_round))

    graph = DiGraphBuilder()
    # All nodes before any edge: a sender may stand behind its receiver in the list of agents.
    for speaker, _ in nodes:
        graph.add_node(speaker)
    for speaker, senders in nodes:
        # A temporal edge to oneself and one's own last turn are the same edge.
        for sender in dict.fromkeys(senders):
            graph.add_edge(sender, speaker.name)
    return GraphFlow(graph.get_participants(), graph.build(), name="m3prune")


def node(agent: str, round: int) -> str:
    """Names an agent's turn in a round. Raises ValueError when AutoGen would not take it."""
    if not agent.isidentifier():
        raise ValueError(f"agent {agent!r} cannot be exported: AutoGen's names have letters, digits and _ only")
    return f"{agent}_{round}"


def write_team(
    folder: Path,
    wiring: Wiring,
    agents: Sequence[str],
    roles: Mapping[str, Role],
    seed: int,
    models: RunModels,
    settings: AgentSettings,
) -> Path | None:
    """Writes `team.json` in a learned graph's folder, and returns its path.

    Writes nothing where AutoGen's team would answer otherwise than the run's agents: where a file cannot name the model
    (a replay's, or one of the user's own), and where an AutoGen agent of the user's own has a role.
    """
    model = models.main.choice()
    choices: dict[str, ModelChoice] = {}
    for role, backend in models.of_roles.items():
        choice = backend.choice()
        if choice is None:
            return None
        choices[role] = choice
    if model is None or any(role.agent for role in roles.values()):
        return None
    of_roles = {name: choices[role.played] for name, role in roles.items() if role.played in choices}
    team = export_team(wiring, agents, roles, seed, model, settings, of_roles)
    path = folder / FILE
    content = json.dumps(team.dump_component().model_dump(mode="json"), indent=1)
    write_atomically(path, f"{content}\n".encode())
    return path


def load_team(path: Path, trusted: Collection[str] = ()) -> GraphFlow:
    """Loads a team that may use `trusted` addresses of endpoints, and send them `trusted` environment variables.

    Raises UserError for a file that no run writes, and for one that names anything that is not trusted.
    """
    try:
        component = json.loads(read_plain(path, FILE_BYTES))
        team = _config(component, GraphFlow.component_provider_override)
        if team.get("termination_condition") is not None:
            raise ValueError("it has a condition of its own")
        for participant in team["participants"]:
            speaker = _config(participant, RoleChatAgent.component_provider_override)
            if speaker["role"].get("agent") is not None:
                raise ValueError("a role is played by an agent of somebody's own")
            client = _config(speaker["model_client"], ModelClient.component_provider_override)
            choice = ModelChoice.model_validate(client)
            names_outside = choice.settings.get("base_url"), choice.key_env
            if unknown := [str(name) for name in names_outside if name and str(name) not in trusted]:
                raise ValueError(f"it names {', '.join(unknown)}; pass trusted={unknown} if you trust the file")
        return GraphFlow.load_component(component)
    # RuntimeError: of another version of AutoGen.
    except (*BROKEN, RuntimeError) as error:
        raise UserError(f"{path}: no team that can be loaded: {one_line(str(error))[:300]}") from error


def _config(component: Any, provider: str | None) -> dict[str, Any]:
    """Reads the configuration of a component. Raises ValueError for another class, which would be imported."""
    if component["provider"] != provider:
        raise ValueError(f"expected {provider}, and not {str(component['provider'])[:100]}")
    config: dict[str, Any] = component["config"]
    return config
