"""What the actor runtime costs per turn, and how full it keeps a slow model.

    python -m tests.benchmarks.runtime [--discussions 1000] [--concurrency 1024]

Ten agents and a decision agent, two rounds, complete graph: 21 turns a discussion, one after another, each
through the driver, an agent's actor and a replica's.

- instant model: turns per second, with a capacity that never holds a request back. Peers in the same run: Ray with one
  plain call per turn, and an AutoGen round-robin team of agents that answer at once, in one process, without prompts.
- slow model: one replica that serves `--capacity` requests at once, `--latency-s` each. `share` is how much of what is
  possible was reached: max(critical path, work / capacity) / seconds.

The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import time
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import ray
from autogen_agentchat.agents import BaseChatAgent
from autogen_agentchat.base import Response
from autogen_agentchat.conditions import MaxMessageTermination
from autogen_agentchat.messages import BaseChatMessage, TextMessage
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_core import CancellationToken

from actors.agents.roles import DECISION, TEXTUAL, VISUAL
from actors.messages import Completion, Kind, Question, Request, Source
from actors.models import Model
from actors.runtime.cluster import Cluster
from actors.runtime.team import RemoteTeam
from actors.settings import AgentSettings, RaySettings
from topologies.topology import Wired, Wiring, discussion_id

REPLY = "Reasoning: [t1] says so.\nAnswer: Tarn Hollow\nConfidence: 0.9"
ROLES = (*TEXTUAL, *VISUAL)
ROUNDS = 2
TURNS = ROUNDS * len(ROLES) + 1


class InstantModel:
    async def complete(self, request: Request) -> Completion:
        return Completion(request.id, REPLY, prompt_tokens=100, completion_tokens=12)


class SlowModel:
    def __init__(self, latency_s: float, capacity: int) -> None:
        self._latency_s = latency_s
        self._free = asyncio.Semaphore(capacity)

    async def complete(self, request: Request) -> Completion:
        async with self._free:
            await asyncio.sleep(self._latency_s)
        return Completion(request.id, REPLY, prompt_tokens=100, completion_tokens=12)


class Echo:
    def echo(self, value: str) -> str:
        return value


class Parrot(BaseChatAgent):
    """AutoGen's cheapest agent."""

    @property
    def produced_message_types(self) -> Sequence[type[BaseChatMessage]]:
        return (TextMessage,)

    async def on_messages(self, messages: Sequence[BaseChatMessage], cancellation_token: CancellationToken) -> Response:
        return Response(chat_message=TextMessage(content=REPLY, source=self.name))

    async def on_reset(self, cancellation_token: CancellationToken) -> None:
        """Nothing to forget."""


def complete_graph() -> Wired:
    n = len(ROLES)
    spatial = np.triu(np.ones((ROUNDS, n, n), bool), 1)
    temporal = np.ones((ROUNDS, n, n), bool)
    temporal[0] = False
    return Wired("full", [role.name for role in ROLES], Wiring(spatial, temporal, np.ones(n, bool)))


async def seconds_for(team: RemoteTeam, discussions: int, concurrency: int, first: int = 0) -> float:
    """Hold so many discussions; ten samples of each question, five passages each."""
    topology = complete_graph()
    evidence = tuple(Source(f"t{i}", f"t{i}", Kind.TEXT, f"Place {i}", "A town by the sea. " * 15) for i in range(5))
    gate = asyncio.Semaphore(concurrency)

    async def one(number: int) -> None:
        question = Question(f"q{number // 10}", "In which town was Ana Brix born?", evidence=evidence)
        async with gate:
            trace = await topology.answer(question, team.ask, seed=0, sample=number)
        team.close(discussion_id(topology.method, question, number))
        assert len(trace.turns) == TURNS
        assert trace.answer == "Tarn Hollow"

    start = time.perf_counter()
    await asyncio.gather(*(one(first + number) for number in range(discussions)))
    return time.perf_counter() - start


def through_actors(
    make_model: Callable[[], Model], discussions: int, concurrency: int, capacity: int = 64
) -> tuple[float, float]:
    """Seconds for the discussions, and seconds until all actors were up."""

    async def measured(cluster: Cluster) -> tuple[float, float]:
        start = time.perf_counter()
        cluster.launch_replicas(make_model, replicas=1, cpus=0, gpus=0, capacity=capacity)
        team = cluster.launch_agents((*ROLES, DECISION), AgentSettings()).team()
        await cluster.wait_until_ready()
        up = time.perf_counter() - start
        await seconds_for(team, 100, concurrency)
        return await seconds_for(team, discussions, concurrency, first=1000), up

    with Cluster(RaySettings()) as cluster:
        return asyncio.run(measured(cluster))  # the event loop ends before Ray, as in a run: Ray aborts otherwise


def plain_ray(calls: int = 2000) -> float:
    """Calls per second of one actor that returns its argument."""
    with Cluster(RaySettings()):
        echo = ray.remote(Echo).options(num_cpus=0).remote()
        ray.get(echo.echo.remote(REPLY))
        start = time.perf_counter()
        ray.get([echo.echo.remote(REPLY) for _ in range(calls)])
        return calls / (time.perf_counter() - start)


async def autogen(discussions: int = 40) -> float:
    """Turns per second of AutoGen teams, as many at once as there are discussions."""

    async def one() -> None:
        agents = [Parrot(f"agent_{number}", "A parrot") for number in range(len(ROLES))]
        team = RoundRobinGroupChat(list(agents), termination_condition=MaxMessageTermination(TURNS + 1))
        result = await team.run(task="In which town was Ana Brix born?")
        assert len(result.messages) == TURNS + 1

    await one()
    start = time.perf_counter()
    await asyncio.gather(*(one() for _ in range(discussions)))
    return discussions * TURNS / (time.perf_counter() - start)


def measure(
    discussions: int, concurrency: int, slow_discussions: int, latency_s: float, capacity: int
) -> dict[str, object]:
    load = os.getloadavg()[0]
    peers = {"ray_one_call_per_turn": round(plain_ray()), "autogen_round_robin": round(asyncio.run(autogen()))}
    instant_s, up_s = through_actors(InstantModel, discussions, concurrency, capacity=1024)
    instant = discussions * TURNS / instant_s
    slow, _ = through_actors(partial(SlowModel, latency_s, capacity), slow_discussions, slow_discussions, capacity)
    possible = max(TURNS * latency_s, slow_discussions * TURNS * latency_s / capacity)
    return {
        "turns_per_s": round(instant),
        "peers_turns_per_s": peers,
        "ratios": {name: round(instant / peer, 2) for name, peer in peers.items()},
        "slow": {"share": round(possible / slow, 3), "seconds": round(slow, 2), "possible_s": round(possible, 2)},
        "actors_up_s": round(up_s, 1),
        "load_before": round(load, 1),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--discussions", type=int, default=1000)
    parser.add_argument("--concurrency", type=int, default=1024)
    parser.add_argument("--slow-discussions", type=int, default=200)
    parser.add_argument("--latency-s", type=float, default=0.05)
    parser.add_argument("--capacity", type=int, default=64)
    print(json.dumps(measure(**vars(parser.parse_args()))))
