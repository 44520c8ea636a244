"""Exports a wiring as an AutoGen GraphFlow team that gives the same answers as the simulator's agents."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from autogen_agentchat.teams import DiGraphBuilder, GraphFlow

from actors.autogen.agent import RoleChatAgent
from actors.autogen.client import ModelClient
from actors.backends.model_choice import ModelChoice
from actors.messages import Role
from actors.settings import AgentSettings
from experiments.config.config import Config
from experiments.running.models import model_backend, role_backends
from topologies.topology import DECISION_AGENT
from topologies.wiring import Wiring, needed_turns, weighed_senders

FILE = "team.json"


def export_team(
    wiring: Wiring,
    agents: Sequence[str],
    roles: Mapping[str, Role],
    seed: int,
    model: ModelChoice,
    settings: AgentSettings | None = None,
    of_roles: Mapping[str, ModelChoice] = MappingProxyType({}),
) -> GraphFlow:
    """One node for each turn on which the answer depends, `<agent>_<round>`, and `decision`.

    A node waits for its incoming edges: its senders of this round and the last, and its own last turn. AutoGen delivers
    every message to every node, so each lists the senders that it hears and their weights (Eqs. 6, 10); edges have no
    conditions. The decision waits for those of the last round, as the simulator's does.

    Args:
        wiring: of N agents over T rounds.
        agents: N names, each an identifier.
        roles: by name; the agents' and `decision`.
        seed: the run's.
        model: answers the agents; the nodes of a team share it.
        settings: those that all agents share.
        of_roles: the models of roles that have another, by role.

    Raises:
        ValueError: an agent's name is not an identifier.
    """
    rounds, needed = wiring.rounds, needed_turns(wiring)
    spatial = weighed_senders(wiring.spatial, wiring.spatial_p, wiring.agents)
    temporal = weighed_senders(wiring.temporal, wiring.temporal_p, wiring.agents)
    client = ModelClient(model.model(), choice=model)
    clients = {role: ModelClient(choice.model(), choice=choice) for role, choice in of_roles.items()}
    nodes: list[tuple[RoleChatAgent, list[str]]] = []
    for t in range(rounds):
        for i, agent in enumerate(agents):
            if not needed[t, i]:
                continue
            # An agent that speaks remembers the turns that it took before, all of which are needed too.
            own = [node(agent, r + 1) for r in range(t) if needed[r, i]]
            hears = {node(agents[j], t + 1): weight for j, weight in spatial.get((t, i), {}).items()}
            hears |= {node(agents[j], t): weight for j, weight in temporal.get((t, i), {}).items()}
            asked = clients.get(agent, client)
            speaker = RoleChatAgent(roles[agent], asked, node(agent, t + 1), t + 1, hears, own, seed, settings)
            # Its last own turn is enough to wait for: that one has waited for those before it.
            nodes.append((speaker, [*hears, *own[-1:]]))
    # The decision waits for all that speak in the last round, and reads only those that the wiring lets it.
    last = [node(agent, rounds) for agent, speaks in zip(agents, needed[-1], strict=True) if speaks]
    heard = [node(agent, rounds) for agent, hears in zip(agents, wiring.decision, strict=True) if hears]
    weights = {name: 1 / len(heard) for name in heard}
    asked = clients.get(DECISION_AGENT, client)
    decision = RoleChatAgent(roles[DECISION_AGENT], asked, DECISION_AGENT, rounds + 1, weights, (), seed, settings)
    graph = DiGraphBuilder()
    # All nodes before any edge: a sender may stand behind its receiver in the list of agents.
    for speaker, _ in (*nodes, (decision, last)):
        graph.add_node(speaker)
    for speaker, senders in (*nodes, (decision, last)):
        # A temporal edge to oneself and one's own last turn are the same edge.
        for sender in dict.fromkeys(senders):
            graph.add_edge(sender, speaker.name)
    return GraphFlow(graph.get_participants(), graph.build(), name="m3prune")


def node(agent: str, round: int) -> str:
    """The name of an agent's turn in a round. Raises ValueError when AutoGen would not take it."""
    if not agent.isidentifier():
        raise ValueError(f"agent {agent!r} cannot be exported: AutoGen's names have letters, digits and _ only")
    return f"{agent}_{round}"


def write_team(
    folder: Path,
    wiring: Wiring,
    agents: Sequence[str],
    roles: Mapping[str, Role],
    config: Config,
) -> Path | None:
    """Writes `team.json` in a run's folder, and returns its path.

    None, and no file, where its team would answer otherwise than the run's agents: where a file cannot name the model
    (a replay's, or one of the user's own), and where an AutoGen agent of the user's own plays a role.
    """
    model = model_backend(config).choice()
    own = role_backends(config, dict.fromkeys(role.played for role in roles.values()))
    choices = {role: backend.choice() for role, backend in own.items()}
    if model is None or None in choices.values() or any(role.agent for role in roles.values()):
        return None
    of_roles = {name: choice for name, role in roles.items() if (choice := choices.get(role.played)) is not None}
    team = export_team(wiring, agents, roles, config.seed, model, config.agents, of_roles)
    path = folder / FILE
    path.write_text(json.dumps(team.dump_component().model_dump(mode="json"), indent=1) + "\n")
    return path
