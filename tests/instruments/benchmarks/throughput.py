"""What the actor runtime costs per turn with a model that answers at once.

    python -m tests.instruments.benchmarks.throughput [--turns 20000]
        [--repository gptswarm <its python> <its folder>] ...

Nine agents over two rounds, 18 spatial edges and all temporal ones, and a decision agent: 19 turns a discussion, each
through the driver, an agent's actor and a replica's, with prompts built, memories kept and traces made. Turns per
second at 8, 64 and 1,024 discussions at once, and the median time of a turn while nothing else happens.

Peers in the same run: the same discussions with all agents in this process (`runtime=inline`), Ray with one plain call
per turn, and other frameworks on the same graph (`peers`), of which AgentPrune and GPTSwarm are repositories, each with
an interpreter that has what it asks for (`repositories`).

The last line is one JSON object.
"""

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import ray

from actors.agents.roles import DECISION, TEXTUAL, VISUAL
from actors.messages import Completion, Kind, Question, Request, Source, Turn
from actors.runtime.cluster import Cluster
from actors.runtime.inline import Inline
from actors.runtime.runtime import Runtime
from actors.runtime.team import LiveSpeaker
from actors.settings import AgentSettings, RaySettings
from tests.instruments.benchmarks import repositories
from tests.instruments.benchmarks.peers import TASK, peers
from topologies.topology import Wired, ask_of, discussion_id
from topologies.wiring import Wiring

REPLY = "Reasoning: [t1] says so.\nAnswer: Tarn Hollow\nConfidence: 0.9"
ROLES = (*TEXTUAL, *VISUAL)[:9]
ROUNDS = 2
SPATIAL = 18
TURNS = ROUNDS * len(ROLES) + 1


class InstantModel:
    async def complete(self, request: Request) -> Completion:
        return Completion(request.id, REPLY, prompt_tokens=100, completion_tokens=12)


class Echo:
    def echo(self, value: str) -> str:
        return value


def wiring() -> Wiring:
    """Half of the edges of a complete acyclic graph, the same in both rounds, and all temporal ones."""
    n = len(ROLES)
    pairs = np.stack(np.triu_indices(n, 1), axis=1)
    spatial = np.zeros((ROUNDS, n, n), bool)
    for sender, receiver in np.random.default_rng(0).permutation(pairs)[:SPATIAL]:
        spatial[:, sender, receiver] = True
    temporal = np.ones((ROUNDS, n, n), bool)
    temporal[0] = False
    return Wiring.of_matrices(spatial, temporal, np.ones(n, bool))


def workload() -> Wired:
    return Wired("w", [role.name for role in ROLES], wiring())


async def seconds_for(team: LiveSpeaker, discussions: int, concurrency: int, first: int = 0) -> float:
    """Hold so many discussions; ten samples of each question, five passages each."""
    topology = workload()
    evidence = tuple(Source(f"t{i}", f"t{i}", Kind.TEXT, f"Place {i}", "A town by the sea. " * 15) for i in range(5))
    gate = asyncio.Semaphore(concurrency)

    async def one(number: int) -> None:
        question = Question(f"q{number // 10}", "In which town was Ana Brix born?", evidence=evidence)
        async with gate:
            trace = await topology.answer(question, ask_of(team), seed=0, sample=number)
        team.close(discussion_id(topology.method, question, number))
        assert len(trace.turns) == TURNS
        assert trace.answer == "Tarn Hollow"

    start = time.perf_counter()
    await asyncio.gather(*(one(first + number) for number in range(discussions)))
    return time.perf_counter() - start


async def measured(runtime: Runtime, turns: int) -> tuple[dict[str, int], float]:
    """Turns per second by the number of discussions at once, and the milliseconds of a turn that has all for itself."""
    runtime.launch_replicas(InstantModel, replicas=1, cpus=0, gpus=0, capacity=4096)
    team = runtime.launch_agents((*ROLES, DECISION), AgentSettings()).speaker()
    await runtime.wait_until_ready()
    rates, first = {}, 1000
    for concurrency in (8, 64, 1024):
        await seconds_for(team, min(concurrency, 100), concurrency, first)
        discussions = max(concurrency, turns // TURNS)
        rates[str(concurrency)] = round(
            discussions * TURNS / await seconds_for(team, discussions, concurrency, 2 * first)
        )
        first += 10 * discussions
    lone = []
    for number in range(300):
        start = time.perf_counter()
        await team.take(Turn(f"lone {number}", Question("lone", "Who?"), ROLES[0].name, 1, number))
        lone.append(1000 * (time.perf_counter() - start))
    return rates, statistics.median(lone)


def plain_ray(calls: int = 2000) -> float:
    """Calls per second of one actor that returns its argument."""
    with Cluster(RaySettings()):
        echo = ray.remote(Echo).options(num_cpus=0).remote()
        ray.get(echo.echo.remote(REPLY))
        start = time.perf_counter()
        ray.get([echo.echo.remote(REPLY) for _ in range(calls)])
        return calls / (time.perf_counter() - start)


def heard_by_turn() -> dict[str, list[str]]:
    """The turns of a discussion, as `<agent>_in_<round>`, each with those that it hears; the decision agent's last."""
    edges = wiring()
    names = [[f"{role.name}_in_{t}" for role in ROLES] for t in range(ROUNDS)]
    # In the order in which they may be taken: spatial edges lead from an agent to one behind it.
    heard: dict[str, list[str]] = {name: [] for of_round in names for name in of_round}
    for t, sender, receiver in edges.spatial.tolist():
        heard[names[t][receiver]].append(names[t][sender])
    for t, sender, receiver in edges.temporal.tolist():
        heard[names[t][receiver]].append(names[t - 1][sender])
    return heard | {f"{DECISION.name}_in_{ROUNDS}": names[-1]}


def repository_rate(name: str, python: str, folder: str, turns: int) -> int:
    """Turns per second of a peer in a process and an environment of its own, as many discussions at once as it takes
    for so many turns."""
    workload = {"senders": heard_by_turn(), "task": TASK, "says": REPLY, "discussions": max(1, turns // TURNS)}
    script = str(Path(repositories.__file__).resolve())
    command = [str(Path(python).absolute()), script, name]
    told = subprocess.run(
        command, cwd=folder, input=json.dumps(workload), text=True, check=True, stdout=subprocess.PIPE
    )
    return round(json.loads(told.stdout.splitlines()[-1]))


def measure(turns: int, repository: Sequence[tuple[str, str, str]] = ()) -> dict[str, object]:
    load = os.getloadavg()[0]
    others = asyncio.run(peers(heard_by_turn(), REPLY))
    others |= {name: repository_rate(name, python, folder, turns) for name, python, folder in repository}
    with Inline() as inline:
        inline_rates, inline_ms = asyncio.run(measured(inline, turns))
    # The event loop ends before Ray, as in a run: Ray aborts otherwise.
    with Cluster(RaySettings()) as cluster:
        rates, lone_ms = asyncio.run(measured(cluster, turns))
    return {
        "turns_per_s": rates,
        "lone_turn_ms": round(lone_ms, 2),
        "peers": {"ray_one_call_per_turn": round(plain_ray()), **others},
        "inline": {"turns_per_s": inline_rates, "lone_turn_ms": round(inline_ms, 2)},
        "load_before": round(load, 1),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=20_000, help="of each measurement, about")
    parser.add_argument(
        "--repository",
        nargs=3,
        action="append",
        default=[],
        metavar=("NAME", "PYTHON", "FOLDER"),
        help="measure agentprune or gptswarm too",
    )
    print(json.dumps(measure(**vars(parser.parse_args()))))
