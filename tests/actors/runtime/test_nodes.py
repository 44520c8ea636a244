"""Several nodes: the processes of a run are on all of them, and need no folder that they share."""

import asyncio
from functools import partial
from pathlib import Path

import pytest
import ray

from actors.agents.roles import DECISION, TEXTUAL, VISUAL
from actors.messages import Completion, Question, Request
from actors.runtime.cluster import Cluster
from actors.settings import AgentSettings, RaySettings
from tests.support.nodes import (
    NODES,
    actors,
    object_store,
    spread,
    three_nodes,
    wait_until_all_take_work,
    working_directories,
)
from topologies.baselines import constant_wiring
from topologies.graphs import complete
from topologies.topology import Wired, run_discussion

pytestmark = pytest.mark.ray

ROLES = (*TEXTUAL[:3], *VISUAL[:2])


class Says:
    """Answers with the seed, in many words."""

    def __init__(self, words: int) -> None:
        self._words = words

    async def complete(self, request: Request) -> Completion:
        return Completion(request.id, f"Reasoning: {'so ' * self._words}\nAnswer: {request.seed}\nConfidence: 0.5")


async def discussed(cluster: Cluster) -> list[str | None]:
    cluster.launch_replicas(partial(Says, 2000), replicas=NODES, cpus=0.5, gpus=0)
    team = cluster.launch_agents((*ROLES, DECISION), AgentSettings()).speaker()
    await cluster.wait_until_ready()
    wiring = constant_wiring(complete(len(ROLES)), len(ROLES), 2)
    topology = Wired("full", [role.name for role in ROLES], wiring)
    questions = [Question(f"q{number}", "Who?") for number in range(4)]
    traces = await asyncio.gather(*(run_discussion(topology, question, team, seed=5) for question in questions))
    assert all(turn.answer == str(turn.seed) for trace in traces for turn in trace.turns)
    return [trace.answer for trace in traces]


def test_a_running_cluster_is_used_on_all_nodes_without_folder_or_object_store_and_is_left_without_our_actors(
    tmp_path: Path,
) -> None:
    with three_nodes(tmp_path) as nodes:
        with Cluster(RaySettings(address=nodes.address)) as cluster:
            wait_until_all_take_work()
            stored = object_store()
            asyncio.run(discussed(cluster))
            living = actors(tmp_path)
            placed = spread(living)
            assert len(placed["ReplicaProcess"]) == len(placed["AgentProcess"]) == NODES
            assert working_directories(living) == {str(tmp_path / f"node-{number}") for number in range(NODES)}
            assert not [path for node in tmp_path.iterdir() for path in node.iterdir()]
            # Replies alone are 4 x 11 turns of some 6 kB, each heard by many: what is said goes by other ways.
            assert object_store() - stored < 100_000
            assert len(ray.util.list_named_actors(all_namespaces=True)) == NODES + len(ROLES) + 1
        with Cluster(RaySettings(address=nodes.address)):
            assert ray.util.list_named_actors(all_namespaces=True) == []
