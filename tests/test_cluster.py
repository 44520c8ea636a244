"""The runtime on real Ray: processes that die, clusters that were there before, what is left behind."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import ray
from ray.cluster_utils import Cluster as Nodes

from actors.cluster import Cluster, ClusterError
from actors.messages import Completion, Question, Request, Trace
from actors.models import ModelError
from actors.roles import DECISION, TEXTUAL
from actors.settings import AgentSettings, RaySettings
from experiments.discussions import hold
from topologies.graphs import as_wirings, complete
from topologies.learner import Learner
from topologies.pruned import split
from topologies.topology import Wired
from topologies.wiring import Wirings

pytestmark = pytest.mark.ray

ROLES = TEXTUAL[:3]


class Slow:
    """Answers after a moment, with its seed; and says in which process it runs."""

    async def complete(self, request: Request) -> Completion:
        if request.id == "pid":
            return Completion("pid", str(os.getpid()))
        await asyncio.sleep(0.02)
        return Completion(request.id, f"Answer: {request.seed}", prompt_tokens=len(request.own))


class Broken:
    async def complete(self, request: Request) -> Completion:
        raise ModelError("no route to the model")


class Unloadable:
    def __init__(self) -> None:
        raise ValueError("there is no such model")

    async def complete(self, request: Request) -> Completion:
        raise AssertionError


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(RaySettings()) as running:
        yield running


async def discuss(cluster: Cluster, questions: int, disturb: asyncio.Event | None = None) -> list[Trace]:
    """Hold discussions; `disturb` is set once a third of them is over."""
    cluster.launch_replicas(Slow, replicas=2, cpus=0, gpus=0)
    team = cluster.launch_team((*ROLES, DECISION), AgentSettings())
    await cluster.wait_until_ready()
    [wiring] = split(as_wirings(complete(len(ROLES)), rounds=2))
    topology = Wired("full", [role.name for role in ROLES], wiring)
    over = 0

    async def one(number: int) -> Trace:
        nonlocal over
        trace = await hold(topology, Question(f"q{number}", "Who?"), team, seed=5)
        over += 1
        if disturb and over == questions // 3:
            disturb.set()
        return trace

    gate = asyncio.Semaphore(8)

    async def gated(number: int) -> Trace:
        async with gate:
            return await one(number)

    return await asyncio.gather(*(gated(number) for number in range(questions)))


def workers(kind: str) -> list[int]:
    """Process ids of live Ray workers that run actors of a class, by the title Ray gives them."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            title = path.read_text()
        except OSError:
            continue
        if re.match(rf"ray::{kind}\b", title):
            found.append(int(path.parent.name))
    return found


@pytest.mark.parametrize("kind", ["AgentActor", "ReplicaActor"])
async def test_a_process_that_is_killed_changes_nothing_that_is_answered(cluster: Cluster, kind: str) -> None:
    undisturbed = asyncio.Event()
    disturbed = asyncio.create_task(discuss(cluster, 60, undisturbed))
    await undisturbed.wait()
    killed = workers(kind)[0]
    os.kill(killed, signal.SIGKILL)
    traces = await disturbed
    assert killed not in workers(kind)
    assert [[turn.answer for turn in trace.turns] for trace in traces] == [
        [str(turn.seed) for turn in trace.turns] for trace in traces
    ]
    if kind == "AgentActor":
        assert all(turn.calls == 1 for trace in traces for turn in trace.turns)


async def test_turns_that_no_replica_can_serve_have_failed_with_the_reason(cluster: Cluster) -> None:
    cluster.launch_replicas(Broken, replicas=1, cpus=0, gpus=0)
    team = cluster.launch_team((*ROLES, DECISION), AgentSettings(retries=1))
    await cluster.wait_until_ready()
    [wiring] = split(as_wirings(complete(len(ROLES)), rounds=1))
    trace = await hold(Wired("full", [r.name for r in ROLES], wiring), Question("q", "?"), team, seed=1)
    assert {(turn.status, turn.error, turn.calls) for turn in trace.turns} == {("failed", "no route to the model", 2)}
    assert trace.answer is None


async def test_a_model_that_cannot_be_loaded_is_one_line(cluster: Cluster) -> None:
    cluster.launch_replicas(Unloadable, replicas=1, cpus=0, gpus=0)
    with pytest.raises(ClusterError, match=r"the model could not be loaded: .*there is no such model") as raised:
        await cluster.wait_until_ready()
    assert "\n" not in str(raised.value)


async def test_the_topology_actor_samples_what_the_plain_learner_samples(cluster: Cluster) -> None:
    modalities = ["text"] * 3 + ["visual"] * 2
    remote = cluster.launch(Learner, modalities, seed=3)
    ours = Learner(modalities, seed=3)
    theirs: Wirings = await remote.sample(4)
    np.testing.assert_array_equal(theirs.spatial, ours.sample(4).spatial)
    with pytest.raises(ValueError, match="k must be at least 1"):
        await remote.sample(0)


def test_a_running_cluster_of_several_nodes_is_used_and_left_running_without_our_actors() -> None:
    nodes = Nodes(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    try:
        nodes.add_node(num_cpus=1)
        with Cluster(RaySettings(address=nodes.address)) as cluster:
            assert len([node for node in ray.nodes() if node["Alive"]]) == 2
            traces = asyncio.run(discuss(cluster, 6))
            assert len(ray.util.list_named_actors(all_namespaces=True)) == 2
        assert [trace.status for trace in traces] == ["ok"] * 6
        with Cluster(RaySettings(address=nodes.address)):
            assert ray.util.list_named_actors(all_namespaces=True) == []
    finally:
        nodes.shutdown()
